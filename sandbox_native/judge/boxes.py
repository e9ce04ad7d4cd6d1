"""The Sandboxes of a judge: one for each policy, kept as long as there is work for it. Host process; used by all who run
programs.

Programs of one language and store have equal policies, so a language needs one Sandbox, whatever the number of its submissions.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from types import TracebackType
from typing import Final, Self

from sandbox_native.errors import PolicyError
from sandbox_native.policy import Policy
from sandbox_native.sandbox import Sandbox

_MOST: Final = 32  # policies; each has a launcher, two boxes and their descriptors


class Boxes:
    """Safe in threads; a context manager. `pinned`: each run has a core for itself as long as there are cores."""

    def __init__(self, *, pinned: bool = False) -> None:
        self._pinned = pinned
        self._lock = threading.Lock()
        self._kept: OrderedDict[Policy, Sandbox] = OrderedDict()
        self._closed = False

    def of(self, policy: Policy) -> Sandbox:
        """Errors as of `Sandbox`. The one that was used least lately goes when there are too many."""
        with self._lock:
            if self._closed:
                raise PolicyError("this judge is closed", remedy="make a new one")
            kept = self._kept.get(policy)
            if kept is None:
                kept = self._kept[policy] = Sandbox(policy, pinned=self._pinned)
                if len(self._kept) > _MOST:
                    self._kept.popitem(last=False)  # closes itself when nobody runs anything in it any more
            self._kept.move_to_end(policy)
            return kept

    def end_runs(self) -> None:
        """Ends what runs, of all who use these; who comes later gets new Sandboxes."""
        with self._lock:
            self._end()

    def close(self) -> None:
        """Ends every run. Harmless when repeated."""
        with self._lock:
            self._closed = True
            self._end()

    def _end(self) -> None:
        for policy, sandbox in [*self._kept.items()]:  # one that a Ctrl-C leaves open stays here for another call
            sandbox.close()
            del self._kept[policy]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
