"""How far a batch is, for people: a bar by rich on a terminal where that is installed, else a line now and then.

Called by clibatch.py. Nothing here runs in the background but rich's own painting.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

_LINE_SECONDS: Final = 10.0  # between two lines
_BAR_SECONDS: Final = 0.1  # between two updates

Show = Callable[[int, str], None]
"""Told how much of the whole is done, and what there is to say."""


@contextmanager
def shown_on(stream: TextIO, whole: int | None) -> Iterator[Show]:
    """`whole`: what the end is counted as; None where nobody knows."""
    if stream.isatty():
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        except ImportError:  # an extra
            pass
        else:
            columns = (
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            console = Console(file=stream)
            with Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False) as progress:
                task = progress.add_task("", total=whole)
                yield _seldom(_BAR_SECONDS, lambda done, words: progress.update(task, completed=done, description=words))
            return
    yield _seldom(_LINE_SECONDS, lambda done, words: print(_line(done, whole, words), file=stream, flush=True))


def _line(done: int, whole: int | None, words: str) -> str:
    return words if not whole else f"{100 * done // whole} %, {words}"


def _seldom(seconds: float, show: Show) -> Show:
    last = time.monotonic()

    def maybe(done: int, words: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= seconds:
            last = now
            show(done, words)

    return maybe


def silent(_: int, __: str) -> None:
    """A Show that shows nothing."""
