"""A host that has no user namespaces and is not root: what it gets is rung `landlock`. For the tests of that rung.

conftest.py makes its fixtures known.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import boxes
import pytest
from boxes import Guests
from running import processes_named, sh

from sandbox_native import Policy, Rung, Sandbox, Status
from sandbox_native.policy import PolicyFields

SOURCE = Path(__file__).parent / "probes" / "without.c"
NEW_USER = 0x10000000
SECONDS = 60
MARKS = [pytest.mark.kernel, *(pytest.mark.needs(what) for what in ("root", "cc", "landlock_scopes"))]
Try: TypeAlias = Callable[[Callable[[Sandbox], None]], None]


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    """The guests where any user may read them, and as "launcher" one for which unshare(CLONE_NEWUSER) answers EPERM."""
    with boxes.public(guest, "storm") as found:
        program = found["launcher"].with_name("stricter")
        words = {"NUMBER": "SYS_unshare", "ERROR": "EPERM", "LAUNCHER": f'"{found["launcher"]}"'}
        words |= {"ARGUMENT": 0, "MASK": NEW_USER, "VALUE": NEW_USER}
        macros = [f"-D{key}={value}" for key, value in words.items()]
        subprocess.run(["cc", "-O1", *macros, str(SOURCE), "-o", str(program)], check=True)
        program.chmod(0o755)
        yield {**found, "launcher": program}


@pytest.fixture
def with_box(public: Guests) -> Try:
    """`with_box(work)` calls `work(box)` in a host of its own."""
    return lambda work: in_a_box(public, work)


@pytest.fixture
def verbs(public: Guests) -> Callable[[str], list[str]]:
    return lambda words: [str(public["verbs"]), *words.split()]


@pytest.fixture
def secret() -> Iterator[Path]:
    """A directory of the plain user's, with a file that only that user may read."""
    directory = Path(tempfile.mkdtemp(prefix="rung-secret-"))
    (directory / "file").write_text("secret")
    (directory / "file").chmod(0o600)
    for path in (directory, directory / "file"):
        os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def only_ours_end() -> Iterator[None]:
    """A process of the same user, and one in a group of its own, that no run may touch."""
    users = {"user": boxes.PLAIN_USER, "group": boxes.PLAIN_USER, "extra_groups": []}
    bystanders = [subprocess.Popen(["/bin/sleep", "300"], process_group=group, **users) for group in (None, 0)]  # type: ignore[call-overload]
    yield
    assert [one.poll() for one in bystanders] == [None, None]
    states = [Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for one in bystanders]
    for one in bystanders:
        one.kill()
        one.wait()
    assert states == ["S", "S"]


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


def in_a_box(guests: Guests, work: Callable[[Sandbox], None]) -> None:
    def host() -> None:
        with Sandbox(policy(guests)) as box:
            work(box)

    in_a_plain_host(guests, host)


def attempts(box: Sandbox, public: Guests, words: str) -> dict[str, int]:
    """Each attempt as it was asked -> errno."""
    result = box.run([str(public["attempts"]), *words.split()])
    assert result.status is Status.OK, (result.status, result.hint, result.stderr)
    asked = [step.strip() for step in words.split(" , ")]
    lines = result.text.splitlines()
    assert len(lines) == len(asked), lines
    return {step: int(line.rsplit("errno=", 1)[1]) for step, line in zip(asked, lines, strict=True)}


def own(box: Sandbox, command: str) -> str:
    result = box.run(sh(command))
    assert result.status is Status.OK, (result.status, result.exit_code, result.stderr)
    return result.text


def left(uid: int = boxes.PLAIN_USER) -> list[str]:
    """Directories of runs that are still there."""
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"sandbox-native-{uid}-")]


def ours_of(uid: int) -> list[int]:
    """Launchers, slots and inits of that user."""
    found = []
    for pid in processes_named("sandbox-native-launcher"):
        try:
            if f"\nUid:\t{uid}\t" in Path(f"/proc/{pid}/status").read_text():
                found.append(pid)
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found
