"""Claims: files in the state directory (state.py) that are locked as long as their host lives. Linux, host process.

Used by notes.py and commit/uppers.py. Nobody may read one, so that no guest that sees it on a read-only mount can open it and
keep the lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sandbox_native import state
from sandbox_native.errors import SetupError
from sandbox_native.own_file import OwnFile
from sandbox_native.state import Kept

_MODE: Final = 0o200
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOUND: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_CLOEXEC


class Claim:
    """A file of this host's, once taken. `remove` it when nothing is left to do; `close` leaves it to whoever comes next."""

    __slots__ = ("_file", "_kept", "_pid", "_prefix", "name")

    def __init__(self, prefix: str) -> None:
        """Nothing is there yet."""
        self._prefix, self._file = prefix, OwnFile()
        self._kept: Kept | None = None
        self._pid = os.getpid()
        self.name = ""

    def take(self, root: int) -> None:
        """Makes it, locked, among what is remembered of the directory `root`. Somebody else may take it for one that was left
        before it is locked: then by another name. SetupError where it cannot be made."""
        try:
            kept = self._kept = state.enter(root)
            while True:
                self.name = f"{self._prefix}{os.urandom(6).hex()}"
                with kept.naming(self.name):
                    self._file.open(kept.file(self.name), _NEW, _MODE, dir_fd=kept.fd)
                    if self._file.lock() and os.fstat(self._file.fd).st_nlink:
                        return
                    self._file.close()
        except BaseException:
            self.remove()
            raise

    def write(self, data: bytes) -> None:
        """All of it, or SetupError."""
        assert self._kept is not None
        left = memoryview(data)
        with self._kept.naming(self.name):
            while left:
                left = left[os.write(self._file.fd, left) :]

    def remove(self) -> None:
        """Harmless when repeated, as after an interrupt, and in a forked child of the host. SetupError where it cannot be
        removed."""
        try:
            if self._kept is not None and self.name and self._pid == os.getpid():
                self._kept.forget(self.name)
        except SetupError:
            self.close()
            raise
        self.close()

    def close(self) -> None:
        """Harmless when repeated."""
        self._file.close()
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()


def claim(root: int, prefix: str) -> Claim:
    """A new one; its name begins with `prefix`."""
    made = Claim(prefix)
    made.take(root)
    return made


@contextmanager
def left(kept: Kept, name: str) -> Iterator[int]:
    """A claim whose host is gone, open for reading and ours by now; -1 for one whose host is at work, or that is gone. SetupError
    where nobody can say."""
    file, reading = OwnFile(), OwnFile()
    try:
        with kept.naming(name):
            if _take_left(file, kept, name):
                os.fchmod(file.fd, 0o600)
                reading.open(f"/proc/self/fd/{file.fd}", _READ)
        yield reading.fd
    finally:
        reading.close()
        file.close()


def _take_left(file: OwnFile, kept: Kept, name: str) -> bool:
    try:
        try:
            file.open(kept.file(name), _FOUND, dir_fd=kept.fd)
        except PermissionError:  # its host had an odd umask
            os.chmod(kept.file(name), 0o600, dir_fd=kept.fd)
            file.open(kept.file(name), _FOUND, dir_fd=kept.fd)
    except FileNotFoundError:
        return False
    return file.lock() and os.fstat(file.fd).st_nlink > 0
