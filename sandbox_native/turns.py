"""A lock that is served in the order of asking, and that no exception of a signal's handler leaves taken by nobody.

A box is pumped in short turns by whoever needs it: a reader, a writer, somebody who waits. A plain lock would let
the thread that has just released it take it again before any other wakes up.

A handler that raises (Ctrl-C, an alarm) does so where the interpreter looks for signals: at the start of a function of ours,
after a call, at the end of a loop's round. So every step that takes or gives up something is one call into C, or stands in a
`try` whose handler begins with the one call that gives it up.
"""

from __future__ import annotations

import threading
from typing import Any, Final

_IN_THE_MIDDLE: Final = "this thread is in the middle of another call on the same Process"


class Turns:
    """Use as a context manager. `mine` tells a signal handler that its own thread holds the turn, or is waiting for it, so that
    it cannot wait itself: RuntimeError."""

    __slots__ = ("__exit__", "_asking", "_last", "_lock")

    def __init__(self) -> None:
        self._lock: Any = threading.RLock()  # an RLock, because it knows whose it is
        self._asking: dict[int, threading.Lock] = {}  # thread: what it holds as long as it waits
        self._last: threading.Lock | None = None  # of who asked last
        self.__exit__ = self._lock.__exit__  # C's: one of ours could be interrupted before it gave up anything

    @property
    def mine(self) -> bool:
        return self._lock._is_owned() or threading.get_ident() in self._asking

    def __enter__(self) -> None:
        lock = self._lock
        if lock._is_owned():
            raise RuntimeError(_IN_THE_MIDDLE)
        try:
            if self._asking or not lock.acquire(False):
                self._wait_in_line()
        except BaseException:
            try:
                lock.release()
            except RuntimeError:  # it was not ours yet
                pass
            raise

    take = __enter__
    """What the start of a `with` does, for a turn that outlasts a function: given up by `leave`."""

    def leave(self) -> None:
        self._lock.release()

    def _wait_in_line(self) -> None:
        """Each waits for the one before, and the first for the lock. One who gives up lets the one behind it go forward, which at
        worst waits for the lock side by side with another."""
        me, place = threading.get_ident(), threading.Lock()
        if me in self._asking:
            raise RuntimeError(_IN_THE_MIDDLE)
        place.acquire()
        try:
            self._asking[me] = place
            before, self._last = self._last, place  # no call in between: no other thread comes in
            if before is not None:
                with before:
                    pass
            self._lock.acquire()
        finally:
            if me in self._asking:
                del self._asking[me]
            place.release()
