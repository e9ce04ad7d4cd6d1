"""The progress of a batch: a bar on a terminal with rich, plain lines without, and nothing of it in a pipe."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator

import pytest
from boxes import painted_on

from sandbox_native.progress import shown_on


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each look at the clock takes the next; the last stays."""
    times = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: times[0])
    return times


@pytest.fixture
def terminal() -> Iterator[tuple[io.TextIOWrapper, int]]:
    """A stream to a terminal, and the descriptor of who looks at it."""
    ours, theirs = os.openpty()
    with open(theirs, "w", encoding="utf-8") as stream:
        yield stream, ours
    os.close(ours)


def test_a_pipe_gets_a_plain_line_now_and_then(clock: list[float]) -> None:
    stream = io.StringIO()
    with shown_on(stream, 200) as show:
        for now, done in ((1.0, 10), (11.0, 50), (12.0, 60), (30.0, 200)):
            clock[0] = now
            show(done, f"{done} run")
    assert stream.getvalue() == "25 %, 50 run\n100 %, 200 run\n"


def test_without_a_known_end_there_is_no_percentage(clock: list[float]) -> None:
    stream = io.StringIO()
    with shown_on(stream, None) as show:
        clock[0] = 60.0
        show(7, "7 run")
    assert stream.getvalue() == "7 run\n"


def test_a_terminal_gets_a_bar(terminal: tuple[io.TextIOWrapper, int], monkeypatch: pytest.MonkeyPatch) -> None:
    stream, ours = terminal
    monkeypatch.setenv("TERM", "xterm")
    with shown_on(stream, 100) as show:
        before = time.monotonic()
        while time.monotonic() < before + 0.1:  # updates come at most as often
            pass
        show(50, "5 run")
    stream.close()
    painted = painted_on(ours)
    assert b"50%" in painted and b"5 run" in painted and b"\x1b[" in painted


def test_a_terminal_without_rich_gets_lines(
    terminal: tuple[io.TextIOWrapper, int], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, ours = terminal
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with shown_on(stream, 100) as show:
        clock[0] = 60.0
        show(50, "5 run")
    stream.close()
    assert painted_on(ours) == b"50 %, 5 run\r\n"
