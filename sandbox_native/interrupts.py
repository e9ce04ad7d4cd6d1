"""Ctrl-C in a command that gives one outcome after the other: nothing that was done is lost.

Used by clibatch.py and the judge's command. Only the main thread of a process that has no handler of its own is served.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from types import FrameType, TracebackType
from typing import Self, TypeVar

Outcome = TypeVar("Outcome")


class Interrupts:
    """Ctrl-C, which is to reach us while we wait for an outcome, and to wait itself while we write one."""

    def __init__(self) -> None:
        self._waiting = self._came = False
        self._before: object = None

    def next_of(self, told: Generator[Outcome, None, None]) -> Outcome | None:
        """The next, None at the end. KeyboardInterrupt comes when what was done has been given."""
        self._waiting = True
        try:
            if self._came:
                self._came = False
                return told.throw(KeyboardInterrupt())
            return next(told, None)
        finally:
            self._waiting = False

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        if self._waiting:
            raise KeyboardInterrupt
        self._came = True

    def __enter__(self) -> Self:
        is_ours = threading.current_thread() is threading.main_thread()
        if is_ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, signal.default_int_handler)
