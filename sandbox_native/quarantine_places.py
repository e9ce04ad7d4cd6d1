"""Where things go that guests made under denied names, and how they get there. Linux, host process; used by quarantine.py.

The place is a directory `.sandbox-native-quarantine` beside the root, of mode 0700 and the caller's own; in it one directory for
each run and root, and in that what was moved, by the name that it had. (Where another user has that name, as may be in /tmp, it
is followed by the caller's uid.) Where the root's parent is on another mount, or not the caller's to write, the place is at
the top of the root, under that name with a suffix: later boxes have it covered.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable, Iterator
from typing import Final

from sandbox_native.hostmounts import mount_id
from sandbox_native.mandatory import QUARANTINE
from sandbox_native.paths import contains
from sandbox_native.snapshots import State, is_name, look
from sandbox_native.workspace import Handed

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WAY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_UP: Final = 16  # directories above a root that are asked
_NAMES: Final = 16  # that are tried for a thing that was moved before


class Places:
    """Of one run and one root. A context manager that closes what it opened."""

    def __init__(self, root: int, shown: Iterable[str]) -> None:
        """`root` stays the caller's; `shown` are host directories that guests see."""
        self._root, self._shown = root, tuple(shown)
        self._places: dict[str, int] = {}
        self.names: set[str] = set()
        """Of those that were made in the root."""

    def __enter__(self) -> Places:
        return self

    def __exit__(self, *error: object) -> None:
        for fd in self._places.values():
            os.close(fd)

    def move(self, fd: int, name: str, path: str) -> str | None:
        """Into the first place that the file system allows; where it is now. None when nobody was there any more."""
        for place in ("beside", "in the root", "here"):
            target = self._place(place, fd)
            if target is None:
                continue
            try:
                return _rename_into(fd, name, target, path)
            except FileNotFoundError:
                return None
            except OSError as error:
                if error.errno != errno.EXDEV or place == "here":
                    raise
        return None

    def _place(self, name: str, fd: int) -> int | None:
        """A directory of this run's own, made when it is first needed."""
        key = name if name != "here" else f"{name} {os.fstat(fd).st_ino}"
        if key not in self._places:
            above = beside(self._root, self._shown) if name == "beside" else os.dup(fd if name == "here" else self._root)
            if above is None:
                return None
            try:
                self._places[key] = self._fresh(above, own=name == "beside")
            except OSError as error:
                if name != "beside" or error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                return None  # the caller may not write there
            finally:
                os.close(above)
        return self._places[key]

    def _fresh(self, above: int, own: bool) -> int:
        tail = f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(6).hex()}"
        if not own:
            self.names.add(name := f"{QUARANTINE}-{tail}")
            return _made(above, name)
        common = _common(above)
        try:
            root = os.path.basename(os.readlink(f"/proc/self/fd/{self._root}"))
            return _made(common, f"{root[:100]}-{tail}")
        finally:
            os.close(common)

    def has(self, state: State, fd: int, path: str) -> bool:
        """Whether what was there before the run, in the directory `fd`, was an earlier guest's, and lies in a quarantine by now:
        in any place that `move` uses."""
        above = beside(self._root, self._shown)
        try:
            found = [] if above is None else [ours(above, name) for name in _shared()]
            if any(_any_holds(common, "", path, state) for common in found if common is not None):
                return True
        finally:
            if above is not None:
                os.close(above)
        fds = (os.open(".", _DIRECTORY, dir_fd=place) for place in (self._root, fd))
        return any(_any_holds(one, f"{QUARANTINE}-", path, state) for one in fds)

    def move_all(self, root: int, names: Iterable[str]) -> tuple[str, list[str], list[tuple[str, int]]]:
        """Names at the top, together: into which directory, those that were moved, those that could not be, with why."""
        place = self._place("beside", root)
        if place is None and (place := self._place("in the root", root)) is None:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        target = _made(place, os.urandom(6).hex())
        moved, failed = [], []
        try:
            for name in names:
                try:
                    _rename_to(root, name, target, name)
                    moved.append(name)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    if error.errno in (errno.EMFILE, errno.ENFILE):
                        raise
                    failed.append((name, error.errno or 0))
            return os.readlink(f"/proc/self/fd/{target}"), moved, failed
        finally:
            os.close(target)

    def give_back(self, handed: Handed | None) -> None:
        """`handed`: files had changed owners for the run."""
        for fd in self._places.values() if handed is not None else ():
            assert handed is not None
            handed.back(fd)


def beside(root: int, shown: Iterable[str]) -> int | None:
    """The nearest directory above the root that no guest of a policy sees, on the same mount."""
    for fd in above_of(root):
        if not any(contains(host, os.readlink(f"/proc/self/fd/{fd}")) for host in shown):
            return fd
        os.close(fd)
    return None


def above_of(root: int) -> Iterator[int]:
    """Directories above the root on the same mount, the nearest first; each to be closed."""
    mount, fd = mount_id(root), os.dup(root)
    try:
        for _ in range(_UP):
            try:
                above = os.open("..", _DIRECTORY, dir_fd=fd)
            except PermissionError:  # it may be entered, and not listed: nothing can be found in it
                return
            same = os.path.samestat(os.fstat(above), os.fstat(fd))
            os.close(fd)
            fd = above
            if same or mount_id(fd) != mount:
                return
            yield os.dup(fd)
    finally:
        os.close(fd)


def _any_holds(directory: int, prefix: str, path: str, state: State) -> bool:
    """Closes `directory`."""
    try:
        names = (name for name in os.listdir(directory) if name.startswith(prefix))
        return any(_holds(directory, f"{name}/{path}", state) for name in names)
    finally:
        os.close(directory)


def _holds(common: int, path: str, state: State) -> bool:
    try:
        status = os.stat(path, dir_fd=common, follow_symlinks=False)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES):
            return False
        raise
    return (status.st_dev, status.st_ino) == (state.device, state.inode)


def _made(above: int, name: str) -> int:
    os.mkdir(name, 0o700, dir_fd=above)
    return _opened(above, name)


def _opened(above: int, name: str) -> int:
    """A directory of ours, whatever umask the host has."""
    way = os.open(name, _WAY, dir_fd=above)
    try:
        allow(way)
        return os.open(".", _DIRECTORY, dir_fd=way)
    finally:
        os.close(way)


def _shared() -> tuple[str, str]:
    """Names of the directory that all runs share: the second where the first is another user's."""
    return QUARANTINE, f"{QUARANTINE}-{os.geteuid()}"


def _common(above: int) -> int:
    for name in _shared():
        try:
            os.mkdir(name, 0o700, dir_fd=above)
        except FileExistsError:
            pass
        if (fd := ours(above, name)) is not None:
            return fd
    return _made(above, f"{QUARANTINE}-{os.urandom(6).hex()}")  # somebody wants us to have none


def ours(above: int, name: str) -> int | None:
    """None for what is not there, no directory, or one that others can get at."""
    try:
        fd = _opened(above, name)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return None
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
        return fd
    os.close(fd)
    return None


def _rename_into(fd: int, name: str, place: int, path: str) -> str:
    """Where it is now, on the host."""
    parts = path.split("/")
    if not all(map(is_name, (*parts, name))):
        raise ValueError(f"{path!r} does not lie beneath a directory")
    way = os.dup(place)
    try:
        for part in parts[:-1]:
            try:
                os.mkdir(part, 0o700, dir_fd=way)
            except FileExistsError:
                pass
            below = _opened(way, part)
            os.close(way)
            way = below
        return _rename(fd, name, way)
    finally:
        os.close(way)


def _rename(fd: int, name: str, target: int) -> str:
    free = next(one for one in _numbered(name) if look(target, one) is None)
    _rename_to(fd, name, target, free)
    return os.readlink(f"/proc/self/fd/{target}") + "/" + free


def _rename_to(fd: int, name: str, target: int, free: str) -> None:
    try:
        os.rename(name, free, src_dir_fd=fd, dst_dir_fd=target)
    except PermissionError:  # a directory that its owner may not write cannot go elsewhere
        _open_up(fd, name)
        os.rename(name, free, src_dir_fd=fd, dst_dir_fd=target)


def _numbered(name: str) -> Iterable[str]:
    """The name, and others for what was made again."""
    yield name
    for number in range(1, _NAMES):
        yield f"{name}~{number}"


def _open_up(fd: int, name: str) -> None:
    below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        for one in (fd, below):
            allow(one)
    finally:
        os.close(below)


def allow(fd: int) -> None:
    """The owner of a directory may do everything in it."""
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700 and status.st_mode & 0o170000 == 0o040000:
        os.chmod(f"/proc/self/fd/{fd}", (status.st_mode & 0o7777) | 0o700)
