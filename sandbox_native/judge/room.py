"""The bound on what a store takes, and the places where things are written before they are part of it. Host process; for
store.py.

What will be written is counted before, in the file `room`, so that it never says less than there is. When it passes the bound
everything is counted anew: what killed writers left goes, and of the rest what was not used for longest, unless somebody holds
it. The time of a file in index/ or results/ is that of the last use, the size of one in index/ that of its program.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from typing import Final

from sandbox_native.errors import SandboxError
from sandbox_native.judge.sealed import remove_tree, write_file

BLOCK: Final = 4096
OPEN: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT: Final = 0.9  # of the bound, after room was made


class StoreError(SandboxError, OSError):
    """The store cannot be used, has no room, or lost a program that was in it.

    `reason` says why, `path` where, `remedy` what to do.
    """

    reason: str
    path: str
    remedy: str

    def __init__(self, reason: str, path: str = "", remedy: str = "") -> None:
        self.reason, self.path, self.remedy = reason, path, remedy
        super().__init__(reason, path, remedy)

    def __str__(self) -> str:
        where = f"{self.path}: {self.reason}" if self.path else self.reason
        return f"{where}; {self.remedy}" if self.remedy else where


def blocks(size: int) -> int:
    """What a file of that size takes."""
    return -(-size // BLOCK) * BLOCK


@contextlib.contextmanager
def locked(path: str) -> Iterator[int]:
    """The file, made if need be, with a lock that one process or thread has at a time."""
    with _held(os.open(path, OPEN | os.O_CREAT, 0o600)) as fd:
        yield fd


@contextlib.contextmanager
def _held(fd: int) -> Iterator[int]:
    """With its lock; closed at the end, and in a forked child at once: a copy of it would keep the lock."""
    _HELD.add(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield fd
    finally:
        if fd in _HELD:
            _HELD.remove(fd)
            os.close(fd)


_HELD: Final[set[int]] = set()


def _let_go() -> None:
    while _HELD:
        os.close(_HELD.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class Room:
    """Of the store at `root`, which may take `max_bytes`."""

    def __init__(self, root: str, max_bytes: int) -> None:
        self._root, self._max_bytes = root, max_bytes

    def _path(self, *names: str) -> str:
        return os.path.join(self._root, *names)

    def lock(self) -> contextlib.AbstractContextManager[int]:
        """Programs come and go under it only."""
        return locked(self._path("room"))

    @contextlib.contextmanager
    def staged(self, size: int) -> Iterator[str]:
        """A directory for what will be published, for which `size` bytes are reserved. It goes at the end, with what is left in
        it. StoreError: they do not fit."""
        with self._new_place() as place:
            try:
                if size:
                    write_file(f"{place}/size", b"", 0o600)
                    os.truncate(f"{place}/size", size)
                    self._reserve(size)
                yield place
            finally:
                remove_tree(place)

    @contextlib.contextmanager
    def _new_place(self) -> Iterator[str]:
        while True:
            place = self._path("staging", secrets.token_hex(16))
            os.mkdir(place, 0o700)
            try:
                fd = os.open(place, _DIRECTORY)
            except FileNotFoundError:  # who made room took it for one that its writer left
                continue
            with _held(fd):
                if os.path.exists(place):
                    yield place
                    return

    def _reserve(self, size: int) -> None:
        with self.lock() as fd:
            taken = int.from_bytes(os.pread(fd, 8, 0), "big") + size
            if taken > self._max_bytes:
                taken = self._make()
            if taken > self._max_bytes:
                reason = f"no room for {size} bytes: {taken} would be in use, and {self._max_bytes} may be"
                raise StoreError(reason, self._root, "give it a larger max_bytes, or let go of programs")
            os.pwrite(fd, taken.to_bytes(8, "big"), 0)

    def _make(self) -> int:
        """Under the lock: takes away what is of no use, then what was not used for longest; how much there is then."""
        kept = sorted((*self._entries("index"), *self._entries("results")))
        taken = self._sweep() + sum(size for _, size, _, _ in kept)
        wanted = int(self._max_bytes * _KEPT)
        for _, size, kind, name in kept:
            if taken <= wanted:
                break
            if self._evict(name) if kind == "index" else self._forget(name):
                taken -= size
        return taken

    def _entries(self, kind: str) -> Iterator[tuple[int, int, str, str]]:
        with os.scandir(self._path(kind)) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat(follow_symlinks=False)
                    yield status.st_mtime_ns, blocks(status.st_size), kind, entry.name

    def _forget(self, key: str) -> bool:
        os.unlink(self._path("results", key))
        return True

    def _evict(self, name: str) -> bool:
        fd = os.open(self._path("index", name), OPEN)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        else:
            remove_tree(self._path("programs", name))
            os.unlink(self._path("index", name))
            return True
        finally:
            os.close(fd)

    def _sweep(self) -> int:
        """Takes away what killed writers left; how much the living ones have reserved."""
        reserved = 0
        for name in os.listdir(self._path("staging")):
            place = self._path("staging", name)
            try:
                fd = os.open(place, _DIRECTORY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with contextlib.suppress(FileNotFoundError):
                    reserved += os.stat(f"{place}/size").st_size
            else:
                remove_tree(place)
            finally:
                os.close(fd)
        return reserved
