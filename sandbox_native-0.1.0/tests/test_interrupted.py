"""Ctrl-C at whatever line of ours the host's main thread has come to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from running import launchers

from sandbox_native import Sandbox

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


def test_ctrl_c_at_any_line_of_ours_leaves_nothing() -> None:
    """Every seventh line of a run, one after another."""
    sandbox, at = Sandbox(), 0
    while interrupted_at_line(at := at + 7, lambda: sandbox.run(["/bin/true"], collect=["none"])):
        assert sandbox.run(["/bin/true"]).ok
    assert at > 200 and launchers()
    sandbox.close()
    assert not launchers()


def interrupted_at_line(number: int, work: Callable[[], object]) -> bool:
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., Any] | None:
        nonlocal left
        if "/sandbox_native/" not in frame.f_code.co_filename or in_finalizer(frame):
            return None
        left -= event == "line"
        if not left:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def in_finalizer(frame: FrameType | None) -> bool:
    """An exception that is raised there is printed and forgotten, whatever it is."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
