"""A host that has no user namespaces and is not root: what it gets is rung `landlock`. For the tests of that rung."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import boxes
from boxes import Guests

from sandbox_native import Policy, Rung, Sandbox
from sandbox_native.policy import PolicyFields

SOURCE = Path(__file__).parent / "probes" / "without.c"
NEW_USER = 0x10000000
SECONDS = 60


@contextmanager
def public(guests: Guests) -> Iterator[Guests]:
    """The guests where any user may read them, and as "launcher" one for which unshare(CLONE_NEWUSER) answers EPERM."""
    with boxes.public(guests, "storm") as found:
        program = found["launcher"].with_name("stricter")
        words = {"NUMBER": "SYS_unshare", "ERROR": "EPERM", "LAUNCHER": f'"{found["launcher"]}"'}
        words |= {"ARGUMENT": 0, "MASK": NEW_USER, "VALUE": NEW_USER}
        macros = [f"-D{key}={value}" for key, value in words.items()]
        subprocess.run(["cc", "-O1", *macros, str(SOURCE), "-o", str(program)], check=True)
        program.chmod(0o755)
        yield {**found, "launcher": program}


def policy(guests: Guests, **more: PolicyFields) -> Policy:
    """The guests at their own paths: there is no root of its own to show them elsewhere."""
    shown = [str(guests[name]) for name in ("verbs", "inside", "attempts", "removals", "storm")]
    return Policy.strict(readable=shown, minimum_rung=Rung.LANDLOCK, **more)  # type: ignore[misc]


def in_a_plain_host(guests: Guests, work: Callable[[], None]) -> None:
    """In a process of its own, which a hang ends."""
    _in_a_host(guests, work, become=boxes.become_plain)


def in_roots_host(guests: Guests, work: Callable[[], None]) -> None:
    """As in a container of root's that may not make namespaces."""
    _in_a_host(guests, work, become=lambda: None)


def _in_a_host(guests: Guests, work: Callable[[], None], become: Callable[[], None]) -> None:
    def host() -> None:
        signal.alarm(SECONDS)
        become()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(guests["launcher"])
        os.environ["HOME"] = "/"
        work()

    boxes.in_a_host(host)


def with_box(guests: Guests, work: Callable[[Sandbox], None]) -> None:
    def host() -> None:
        with Sandbox(policy(guests)) as box:
            work(box)

    in_a_plain_host(guests, host)
