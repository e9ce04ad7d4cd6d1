"""After a run with direct writes: what the guest made under a denied name goes where no guest sees it. Linux, host process.

Called by the backend as soon as a box is dead, with what protection.py saw before it began. Other boxes may be at work in the
same tree: everything goes by descriptors, no link is followed, and what is moved is whatever has the name at that moment.

The place is a directory `.sandbox-native-quarantine` beside the root, of mode 0700 and the caller's own; in it one directory for
each run and root, and in that what was moved, by the name that it had. Where the root's parent is on another mount, or not the
caller's to write, the place is at the top of the root, under that name with a suffix: later boxes have it covered. Nothing is
removed.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterable
from typing import Final, Literal

from sandbox_native.denials import Denial
from sandbox_native.environment import WORKSPACE
from sandbox_native.hostmounts import mount_id
from sandbox_native.mandatory import GIT, QUARANTINE, join
from sandbox_native.paths import contains
from sandbox_native.policy import Policy
from sandbox_native.protection import Protection, State, Trie, look, trie
from sandbox_native.workspace import Handed

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WAY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 8  # somebody else at work may make it again
_UP: Final = 16  # directories above a root that are asked

_MOVED: Final = "made under a name that no guest may write: moved away when the run ended"
_REPLACED: Final = "replaced from outside of the box while the run lasted, which undid its guard: look at it before you trust it"
_LINK: Final = "a link that the guest changed: it leads where it led before"
_AGAIN: Final = "made again each time that it was moved away, by somebody who is still at work there"


def quarantine(
    root: int, protection: Protection, policy: Policy, *, inside: str = WORKSPACE, handed: Handed | None = None
) -> tuple[Denial, ...]:
    """Of the directory `root`, which stays the caller's and is `inside` to the guest. `handed`: files changed owners for the
    run."""
    with _Move(root, protection, policy, inside) as move:
        move.visit(root, trie(protection.names), "")
        move.give_back(handed)
        return tuple(move.denials)


Verdict = Literal["keep", "move", "replaced"]


def judge(name: str, now: State | None, was: State | None, *, denied: bool) -> Verdict:
    """What to do with what is at a name that is denied, or that only lies on the way to one. Pure.

    A guest cannot have touched what was guarded: where such a file is another one now, somebody on the host saved it.
    """
    if now is None or _same(now, was):
        return "keep"
    if denied:
        return "replaced" if was is not None and was.kind == now.kind == "file" else "move"
    if was is not None and was.kind == "link":
        return "move"
    return "move" if now.kind == "link" or (now.kind == "file" and name == GIT) else "keep"


def _same(now: State, was: State | None) -> bool:
    if was is None or now.kind != was.kind:
        return False
    return now.text == was.text if now.kind == "link" else (now.device, now.inode) == (was.device, was.inode)


class _Move:
    """A context manager that closes what it opened."""

    def __init__(self, root: int, protection: Protection, policy: Policy, inside: str) -> None:
        self._root, self._protection, self._inside = root, protection, inside
        self._shown = [host for host, _ in (*policy.readable, *policy.writable)]
        self._places: dict[str, int] = {}  # of this run: beside the root, and in it
        self._ways: list[int] = []
        self.denials: list[Denial] = []

    def __enter__(self) -> _Move:
        return self

    def __exit__(self, *error: object) -> None:
        for fd in self._places.values():
            os.close(fd)

    def visit(self, fd: int, wanted: Trie, above: str) -> None:
        """Everything that is denied beneath an open directory."""
        for name, beneath in wanted.items():
            path = join(above, name)
            try:
                now = self._settle(fd, name, path)
                if now is not None and now.kind == "directory" and beneath:
                    self._enter(fd, name, now, beneath, path)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                self._tell(path, f"could not be moved away ({os.strerror(error.errno or 0)}): it is still there")

    def _enter(self, fd: int, name: str, now: State, beneath: Trie, path: str) -> None:
        try:
            below = os.open(name, _WAY, dir_fd=fd)
        except FileNotFoundError:
            return
        try:
            self.visit(below, beneath, path)
        finally:
            os.close(below)

    def _settle(self, fd: int, name: str, path: str) -> State | None:
        """What may stay at a name: what was there before, or nothing."""
        was, denied = self._protection.before.get(path), path in self._protection.names
        moved = False
        for _ in range(_TRIES):
            now = _entered(fd, name)
            verdict = judge(name, now, was, denied=denied)
            if verdict == "replaced" and was is not None and self._was_moved(was, path):
                verdict = "move"
            if verdict != "move":
                break
            self._move(fd, name, path)
            moved = True
        else:
            self._tell(path, _AGAIN)
            return now
        if verdict == "replaced":
            self._tell(path, _REPLACED)
        if now is None and was is not None and was.kind == "link":
            os.symlink(was.text, name, dir_fd=fd)
            if not moved:
                self._tell(path, _LINK)
        return now

    def _tell(self, path: str, reason: str, arguments: str = "") -> None:
        self.denials.append(Denial(kind="quarantine", name=join(self._inside, path), arguments=arguments, reason=reason))

    # ---- moving ----

    def _move(self, fd: int, name: str, path: str) -> None:
        """Into the first place that the file system allows."""
        for place in ("beside", "in the root", "here"):
            target = self._place(place, fd)
            if target is None:
                continue
            try:
                where = _rename_into(fd, name, target, path)
            except FileNotFoundError:
                return
            except OSError as error:
                if error.errno != errno.EXDEV or place == "here":
                    raise
                continue
            self._tell(path, _MOVED, where)
            return

    def _place(self, name: str, fd: int) -> int | None:
        """A directory of this run's own, made when it is first needed."""
        key = name if name != "here" else f"{name} {os.fstat(fd).st_ino}"
        if key not in self._places:
            above = self._beside() if name == "beside" else os.dup(fd if name == "here" else self._root)
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
            return _made(above, f"{QUARANTINE}-{tail}")
        common = _common(above)
        try:
            root = os.path.basename(os.readlink(f"/proc/self/fd/{self._root}"))
            return _made(common, f"{root[:100]}-{tail}")
        finally:
            os.close(common)

    def _beside(self) -> int | None:
        """The nearest directory above the root that no guest of this policy sees, on the same mount."""
        mount, fd = mount_id(self._root), os.dup(self._root)
        for _ in range(_UP):
            above = os.open("..", _DIRECTORY, dir_fd=fd)
            same = os.path.samestat(os.fstat(above), os.fstat(fd))
            os.close(fd)
            fd = above
            if same or mount_id(fd) != mount:
                break
            if not any(contains(host, os.readlink(f"/proc/self/fd/{fd}")) for host in self._shown):
                return fd
        os.close(fd)
        return None

    def _was_moved(self, state: State, path: str) -> bool:
        """Whether what was there before the run was an earlier guest's, and lies in the quarantine by now."""
        above = self._beside()
        if above is None:
            return False
        try:
            common = _common(above)
            try:
                return any(_holds(common, f"{run}/{path}", state) for run in os.listdir(common))
            finally:
                os.close(common)
        finally:
            os.close(above)

    def give_back(self, handed: Handed | None) -> None:
        for fd in self._places.values() if handed is not None else ():
            assert handed is not None
            handed.back(fd)


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
        _allow(way)
        return os.open(".", _DIRECTORY, dir_fd=way)
    finally:
        os.close(way)


def _common(above: int) -> int:
    """The directory that all runs share, or another when somebody else made that one."""
    try:
        os.mkdir(QUARANTINE, 0o700, dir_fd=above)
    except FileExistsError:
        pass
    try:
        fd = _opened(above, QUARANTINE)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
    else:
        status = os.fstat(fd)
        if status.st_uid == os.geteuid() and not status.st_mode & 0o077:
            return fd
        os.close(fd)
    return _made(above, f"{QUARANTINE}-{os.urandom(6).hex()}")


def _rename_into(fd: int, name: str, place: int, path: str) -> str:
    """Where it is now, on the host."""
    way = os.dup(place)
    try:
        for part in path.split("/")[:-1]:
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
    try:
        os.rename(name, free, src_dir_fd=fd, dst_dir_fd=target)
    except PermissionError:  # a directory that its owner may not write cannot go elsewhere
        _open_up(fd, name)
        os.rename(name, free, src_dir_fd=fd, dst_dir_fd=target)
    return os.readlink(f"/proc/self/fd/{target}") + "/" + free


def _numbered(name: str) -> Iterable[str]:
    """The name, and others for what was made again."""
    yield name
    for number in range(1, _TRIES + 1):
        yield f"{name}~{number}"


def _entered(fd: int, name: str) -> State | None:
    """What is called `name`; where the guest shut the directory around it, that is opened up."""
    try:
        return look(fd, name)
    except PermissionError:
        _allow(fd)
        return look(fd, name)


def _open_up(fd: int, name: str) -> None:
    below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    try:
        for one in (fd, below):
            _allow(one)
    finally:
        os.close(below)


def _allow(fd: int) -> None:
    """The owner of a directory may do everything in it."""
    status = os.fstat(fd)
    if status.st_uid == os.geteuid() and status.st_mode & 0o700 != 0o700 and status.st_mode & 0o170000 == 0o040000:
        os.chmod(f"/proc/self/fd/{fd}", (status.st_mode & 0o7777) | 0o700)
