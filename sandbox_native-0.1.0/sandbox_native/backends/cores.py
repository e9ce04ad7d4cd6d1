"""Which core a run is pinned to: the one that has the fewest of ours. For the whole process. Host process; linux.py's."""

from __future__ import annotations

import os
import threading
from collections import Counter
from typing import Final


class Cores:
    """Safe in threads. After a fork the child counts its own."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._lock = threading.Lock()
        self._runs: Counter[int] = Counter()

    def lend(self) -> int:
        """A core that this process may use."""
        allowed = os.sched_getaffinity(0)
        with self._lock:
            core = min(allowed, key=lambda one: (self._runs[one], one))
            self._runs[core] += 1
        return core

    def give_back(self, core: int) -> None:
        with self._lock:
            self._runs[core] -= 1


CORES: Final = Cores()
os.register_at_fork(after_in_child=CORES.forget)
