"""What a host must not forget when it is killed, in a private directory of the caller's. Linux, host process.

Beside a root whoever can write to a directory around it could put anything, and a guest may be shown such a directory. So what
says what is to be done (claims.py, commit/journal.py) lies here: roots.py refuses every writable root that holds this place, or
lies in it. Names begin with the DEVICE-INODE- of the host directory that they are about, and what is
written there says which directory that is (`identity`): numbers come to be used again. What is left of a directory that is
never used again stays.
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
_SET: Final = f"set {VARIABLE} to a directory of the caller's own"
_ELSEWHERE: Final = f"what must outlive a killed host is kept there: {_SET}"
_ALONE: Final = f"it must be a directory of the caller's own with mode 0700, and no link: change it, or set {VARIABLE} to another"
_ROOM: Final = f"make room on its file system, or {_SET}"
_READ_ONLY: Final = f"its file system is read-only: make it writable, or {_SET}"
_HINTS: Final = {
    **dict.fromkeys((errno.EMFILE, errno.ENFILE), "the host has no descriptors left"),
    **dict.fromkeys((errno.ELOOP, errno.ENOTDIR), _ALONE),
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _ROOM),
    errno.EROFS: _READ_ONLY,
}
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

    @contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """What fails within is a SetupError about that file."""
        try:
            yield
        except SetupError:
            raise
        except OSError as error:
            raise _failed(error, self.path(name)) from error

    def names(self, prefix: str = "") -> list[str]:
        begin = self.file(prefix)
        with self.naming(prefix):
            return [name[len(self._of) :] for name in os.listdir(self.fd) if name.startswith(begin)]

    def forget(self, name: str) -> None:
        with self.naming(name), suppress(FileNotFoundError):
            os.unlink(self.file(name), dir_fd=self.fd)

    def close(self) -> None:
        """Harmless when repeated."""
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def look(root: int) -> Kept | None:
    """What is remembered of the directory `root`; None: nothing."""
    try:
        kept = _kept(root, make=False)
    except FileNotFoundError:
        return None
    try:
        known = bool(kept.names())
    except BaseException:
        kept.close()
        raise
    if known:
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
    except OSError as error:
        raise _failed(error, path()) from error
    finally:
        os.close(top)


# ---- the directory itself ----


def _top(*, make: bool) -> int:
    where = path()
    while True:
        try:
            return _opened(where)
        except FileNotFoundError:
            if not make:
                raise
        except SetupError:
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


def _opened(where: str) -> int:
    fd = -1
    try:
        fd = os.open(where, DIRECTORY)
        status = os.fstat(fd)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise SetupError("state", errno.EPERM, where, _ALONE)
        return fd
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise


def _failed(error: OSError, where: str) -> SetupError:
    return SetupError("state", error.errno or 0, where, _HINTS.get(error.errno or 0, _ELSEWHERE))


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
