"""Boxes that are known to wait for a run, and runs that are known to find none: what "parked" and "fresh" mean in the bench.

Linux; host process. Both are told by `Sandbox.stats`, for each run: what was not as it should be does not count.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

from sandbox_native import Limits, Process, Sandbox
from sandbox_native.bench.measure import Entry
from sandbox_native.warm.python import WarmPython

_CAT: Final = ("/bin/cat",)
_BUSY_SECONDS: Final = 7200.0


def boxed(sandbox: Sandbox, command: Sequence[str]) -> None:
    """What `bare` does, through a Sandbox."""
    result = sandbox.run(command)
    if not result.ok:
        raise RuntimeError(f"{command[0]} ended as {result.status}: {result.stderr[-500:]!r}")


class Tally:
    """How many runs of a Sandbox were counted since somebody last asked, and how."""

    def __init__(self, sandbox: Sandbox | WarmPython) -> None:
        self._sandbox = sandbox
        self._hits = self._misses = 0

    def begin(self) -> None:
        stats = self._sandbox.stats()
        self._hits, self._misses = stats.hits, stats.misses

    def hit(self) -> bool:
        """Whether all runs since `begin` found their box waiting."""
        return self._sandbox.stats().misses == self._misses

    def missed(self) -> bool:
        return self._sandbox.stats().hits == self._hits


def parked(sandbox: Sandbox, command: Sequence[str]) -> Entry:
    """A run whose box waits for it. The Sandbox was made with `prepared=`."""
    tally = Tally(sandbox)
    return Entry(run=lambda: boxed(sandbox, command), before=tally.begin, counts=tally.hit)


class Fresh:
    """Makes runs of a Sandbox find no box: all of it is made when the run is asked for.

    A Sandbox keeps two slots. One is kept busy. The other is stopped (SIGSTOP) during a run that is not counted, so that it
    cannot make its next box; when the run that counts is asked for it goes on, and that is part of what is timed.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._tally = Tally(sandbox)
        self._slot = -1  # pidfd of the stopped one
        self._busy, _ = _started(sandbox, replace(sandbox.limits, wall_seconds=_BUSY_SECONDS))

    def entry(self, command: Sequence[str]) -> Entry:
        return Entry(run=lambda: self._run(command), before=self._hold, counts=self._tally.missed)

    def _hold(self) -> None:
        last, slot = _started(self._sandbox, self._sandbox.limits)
        with last:
            self._slot = os.pidfd_open(slot)
            signal.pidfd_send_signal(self._slot, signal.SIGSTOP)
            assert last.stdin is not None
            last.stdin.close()
            last.wait()
        self._tally.begin()

    def _run(self, command: Sequence[str]) -> None:
        self._let_go()
        boxed(self._sandbox, command)

    def _let_go(self) -> None:
        slot, self._slot = self._slot, -1
        if slot >= 0:
            signal.pidfd_send_signal(slot, signal.SIGCONT)
            os.close(slot)

    def close(self) -> None:
        """Harmless when repeated."""
        self._let_go()
        self._busy.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _started(sandbox: Sandbox, limits: Limits) -> tuple[Process, int]:
    """A run that waits for the end of its input, and the pid of its slot."""
    before = _held()
    process = sandbox.spawn(_CAT, limits=limits)
    try:
        assert process.stdin is not None
        process.stdin.write(b"x")
        process.stdout.read(1)
        held = _held()
        (slot,) = {_parent(pid) for pid in held - before} & held  # the new one is init, and perhaps a new slot
        return process, slot
    except BaseException:
        process.close()
        raise


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def _held() -> set[int]:
    """The processes that this one holds a pidfd of."""
    found: set[int] = set()
    for number in os.listdir("/proc/self/fdinfo"):
        try:
            with open(f"/proc/self/fdinfo/{number}", encoding="ascii") as file:
                found.update(int(line.split()[1]) for line in file if line.startswith("Pid:"))
        except FileNotFoundError:
            continue  # the listing's own
    return found
