"""One walk over a directory tree of the host's: the git repositories, Unix sockets and FIFOs in it. Linux, host process.

Called by showing.py for a policy's roots and, on the way to each run, by run_checks.py for its workspace; so it is bounded,
reads only names, and what it learnt of a directory it need not learn again while that has not changed. Where it looks for
repositories alone only directories count: a guest that makes a great many files does not end it early.
A guest may be at work in the tree: directories are opened beneath the root, following no link.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sandbox_native import mandatory
from sandbox_native.descent import DIRECTORY
from sandbox_native.mandatory import GIT, LEVELS, OURS

_BARE: Final = frozenset(mandatory.KEPT)
_TELLING: Final = _BARE | {GIT}
# A directory that changed so short a time before it was read may change again without another time stamp: the kernel's clock
# for these has steps of up to 10 ms.
_RACY_NS: Final = 50_000_000
_MODULES: Final = "modules"  # of .git: the git directories of submodules
_WORKTREES: Final = "worktrees"  # of .git: those of worktrees, wherever they are


@dataclass(frozen=True, slots=True)
class Bound:
    """How far a walk goes. `names`: of a walk that is not deep, of directories."""

    names: int
    seconds: float


GUARDS: Final = Bound(names=50_000, seconds=10.0)
"""For repositories. What is not searched is not guarded, so a run that comes to this bound is refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What a walk found, as paths relative to its root."""

    repositories: tuple[str, ...]  # directories that hold .git, up to LEVELS down, the root itself not among them
    git_directories: tuple[str, ...]  # bare repositories up to LEVELS down, and those of submodules and worktrees
    sockets: tuple[str, ...]
    fifos: tuple[str, ...]
    ours: tuple[str, ...]  # what the host left at the top, such as a quarantine
    unreadable: tuple[str, ...]  # directories that the caller may not look into, so that nobody knows what they hold
    complete: bool  # the bound was not reached


@dataclass(slots=True)
class _Directory:
    """What one directory holds, as far as it matters here."""

    identity: tuple[int, int, int]  # device, inode, time of its last change
    inside: list[tuple[str, int]] = field(default_factory=list)  # directories: name and inode
    sockets: list[str] = field(default_factory=list)
    fifos: list[str] = field(default_factory=list)
    repository: bool = False
    bare: bool = False
    readable: bool = True
    names: int = 0


@dataclass(frozen=True, slots=True)
class _Reading:
    """How one directory is read: what is left of the bound."""

    deep: bool
    most: int
    deadline: float

    def is_over(self, names: int, directories: int) -> bool:
        return (names if self.deep else directories) > self.most or (names % 4096 == 0 and time.monotonic() > self.deadline)


class Memory:
    """What earlier walks of one root learnt. Of one thread at a time, and not for walks that differ in what they look for."""

    __slots__ = ("directories", "survey")

    def __init__(self) -> None:
        self.directories: dict[str, _Directory] = {}
        self.survey: Survey | None = None

    def unchanged(self, root: int) -> Survey | None:
        """What the last walk found, if it saw all and no directory has changed since: one look at each."""
        if self.survey is None:
            return None
        for path, found in self.directories.items():
            try:
                status = os.stat(path or ".", dir_fd=root, follow_symlinks=False)
            except OSError as error:
                _raise_if_out_of_descriptors(error)
                return None
            if _identity(status) != found.identity:
                return None
        return self.survey


def walk(root: int, bound: Bound, *, deep: bool, skip: frozenset[str] = frozenset(), memory: Memory | None = None) -> Survey:
    """Of the directory `root`, which stays the caller's. `deep`: all of it, for sockets; else only as far as repositories are
    looked for. `skip`: paths that are not gone into. Shallow directories come first."""
    if memory is not None and (same := memory.unchanged(root)) is not None:
        return same
    known: dict[str, _Directory] = {} if memory is None else memory.directories
    seen: dict[str, _Directory] = {}
    deadline = time.monotonic() + bound.seconds
    left = bound.names
    waiting = [("", 0)]
    for path, inode in waiting:
        if left < 0 or time.monotonic() > deadline:
            break
        if (found := _look(root, path, inode, known.get(path), _Reading(deep, left, deadline))) is None:
            continue
        seen[path] = found
        if found is not known.get(path):  # what is known costs next to nothing
            left -= found.names if deep else len(found.inside)
        if deep or path.count("/") + bool(path) < LEVELS or _leads_on(path):
            waiting += [one for one in _below(path, found, deep) if one[0] not in skip]
        elif found.repository and path.count("/") < LEVELS:
            waiting += [one for one in _below(path, found, deep) if one[0].endswith("/" + GIT)]
    complete = left >= 0 and time.monotonic() <= deadline
    survey = _told(seen, complete)
    if memory is not None:
        memory.directories, memory.survey = seen, survey if complete else None
    return survey


def _below(path: str, found: _Directory, deep: bool) -> Iterator[tuple[str, int]]:
    top = path + "/" if path else ""
    in_git = path == GIT or path.endswith("/" + GIT)
    for name, inode in found.inside:
        # Thousands of files of git's own: no repository lies there, but a socket may.
        if deep or not (in_git and name == "objects"):
            yield top + name, inode


def _leads_on(path: str) -> bool:
    """Whether a walk for git directories goes on in it however deep it lies: .git, what it has of worktrees, and of submodules,
    whose names may have slashes in them."""
    after = _in_git(path)
    return after is not None and (not after or after == [_WORKTREES] or (after[0] == _MODULES and len(after) <= LEVELS))


def _in_git(path: str) -> list[str] | None:
    """What follows .git in a path; None where that is not in it."""
    parts = path.split("/")
    return parts[parts.index(GIT) + 1 :] if GIT in parts else None


def _is_git_directory(path: str, found: _Directory) -> bool:
    after = _in_git(path)
    if after is None:
        return found.bare and path.count("/") + bool(path) <= LEVELS
    if path.split("/").index(GIT) > LEVELS or not after:
        return False
    return (len(after) == 2 and after[0] == _WORKTREES) or (found.bare and _leads_on(path))


def _told(seen: dict[str, _Directory], complete: bool) -> Survey:
    repositories, git_directories = [], []
    sockets: list[str] = []
    fifos: list[str] = []
    for path, found in seen.items():
        levels = path.count("/") + bool(path)
        if found.repository and 0 < levels <= LEVELS and _in_git(path) is None:
            repositories.append(path)
        if _is_git_directory(path, found):
            git_directories.append(path)
        top = path and path + "/"
        sockets += [top + name for name in found.sockets]
        fifos += [top + name for name in found.fifos]
    unreadable = [path for path, found in seen.items() if not found.readable]
    ours = [name for name, _ in seen[""].inside if name.startswith(OURS)] if "" in seen else []
    return Survey(
        repositories=tuple(repositories),
        git_directories=tuple(git_directories),
        sockets=tuple(sockets),
        fifos=tuple(fifos),
        ours=tuple(ours),
        unreadable=tuple(unreadable),
        complete=complete,
    )


def _look(root: int, path: str, inode: int, known: _Directory | None, how: _Reading) -> _Directory | None:
    """None for what is no directory any more."""
    try:
        if known is not None and known.identity == _identity(os.stat(path or ".", dir_fd=root, follow_symlinks=False)):
            return known
        fd = open_beneath(root, path, inode)
        try:
            return _read(fd, how)
        finally:
            os.close(fd)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        if error.errno != errno.EACCES:
            return None
    try:
        status = os.stat(path or ".", dir_fd=root, follow_symlinks=False)
    except OSError as error:
        _raise_if_out_of_descriptors(error)
        return None
    return _Directory(_identity(status), readable=False)


def _identity(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _raise_if_out_of_descriptors(error: OSError) -> None:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        raise error


def open_beneath(root: int, path: str, inode: int) -> int:
    """A directory of which the one above told the inode; 0 where it is a mount point or was replaced. OSError when a link is on
    the way."""
    fd = os.open(path or ".", DIRECTORY, dir_fd=root)
    if inode and os.fstat(fd).st_ino == inode:
        return fd
    os.close(fd)
    fd = os.open(".", DIRECTORY, dir_fd=root)
    for part in filter(None, path.split("/")):
        above = fd
        try:
            fd = os.open(part, DIRECTORY, dir_fd=above)
        finally:
            os.close(above)
    return fd


def _read(fd: int, how: _Reading) -> _Directory:
    status = os.stat(".", dir_fd=fd)  # EACCES where it can be listed but not entered
    device, inode, changed = _identity(status)
    found = _Directory((device, inode, -1 if time.time_ns() - changed < _RACY_NS else changed))
    bare = count = 0
    with os.scandir(fd) as entries:
        for entry in entries:
            count += 1
            if how.is_over(count, len(found.inside)):  # a directory without end: the walk says that it is not complete
                found.identity = (device, inode, -1)
                break
            name = entry.name
            if name in _TELLING:
                found.repository |= name == GIT
                bare += name != GIT
            if entry.is_file(follow_symlinks=False):
                continue
            if entry.is_dir(follow_symlinks=False):
                found.inside.append((name, entry.inode()))
            elif how.deep and not entry.is_symlink():
                mode = _mode(entry)
                if stat.S_ISSOCK(mode):
                    found.sockets.append(name)
                elif stat.S_ISFIFO(mode):
                    found.fifos.append(name)
    found.names, found.bare = count, bare == len(_BARE)
    return found


def _mode(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0
