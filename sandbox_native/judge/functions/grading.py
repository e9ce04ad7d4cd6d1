"""Many gradings at once, served by one thread: starts what there is room for, waits for whatever happens, gives outcomes.

Called by FunctionJudge and RewardFunction.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Generic, Protocol, TypeVar

from sandbox_native.errors import SandboxError, SetupError

_Outcome = TypeVar("_Outcome", covariant=True)
_T = TypeVar("_T")
_TURN_MS: Final = 200  # init keeps the limits; this is for the host's own deadline, and for signals


class UnderWay(Protocol[_Outcome]):
    """A grading that was started."""

    def descriptors(self) -> list[int]:
        """Readable when there is something to poll."""
        ...

    def poll(self) -> _Outcome | None: ...

    def close(self) -> None: ...


class Stopped(Exception):
    """Somebody asked for the end."""


class Stop:
    """Asks a batch to end, from another thread."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()

    def ask(self) -> None:
        os.write(self._writing, b".")

    def fileno(self) -> int:
        return self._reading

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


class _Batch(Generic[_T]):
    def __init__(self, places: int, stop: Stop | None) -> None:
        self._places, self._stop = places, stop
        self._running: dict[int, UnderWay[_T]] = {}
        self._begun: dict[int, Callable[[], UnderWay[_T]]] = {}  # how each was started, while it may be again
        self._of: dict[int, int] = {}  # descriptor -> number of the grading
        self._poll = select.poll()
        if stop is not None:
            self._poll.register(stop.fileno(), select.POLLIN)

    def run(self, starts: Iterable[Callable[[], UnderWay[_T]]]) -> Iterator[tuple[int, _T | SandboxError]]:
        todo = enumerate(starts)
        more = True
        try:
            while more or self._running:
                while more and len(self._running) < self._places:
                    item = next(todo, None)
                    more = item is not None
                    if item is not None and (failed := self._begin(*item)) is not None:
                        yield item[0], failed
                yield from self._serve()
        finally:
            self._end()

    def _begin(self, number: int, start: Callable[[], UnderWay[_T]]) -> SandboxError | None:
        try:
            begun = self._running[number] = start()
        except SandboxError as error:
            return error
        self._begun[number] = start
        self._watch(number, begun)
        return None

    def _begin_again(self, number: int, error: SandboxError) -> SandboxError | None:
        """A box that was lost with its slot before it began, as `Sandbox.run` looks for another slot then; once for each grading,
        in boxes that are all new."""
        start = self._begun.pop(number, None)
        if start is None or not isinstance(error, SetupError) or (error.stage, error.item) != ("lost", "slot"):
            return error
        again = self._begin(number, start)
        self._begun.pop(number, None)
        return again

    def _watch(self, number: int, begun: UnderWay[_T]) -> None:
        for fd in begun.descriptors():
            self._of[fd] = number
            self._poll.register(fd, select.POLLIN)

    def _forget(self, number: int) -> None:
        for fd in [fd for fd, of in self._of.items() if of == number]:
            del self._of[fd]
            self._poll.unregister(fd)

    def _serve(self) -> Iterator[tuple[int, _T | SandboxError]]:
        if not self._running:
            return
        ready = self._poll.poll(_TURN_MS)
        if any(fd not in self._of for fd, _ in ready):
            raise Stopped
        numbers = {self._of[fd] for fd, _ in ready} if ready else set(self._running)
        for number in sorted(numbers):
            outcome = self._step(number)
            if outcome is not None:
                yield number, outcome

    def _step(self, number: int) -> _T | SandboxError | None:
        begun = self._running[number]
        outcome: _T | SandboxError | None
        try:
            outcome = begun.poll()
        except SandboxError as error:
            outcome = error
        self._forget(number)
        if outcome is None:
            self._watch(number, begun)
            return None
        del self._running[number]
        begun.close()
        if isinstance(outcome, SandboxError):
            return self._begin_again(number, outcome)
        self._begun.pop(number, None)
        return outcome

    def _end(self) -> None:
        for number in list(self._running):
            self._forget(number)
            self._running.pop(number).close()


def graded(
    starts: Iterable[Callable[[], UnderWay[_T]]], places: int, stop: Stop | None = None
) -> Iterator[tuple[int, _T | SandboxError]]:
    """Starts each, `places` at once, and gives (number, outcome) as they end; a SandboxError where something of ours failed.
    `Stopped` when `stop` is asked. On leaving, however it comes, nothing runs any more."""
    return _Batch[_T](places, stop).run(starts)
