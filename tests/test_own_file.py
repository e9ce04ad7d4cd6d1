"""Locks end with the process that took them, whatever children it forked."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import scope
from hosttrees import kept, make
from test_run_checks import checks

from sandbox_native import own_file, recover
from sandbox_native.own_file import OwnFile
from sandbox_native.workspace import open_workspace


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "file").touch()
    return str(tmp_path / "file")


def locked(path: str) -> OwnFile:
    file = OwnFile()
    file.open(path, os.O_WRONLY | os.O_CLOEXEC)
    assert file.lock()
    return file


def is_locked(path: str) -> bool:
    with open(path, "wb") as other:
        try:
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def holds(path: str) -> bool:
    """Whether this process has the file open."""
    fds = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return path in {os.readlink(fd) for fd in fds if os.path.islink(fd)}


def test_a_forked_child_has_none_open(path: str) -> None:
    file = locked(path)

    def work() -> None:
        assert file.fd == -1 and not holds(path)
        file.close()
        again = OwnFile()
        again.open(path, os.O_WRONLY)
        assert not again.lock()

    scope.succeeds(work)
    assert is_locked(path)
    file.close()
    file.close()
    assert not is_locked(path)


def test_one_that_is_forgotten_keeps_no_lock(path: str) -> None:
    file = locked(path)
    del file
    assert not is_locked(path) and not holds(path)


def test_no_fork_comes_between_the_opening_of_one_and_its_being_known(path: str) -> None:
    """The fork begins when the file is just open, in another thread that does not know its descriptor yet."""

    def host() -> None:
        opening, forking, real = threading.Event(), threading.Event(), os.open

        def slow(*given: Any, **options: Any) -> int:
            fd = real(*given, **options)
            opening.set()
            forking.wait()
            return fd

        file = OwnFile()
        own_file.os.open = slow  # type: ignore[assignment]
        thread = threading.Thread(target=file.open, args=(path, os.O_WRONLY))
        thread.start()
        opening.wait()
        os.register_at_fork(before=forking.set)  # the hook of whoever comes last is called first
        scope.succeeds(lambda: _has_none(path))
        thread.join()
        assert holds(path)

    scope.succeeds(host)


def _has_none(path: str) -> None:
    assert not holds(path)


def test_a_killed_hosts_run_is_settled_though_a_child_lives_that_was_forked_while_it_was_prepared(w: Path) -> None:
    """The run is in nobody's hands yet: it is being looked at."""
    reading, writing = os.pipe()

    def host() -> None:
        before = checks().begin(open_workspace(str(w)))
        child = scope.child(signal.pause)
        make(w, ".bashrc")
        os.write(writing, str(child).encode())
        os.kill(os.getpid(), signal.SIGKILL)
        before.close()

    os.waitpid(scope.child(host), 0)
    child = int(os.read(reading, 20))
    for fd in (reading, writing):
        os.close(fd)
    try:
        assert [denial.name for denial in recover(w).denials] == ["/workspace/.bashrc"]
        assert not kept(w) and os.listdir(w) == []
    finally:
        os.kill(child, signal.SIGKILL)
