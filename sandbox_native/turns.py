"""A lock that is served in the order of asking.

A box is pumped in short turns by whoever needs it: a reader, a writer, somebody who waits. A plain lock would let
the thread that has just released it take it again before any other wakes up.
"""

from __future__ import annotations

import threading
from collections import deque
from types import TracebackType


class Turns:
    """Use as a context manager. `mine` tells a signal handler that its own thread holds the turn, which it cannot wait for:
    RuntimeError."""

    __slots__ = ("_guard", "_holder", "_queue", "_taken")

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queue: deque[threading.Lock] = deque()
        self._taken = False
        self._holder: int | None = None

    @property
    def mine(self) -> bool:
        return self._holder == threading.get_ident()

    def take(self) -> None:
        """What the start of a `with` does, for a turn that outlasts a function: given up by `leave`."""
        if self.mine:
            raise RuntimeError("this thread is in the middle of another call on the same Process")
        with self._guard:
            if self._taken:
                ticket = threading.Lock()
                ticket.acquire()
                self._queue.append(ticket)
            else:
                self._taken = True
                ticket = None
        if ticket is not None:
            self._wait(ticket)
        self._holder = threading.get_ident()

    def _wait(self, ticket: threading.Lock) -> None:
        try:
            ticket.acquire()
        except BaseException:  # Ctrl-C: nobody may wait for this ticket
            with self._guard:
                if ticket in self._queue:
                    self._queue.remove(ticket)
                else:
                    self._pass_on()
            raise

    def leave(self) -> None:
        with self._guard:
            self._holder = None
            self._pass_on()

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.leave()

    def _pass_on(self) -> None:
        if self._queue:
            self._queue.popleft().release()
        else:
            self._taken = False
