"""Changes: what a run changed under `Writes.COMMIT`, and the say over it. Public; host process.

Made by the backend. It owns the descriptors of what the guest wrote, which lives as long as they do: in memory, or on disk
until it is committed, discarded or forgotten.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Literal, Self

from sandbox_native.commit.listing import Change, Listing
from sandbox_native.commit.overlay import Overlay
from sandbox_native.denials import Denial
from sandbox_native.errors import SandboxError

State = Literal["pending", "committed", "discarded"]

_REMEDY: Final = "run again, and decide in the process that ran it"


class Changes:
    """What the guest changed in host directories. Safe in threads; a context manager that discards what was not committed.

    - `added`, `modified`, `deleted`: what a commit does or, when `state` is "committed", did; see `Change`. Directories whose
      entries alone changed are not listed.
    - `refused`: what is not committed, and why.
    - `state`: "pending" until `commit` or `discard`; then nothing is held any more. A copy that was pickled has the lists and
      is never to decide.

    The host's directories may change meanwhile: what the guest changed replaces what is there then, file by file; what the
    guest did not touch stays as it is. Several directories are committed one after the other, each as a whole.
    """

    def __init__(self, overlays: Sequence[Overlay], release: Callable[[], None]) -> None:
        """`release` gives back what the overlays need; it is called once. Nothing is looked at yet."""
        self._lock = threading.RLock()
        self._left = list(overlays)
        self._release: Callable[[], object] = weakref.finalize(self, release)
        self._pid = os.getpid()
        self._listing, self._committed = Listing(), Listing()
        self._state: State = "pending"

    @property
    def added(self) -> tuple[Change, ...]:
        return tuple(self._listing.added)

    @property
    def modified(self) -> tuple[Change, ...]:
        return tuple(self._listing.modified)

    @property
    def deleted(self) -> tuple[Change, ...]:
        return tuple(self._listing.deleted)

    @property
    def refused(self) -> tuple[Denial, ...]:
        return self._listing.denials()

    @property
    def state(self) -> State:
        return self._state

    def look(self) -> None:
        """Makes the lists anew, against the host's directories as they are now. SetupError when that is not possible."""
        with self._deciding():
            listing = Listing()
            for overlay in self._left:
                overlay.look(listing)
            self._listing = listing

    def commit(self) -> tuple[Denial, ...]:
        """Commits everything that is not refused; what is refused comes back, and the lists are what was committed.

        SetupError when a directory could not be committed to: it is then as it was before, what was committed to others
        stays, and `commit` can be called again. SandboxError when there is nothing to decide any more.
        """
        with self._deciding():
            while self._left:
                self._left[0].commit(self._committed)
                self._left.pop(0)
            self._listing = self._committed
            self._end("committed")
            return self.refused

    def discard(self) -> None:
        """Throws the guest's changes away. Harmless when it was decided already, but for what was committed: that stays."""
        with self._lock:
            if self._state == "pending" and self._pid == os.getpid():
                self._end("discarded")

    close = discard

    @contextmanager
    def _deciding(self) -> Iterator[None]:
        with self._lock:
            if self._pid != os.getpid():
                raise SandboxError(f"these changes belong to the process that ran the program: {_REMEDY}")
            if self._state != "pending":
                raise SandboxError(f"these changes were {self._state} already: {_REMEDY}")
            yield

    def _end(self, state: State) -> None:
        self._state = state
        self._left.clear()
        self._release()

    def to_dict(self) -> dict[str, Any]:
        """For `json.dumps`; names as in `Result.to_dict`."""
        lists = {name: [change.to_dict() for change in getattr(self, name)] for name in ("added", "modified", "deleted")}
        return {"state": self._state, **lists, "refused": [denial.to_dict() for denial in self.refused]}

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(getattr(self, name))} {name}" for name in ("added", "modified", "deleted"))
        return f"<Changes: {counts}, {len(self.refused)} refused, {self._state}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.discard()

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._listing, self._state)


def _unpickled(listing: Listing, state: State) -> Changes:
    """The lists alone: what the guest wrote stays with the process that ran it."""
    copy = Changes((), _nothing)
    copy._listing, copy._state, copy._pid = listing, state, -1
    return copy


def _nothing() -> None:
    pass
