"""What a host must not forget when it is killed, in a private directory of the caller's. Linux, host process.

Beside a root whoever can write to a directory around it could put anything, and a guest may be shown such a directory. So what
says what is to be done (notes.py, commit/journal.py, commit/uppers.py) lies here: roots.py refuses every writable root that
holds this place, or lies in it. Names begin with the DEVICE-INODE- of the host directory that they are about, and what is
written there says which directory that is (`identity`): numbers come to be used again. What is left of a directory that is
never used again stays.

A claim is a file that is locked as long as its host lives. Nobody may read it, so that no guest that sees it on a read-only
mount can open it and keep the lock.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import functools
import os
import pwd
import stat
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from sandbox_native.descent import DIRECTORY
from sandbox_native.errors import SetupError

VARIABLE: Final = "SANDBOX_NATIVE_STATE"
_OF_ROOT: Final = "/var/lib/sandbox-native"
_MODE: Final = 0o200
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_FOUND: Final = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ELSEWHERE: Final = f"what must outlive a killed host is kept there: set {VARIABLE} to a directory of the caller's own"
_ALONE: Final = f"it must be a directory of the caller's own with mode 0700, and no link: change it, or set {VARIABLE} to another"
_SCARCE: Final = "the host has no descriptors left"
_GET_GENERATION: Final = 0x80087601  # FS_IOC_GETVERSION
_AT_EMPTY_PATH, _STATX_BTIME = 0x1000, 0x800


def path() -> str:
    """Where it is, be it there or not. SetupError when nobody can say."""
    given = os.environ.get(VARIABLE, "")
    if not given and os.geteuid() == 0:
        return _OF_ROOT
    home = os.environ.get("XDG_STATE_HOME", "") or f"{_home()}/.local/state"
    found = given or f"{home}/sandbox-native"
    if not found.startswith("/"):
        raise SetupError("state", errno.ENOENT, found, _ELSEWHERE)
    return os.path.normpath(found)


def _home() -> str:
    if home := os.environ.get("HOME", ""):
        return home
    try:
        return pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        return ""


def make() -> None:
    """So that it is there. SetupError where it cannot be."""
    os.close(_top(make=True))


def identity(root: int) -> list[int]:
    """What tells a directory from a later one with its inode number."""
    generation = array.array("l", [0])
    with suppress(OSError):  # a file system that has none
        fcntl.ioctl(root, _GET_GENERATION, generation)
    status = os.fstat(root)
    return [status.st_dev, status.st_ino, generation[0], _born(root)]


@dataclass(slots=True)
class Kept:
    """What is remembered of one directory, by names without what they all begin with. `fd` is where it is."""

    fd: int
    _of: str

    def file(self, name: str) -> str:
        """How it is called there."""
        return self._of + name

    def path(self, name: str) -> str:
        """For messages."""
        return f"{os.readlink(f'/proc/self/fd/{self.fd}')}/{self.file(name)}"

    def names(self, prefix: str = "") -> list[str]:
        begin = self.file(prefix)
        return [name[len(self._of) :] for name in os.listdir(self.fd) if name.startswith(begin)]

    def forget(self, name: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.file(name), dir_fd=self.fd)

    def close(self) -> None:
        """Harmless when repeated."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


@dataclass(slots=True)
class Claim:
    """A file of this host's. `remove` it when nothing is left to do; `close` leaves it to whoever comes next."""

    kept: Kept
    name: str
    file: int

    def write(self, data: bytes) -> None:
        """All of it, or SetupError."""
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self.file, left) :]
        except OSError as error:
            raise SetupError("state", error.errno or 0, self.kept.path(self.name), _ELSEWHERE) from error

    def remove(self) -> None:
        """Harmless when repeated."""
        if self.file >= 0:
            self.kept.forget(self.name)
        self.close()

    def close(self) -> None:
        """Harmless when repeated."""
        fd, self.file = self.file, -1
        if fd >= 0:
            os.close(fd)
        self.kept.close()


def look(root: int) -> Kept | None:
    """What is remembered of the directory `root`; None: nothing."""
    try:
        kept = _kept(root, make=False)
    except FileNotFoundError:
        return None
    if kept.names():
        return kept
    kept.close()
    return None


def enter(root: int) -> Kept:
    """As `look`, to put something there."""
    return _kept(root, make=True)


def recorded() -> set[str]:
    """Every name that is remembered of any directory: what hosts at work have made beside theirs is among them."""
    try:
        top = _top(make=False)
    except FileNotFoundError:
        return set()
    try:
        return {name.split("-", 2)[-1] for name in os.listdir(top)}
    finally:
        os.close(top)


def claim(root: int, name: str) -> Claim:
    """A new one, locked."""
    while True:
        made = Claim(enter(root), name, -1)
        try:
            made.file = os.open(made.kept.file(name), _NEW, _MODE, dir_fd=made.kept.fd)
            fcntl.flock(made.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(made.file).st_nlink:
                return made
        except BlockingIOError:  # somebody took it for one that was left
            pass
        except BaseException as error:
            path = made.kept.path(name)
            made.remove()
            if isinstance(error, OSError):
                raise _failed(error, path) from error
            raise
        made.close()


@contextmanager
def left(kept: Kept, name: str) -> Iterator[int]:
    """A claim whose host is gone, open for reading and ours by now; -1 for one whose host is at work, or that is gone."""
    try:
        file = _open_left(kept.file(name), kept.fd)
    except FileNotFoundError:
        yield -1
        return
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield -1
            return
        if not os.fstat(file).st_nlink:
            yield -1
            return
        os.fchmod(file, 0o600)
        reading = os.open(kept.file(name), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=kept.fd)
        try:
            yield reading
        finally:
            os.close(reading)
    finally:
        os.close(file)


def _open_left(name: str, directory: int) -> int:
    try:
        return os.open(name, _FOUND, dir_fd=directory)
    except PermissionError:  # its host had an odd umask
        os.chmod(name, 0o600, dir_fd=directory)
        return os.open(name, _FOUND, dir_fd=directory)


# ---- the directory itself ----


def _top(*, make: bool) -> int:
    where = path()
    while True:
        try:
            return _alone(os.open(where, DIRECTORY), where)
        except FileNotFoundError:
            if not make:
                raise
        except OSError as error:
            raise _failed(error, where) from error
        try:
            os.makedirs(os.path.dirname(where), exist_ok=True)
            with suppress(FileExistsError):
                os.mkdir(where, 0o700)
            os.chmod(where, 0o700)  # whatever umask the host has
        except OSError as error:
            raise _failed(error, where) from error


def _alone(fd: int, where: str) -> int:
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
        return fd
    os.close(fd)
    raise SetupError("state", errno.EPERM, where, _ALONE)


def _failed(error: OSError, where: str) -> OSError:
    if isinstance(error, SetupError):
        return error
    hints = {errno.EMFILE: _SCARCE, errno.ENFILE: _SCARCE, errno.ELOOP: _ALONE, errno.ENOTDIR: _ALONE}
    return SetupError("state", error.errno or 0, where, hints.get(error.errno or 0, _ELSEWHERE))


def _kept(root: int, *, make: bool) -> Kept:
    status = os.fstat(root)
    return Kept(_top(make=make), f"{status.st_dev:x}-{status.st_ino:x}-")


@functools.cache
def _statx() -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None, use_errno=True), "statx", None)


def _born(fd: int) -> int:
    """When it was made, in ns; 0 where the file system does not say."""
    statx, room = _statx(), ctypes.create_string_buffer(256)
    if statx is None or statx(fd, b"", _AT_EMPTY_PATH, _STATX_BTIME, room) != 0:
        return 0
    (mask,) = struct.unpack_from("=I", room)
    seconds, ns = struct.unpack_from("=qI", room, 80)
    return seconds * 1_000_000_000 + ns if mask & _STATX_BTIME else 0
