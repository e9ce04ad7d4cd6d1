"""Runs a piece of a test in a forked process that is alone in a control group, as `systemd-run --scope` would start it.

A cgroup v2 host can hand controllers down only when its group holds nobody else, and pytest shares its group with the
shell that started it. On v1 the process is forked just the same, so that a test reads alike for both.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from capabilities import own_groups

PREFIX = "sandbox-native-"


def _new_scope() -> Path | None:
    """A sibling of our own v2 group, where v2 has the controllers."""
    own = own_groups().get("")
    if own is None or "memory" not in (own / "cgroup.controllers").read_text().split():
        return None
    parent = own.parent.parent if own.name == "host" else own.parent
    scope = parent / f"test-{os.getpid()}-{time.monotonic_ns()}.scope"
    scope.mkdir()
    return scope


def remove_scope(scope: Path) -> None:
    for child in [path for path in scope.iterdir() if path.is_dir()]:
        remove_scope(child)
    scope.rmdir()


def alone(work: Callable[[], None]) -> None:
    """Runs `work` there; what it raises fails the test here. No group of ours may be left in the scope."""
    scope = _new_scope()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            if scope is not None:
                (scope / "cgroup.procs").write_text(str(os.getpid()))
            work()
            status = 0
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-60_000:])
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading, "rb") as pipe:
        text = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    left = []
    if scope is not None:
        left = [path.name for path in scope.iterdir() if path.name.startswith(PREFIX)]
        remove_scope(scope)
    assert status == 0, text or f"the process in the scope ended with wait status {status}"
    assert not left, f"left in the scope: {left}"


def child(work: Callable[[], None]) -> int:
    """Forks a process that runs `work` and ends; its pid. Its exit status is 1 when `work` raised."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def succeeds(work: Callable[[], None]) -> None:
    """Runs `work` in a forked process, which must not raise."""
    _, status = os.waitpid(child(work), 0)
    assert status == 0, f"wait status {status}"
