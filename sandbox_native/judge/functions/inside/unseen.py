"""Exceptions that end a part of a test and that nothing in it sees: in threads, tasks and finalizers, and those that Python takes
for the end of a loop or for an attribute that is not there. In the examiner's box."""

from __future__ import annotations

import gc
import inspect
import sys
import types
from collections.abc import Collection, Iterable, Iterator
from typing import Any

_ASYNC = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


class Unseen:
    """Of one test at a time; `watch` begins anew."""

    def __init__(self) -> None:
        self._found: list[BaseException] = []
        self._tasks = self._untraced = False

    def watch(self, read: Collection[str]) -> None:
        """`read`: names that the test may read, those of what it imports among them."""
        self._found.clear()
        self._tasks = "asyncio" in read
        # unittest takes the traceback away
        self._untraced = sys.version_info < (3, 12) and not any(name.startswith("assertRaises") for name in read)
        sys.unraisablehook = self._finalizer
        if "threading" in read:
            import threading

            threading.excepthook = lambda args: self._note(args.exc_value)
        if self._tasks:
            from asyncio import base_events

            handler: Any = lambda loop, context: self._note(context.get("exception"))  # noqa: E731
            base_events.BaseEventLoop.default_exception_handler = handler  # type: ignore[method-assign]

    def _note(self, error: BaseException | None) -> None:
        if error is not None:
            self._found.append(error)

    def _finalizer(self, args: Any) -> None:
        error = args.exc_value
        if isinstance(error, AssertionError) or hasattr(error, "of_program"):
            self._note(error)

    def first(self, raised: Iterable[BaseException]) -> BaseException | None:
        """`raised`: by the program, in their order."""
        if self._tasks:
            gc.collect()  # a task tells of its exception when it goes
        return next(iter(self._found), None) or _lost(list(raised), untraced=self._untraced)


def _lost(raised: list[BaseException], *, untraced: bool) -> BaseException | None:
    """One that no `except` caught and that came nowhere: code in C took it, as an iteration takes IndexError, and hasattr
    AttributeError. Up to CPython 3.11 such an exception has no traceback yet, later it has one whose outermost frame it left.
    What leaves a coroutine is its task's."""
    explained: set[int] = set()
    for error in reversed(raised):
        trace = error.__traceback__
        if trace is None and untraced:
            return error
        if trace is None:
            continue
        frame = trace.tb_frame
        left = frame.f_lasti == trace.tb_lasti and not frame.f_code.co_flags & _ASYNC
        if left and id(frame) not in explained:
            return error
        explained.update(map(id, _frames(trace)))  # a later one left them
    return None


def _frames(trace: types.TracebackType | None) -> Iterator[types.FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
