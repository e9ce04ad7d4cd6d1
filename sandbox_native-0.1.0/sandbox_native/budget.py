"""Admission by resources: what all the runs of a process may have together. Public; every system.

A run that does not fit waits; nothing is killed to make room. Served in the order of asking, so that a large run is not passed by
small ones for ever.
"""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.limits import Limits

_ROUNDING: Final = 1e-9  # of shares of cores that were added up
_LIVE: Final[weakref.WeakSet[Budget]] = weakref.WeakSet()


def _after_fork() -> None:
    for budget in list(_LIVE):
        budget.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Budget:
    """Shared by any number of Sandboxes, threads and event loops of a process: `Sandbox(…, budget=budget)`.

    A Process has its share until somebody has seen its end (`wait`, `poll` or `close`): a thread that starts another run
    before that may wait for itself. `cpu`: cores; a run takes its `Limits.cpus`, or 1. `memory_bytes`: a run takes its
    `Limits.memory_bytes`. None: not counted. `PolicyError` for a run that wants more than there is at all.
    """

    def __init__(self, *, cpu: float | None = None, memory_bytes: int | None = None) -> None:
        for name, value in (("cpu", cpu), ("memory_bytes", memory_bytes)):
            if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf):
                raise PolicyError("not a positive number", field=f"Budget.{name}", value=value, remedy="give one, or None")
        self.cpu, self.memory_bytes = cpu, memory_bytes
        self.forget()
        _LIVE.add(self)

    def forget(self) -> None:
        """In a forked child of the host: the runs are the parent's."""
        self._lock = threading.Lock()
        self._waiting: deque[Claim] = deque()
        self._cpu_taken, self._memory_taken = 0.0, 0

    def ask(self, limits: Limits, granted: Callable[[], None]) -> Claim:
        """A claim for one run. `granted` is called once, from whatever thread made room, or at once from this one."""
        cpu = self.check(limits)
        claim = Claim(self, cpu, limits.memory_bytes, granted)
        with self._lock:
            self._waiting.append(claim)
        self._grant()
        return claim

    def check(self, limits: Limits) -> float:
        """The cores that a run takes. PolicyError for one that can never be let in."""
        cpu = limits.cpus if limits.cpus is not None else 1.0
        wanted = (("cpu", cpu, self.cpu), ("memory_bytes", limits.memory_bytes, self.memory_bytes))
        for name, wants, has in wanted:
            if has is not None and wants > has:
                remedy = f"raise Budget.{name}, or lower the run's limit"
                raise PolicyError(f"more than the Budget's {has} at all", field=f"limits.{name}", value=wants, remedy=remedy)
        return cpu

    @contextmanager
    def hold(self, limits: Limits) -> Iterator[None]:
        """Waits until there is room for a run, and keeps it meanwhile."""
        there = threading.Event()
        claim = self.ask(limits, there.set)
        try:
            there.wait()
            yield
        finally:
            claim.release()

    def _fits(self, claim: Claim) -> bool:
        cpu = self.cpu is None or self._cpu_taken + claim.cpu <= self.cpu + _ROUNDING
        return cpu and (self.memory_bytes is None or self._memory_taken + claim.memory_bytes <= self.memory_bytes)

    def _grant(self) -> None:
        """To the first that wait, as far as there is room."""
        told = []
        with self._lock:
            while self._waiting and self._fits(self._waiting[0]):
                claim = self._waiting.popleft()
                claim.held = True
                self._cpu_taken += claim.cpu
                self._memory_taken += claim.memory_bytes
                told.append(claim.granted)
        for granted in told:  # without the lock: it may ask for more
            granted()

    def give_back(self, claim: Claim) -> None:
        """Of `Claim.release`."""
        with self._lock:
            if claim.pid != os.getpid():
                return
            if claim.held:
                claim.held = False
                self._cpu_taken -= claim.cpu
                self._memory_taken -= claim.memory_bytes
            elif claim in self._waiting:
                self._waiting.remove(claim)
        self._grant()


class Claim:
    """What one run has, or waits for."""

    __slots__ = ("_budget", "cpu", "granted", "held", "memory_bytes", "pid")

    def __init__(self, budget: Budget, cpu: float, memory_bytes: int, granted: Callable[[], None]) -> None:
        self._budget, self.cpu, self.memory_bytes, self.granted = budget, cpu, memory_bytes, granted
        self.held = False
        self.pid = os.getpid()

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Released only if what is done meanwhile fails."""
        try:
            yield
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Gives it back, or waits no more. Harmless when repeated."""
        self._budget.give_back(self)
