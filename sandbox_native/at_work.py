"""Which runs of this process are at work in which directory of the host, and what was not there when they began.

Used by run_checks.py. A guest makes a denied name, and a second run begins in the same directory while the first goes on: to
the second the name has been there before. It is no more the host's for that: as long as somebody is at work who may have
made it, it counts as absent. (Of other processes nobody here knows; what their guests made is told as replaced.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

Directory = tuple[int, int]
"""Device and inode."""


@dataclass(slots=True, eq=False)
class Stay:
    """One run in one directory, from `enter` on; `doubtful` are names that were absent when it began, or when one began that is
    still there."""

    directory: Directory
    doubtful: frozenset[str]


@dataclass(slots=True)
class AtWork:
    """Safe in threads."""

    _lock: threading.RLock = field(default_factory=threading.RLock)  # a signal handler may run something too
    _stays: dict[Directory, list[Stay]] = field(default_factory=dict)

    def enter(self, stay: Stay) -> None:
        """The caller has it before, so that whatever interrupts this can be undone with `leave`."""
        with self._lock:
            others = self._stays.setdefault(stay.directory, [])
            stay.doubtful = stay.doubtful.union(*(other.doubtful for other in others))
            others.append(stay)

    def leave(self, stay: Stay) -> None:
        """Harmless when repeated, and for one that never entered."""
        with self._lock:
            left = [other for other in self._stays.get(stay.directory, ()) if other is not stay]
            if left:
                self._stays[stay.directory] = left
            else:
                self._stays.pop(stay.directory, None)

    def forget(self) -> None:
        """In a forked child of the host: all of them are the parent's."""
        self._lock = threading.RLock()
        self._stays = {}

    def __iter__(self) -> Iterator[Stay]:
        with self._lock:
            return iter([stay for stays in self._stays.values() for stay in stays])


EVERYWHERE = AtWork()
"""Of this process: two Sandboxes may show the same directory."""

os.register_at_fork(after_in_child=EVERYWHERE.forget)
