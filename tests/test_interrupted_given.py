"""Ctrl-C at whatever line of ours while a run gets what it is given of the host's: nobody is left at work, and nothing open."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import scope
from hosttrees import kept, make, opened
from test_interrupted import in_finalizer
from test_run_checks import checks

from sandbox_native import Sandbox, recover, state
from sandbox_native.at_work import EVERYWHERE
from sandbox_native.commit import handles, place, uppers
from sandbox_native.commit.uppers import Upper
from sandbox_native.run_checks import Before
from sandbox_native.workspace import open_workspace

FILES = {"at_work.py", "claims.py", "handles.py", "lock.py", "notes.py", "own_file.py", "place.py"}
FILES |= {"run_checks.py", "state.py", "uppers.py", "workspace.py"}


def interrupted_at_line(number: int, work: Callable[[], object]) -> str:
    """Which line of `FILES` that is; empty when `work` came to its end before."""
    left, where = number, ""

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal left, where
        path = frame.f_code.co_filename
        if "/sandbox_native/" not in path or os.path.basename(path) not in FILES or in_finalizer(frame):
            return None
        left -= event == "line"
        if not left:
            sys.settrace(None)
            where = f"{path}:{frame.f_lineno}"
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return where
    finally:
        sys.settrace(before)
    return ""


def leaves_nothing(work: Callable[[], object], left: Callable[[], object]) -> None:
    """At no line; in a host of its own, since a line that closes a descriptor may lose it."""

    def host() -> None:
        work()
        nothing, number = left(), 0
        while where := interrupted_at_line(number := number + 1, work):
            assert left() == nothing, where
        assert number > 10

    scope.succeeds(host)


def left_of(root: Path) -> tuple[int, list[str], list[str]]:
    """Who is at work, what is remembered, and which files are locked."""
    fds = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    files = [os.readlink(fd) for fd in fds if os.path.islink(fd)]
    return len(list(EVERYWHERE)), sorted(kept(root)), [name for name in files if name.startswith(f"{state.path()}/")]


pytestmark = pytest.mark.kernel


def test_nobody_is_left_at_work_and_no_note(w: Path) -> None:
    one, begun = checks(), list[Before]()
    make(w, ".git/hooks/")
    shown = open_workspace(str(w))

    def run() -> None:
        begun.append(one.begin(shown))
        begun[-1].close()

    def left() -> object:
        while begun:
            begun.pop().close()  # as the box does that has it
        return left_of(w)

    leaves_nothing(run, left)
    shown.close()


def test_a_commit_that_is_interrupted_keeps_no_lock(w: Path) -> None:
    def lock() -> None:
        with opened(w) as root, place.locked(root):
            pass

    def left() -> object:
        recover(w)
        return left_of(w)

    leaves_nothing(lock, left)


def test_a_directory_of_changes_that_is_interrupted_is_nobodys(w: Path) -> None:
    made: list[Upper] = []

    def make_one() -> None:
        with opened(w) as root:
            made.append(uppers.make(root, str(w), (os.geteuid(), os.getegid())))
        made[-1].close(remove=True)

    def left() -> object:
        while made:
            made.pop().close(remove=True)
        recover(w)
        return left_of(w), os.listdir(w.parent)

    leaves_nothing(make_one, left)


def test_what_is_opened_is_the_callers_or_closed(w: Path) -> None:
    make(w, "a/b/c/")

    def work() -> None:
        with opened(w) as root:
            os.close(handles.open_above(root, ["a", "b", "c", "x"]))
        os.close(open_workspace(str(w)).fd)

    leaves_nothing(work, lambda: len(os.listdir("/proc/self/fd")))


@pytest.mark.needs("userns", "workspace")
def test_what_a_box_is_to_have_is_closed_where_the_box_is_interrupted(w: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox() as sandbox:
        assert sandbox.run(["true"], workspace=w).ok
        for name in ("Turns", "Watched", "BoxStreams.__init__"):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(f"sandbox_native.backends.box.{name}", interrupt)
                sandbox.run(["true"], workspace=w)
            assert left_of(w) == (0, [], [])
        assert sandbox.run(["true"], workspace=w).ok


def interrupt(*given: Any, **options: Any) -> Any:
    raise KeyboardInterrupt
