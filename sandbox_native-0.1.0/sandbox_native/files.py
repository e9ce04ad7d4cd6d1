"""Brings back what `collect` asks for, from a workspace whose guest is dead. Host process.

The names and everything behind them were made by the guest, so nothing is opened by path: each component is
opened beneath the one before, following no link, and only a regular file is ever read. What is read, kept,
listed and visited is bounded. Called by the backend after the run, with a descriptor of the workspace's root.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.descent import Descent
from sandbox_native.limits import Limits

_MAX_VISITED: Final = 200_000  # names looked at for one collection
_MAX_DEPTH: Final = 64
_MAX_REFUSED: Final = 256  # names in files_refused
_OTHERS: Final = "…"  # stands for the refused names beyond that
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_LOOK: Final = getattr(os, "O_PATH", 0) | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS: Final = {stat.S_IFLNK: "a link", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a directory"}

Part = str | re.Pattern[str] | None  # a name, a wildcard, or ** (None)


@dataclass(frozen=True, slots=True)
class Patterns:
    """What to collect, parsed once: a sequence of parts for each pattern."""

    parsed: tuple[tuple[Part, ...], ...]


def parse(patterns: Iterable[str]) -> Patterns:
    """What `paths.patterns` let pass.

    Component by component: `*`, `?` and `[...]` stay within one (and match a dot at its start), `**` is any number of
    directories, none included, and at the end everything beneath them. Upper and lower case differ.
    """
    return Patterns(tuple(_parse(pattern) for pattern in patterns))


def _parse(pattern: str) -> tuple[Part, ...]:
    parts = pattern.split("/")
    if parts[-1] == "**":
        parts.append("*")  # only files come back, so the directory itself is none of them
    return tuple(_part(part) for part in parts)


def _part(part: str) -> Part:
    if part == "**":
        return None
    return re.compile(fnmatch.translate(part)) if any(sign in part for sign in "*?[") else part


@dataclass(slots=True)
class Collection:
    """What came back, and why the rest did not."""

    files: dict[str, bytes] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def collect(root: int, patterns: Patterns, limits: Limits) -> Collection:
    """Reads what matches beneath the directory `root`, which stays the caller's."""
    with Descent(root) as place:
        walk = _Walk(place, limits)
        try:
            walk.directory("", {(parts, 0) for parts in patterns.parsed}, 0)
        except OSError as error:  # of the way up: somebody on the host moved a directory
            walk.refuse(".", f"the walk ended early: {os.strerror(error.errno or 0)}")
    for parts in patterns.parsed:
        names = [part for part in parts if isinstance(part, str)]
        if len(names) == len(parts):
            walk.missed(names)
    return walk.found


State = tuple[tuple[Part, ...], int]  # a pattern and how many of its parts are behind us


def _advance(states: Iterable[State], name: str) -> tuple[set[State], bool, bool]:
    """Where the patterns stand after `name`; whether one of them ends there; whether one ends there literally."""
    after: set[State] = set()
    ends = literally = False
    for parts, at in _skip(states):
        part = parts[at]
        if part is None:
            after.add((parts, at))
        elif part == name if isinstance(part, str) else part.match(name):
            if at + 1 == len(parts):
                ends, literally = True, literally or isinstance(part, str)
            else:
                after.add((parts, at + 1))
    return after, ends, literally


def _skip(states: Iterable[State]) -> set[State]:
    """`**` stands for no directory too."""
    reached = set(states)
    for parts, at in states:
        while parts[at] is None:
            at += 1
            reached.add((parts, at))
    return reached


class _Walk:
    def __init__(self, place: Descent, limits: Limits) -> None:
        self._place = place
        self.found = Collection()
        self.bytes_left = limits.collect_bytes
        self.files_left = limits.collect_files
        self.names_left = _MAX_VISITED

    def directory(self, prefix: str, states: set[State], depth: int) -> None:
        for name in self._names(prefix, _skip(states)):
            after, ends, literally = _advance(states, name)
            path = prefix + name
            if ends:
                self._entry(name, path, literally)
            if after:
                self._descend(name, path, after, depth)

    def _names(self, prefix: str, states: set[State]) -> Sequence[str]:
        """The names that are worth a look: those that are spelt out when all are, else what is there."""
        spelt = [parts[at] for parts, at in states]
        if all(isinstance(part, str) for part in spelt):
            return sorted({part for part in spelt if isinstance(part, str)})
        names = []
        try:
            with os.scandir(self._place.fd) as entries:
                for entry in entries:
                    if self.names_left == 0:
                        self.refuse(prefix or ".", f"too many names: only {_MAX_VISITED} were looked at")
                        break
                    self.names_left -= 1
                    names.append(entry.name)
        except OSError as error:
            self.refuse(prefix or ".", os.strerror(error.errno or 0))
        return sorted(names)

    def _descend(self, name: str, path: str, states: set[State], depth: int) -> None:
        try:
            self._place.down(name)
        except OSError as error:
            self._not_a_directory(name, path, states, error)
            return
        if depth == _MAX_DEPTH:
            self.refuse(path, f"more than {_MAX_DEPTH} directories deep")
        else:
            self.directory(f"{path}/", states, depth + 1)
        self._place.up()

    def _not_a_directory(self, name: str, path: str, states: set[State], error: OSError) -> None:
        """A link or an unreadable directory on the way is worth a word; a file where ** looked for a directory is not."""
        if error.errno in (errno.ENOENT, errno.ENAMETOOLONG):
            return
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            self.refuse(path, os.strerror(error.errno or 0))
        elif any(parts[at] is not None for parts, at in states):
            self._guarded(path, lambda: self._refuse_link(name, path))

    def _refuse_link(self, name: str, path: str) -> None:
        if stat.S_ISLNK(os.stat(name, dir_fd=self._place.fd, follow_symlinks=False).st_mode):
            self.refuse(path, _KINDS[stat.S_IFLNK])

    def _entry(self, name: str, path: str, literally: bool) -> None:
        if path not in self.found.files and path not in self.found.refused:
            self._guarded(path, lambda: self._take(name, path, literally))

    def _guarded(self, path: str, action: Callable[[], None]) -> None:
        try:
            action()
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
                self.refuse(path, os.strerror(error.errno or 0))

    def _take(self, name: str, path: str, literally: bool) -> None:
        look = os.open(name, _LOOK, dir_fd=self._place.fd)  # O_PATH: opening a device or FIFO would already do something
        try:
            seen = os.fstat(look)
        finally:
            os.close(look)
        if not stat.S_ISREG(seen.st_mode):
            if literally or not stat.S_ISDIR(seen.st_mode):
                reason = _KINDS.get(stat.S_IFMT(seen.st_mode), "a device")
                self.refuse(path, f"{reason}: use {path}/**" if stat.S_ISDIR(seen.st_mode) else reason)
        elif self.files_left == 0:
            self.refuse(path, "more files than Limits.collect_files")
        elif seen.st_size > self.bytes_left:
            self.refuse(path, f"{seen.st_size} bytes: more than is left of Limits.collect_bytes")
        else:
            self._read(name, path, seen)

    def _read(self, name: str, path: str, seen: os.stat_result) -> None:
        fd = os.open(name, _READ, dir_fd=self._place.fd)
        try:
            if not os.path.samestat(os.fstat(fd), seen):
                self.refuse(path, "it changed while it was looked at")
                return
            parts = []
            left = seen.st_size
            while left and (data := os.read(fd, left)):
                parts.append(data)
                left -= len(data)
        finally:
            os.close(fd)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        self.found.files[path] = data
        self.files_left -= 1
        self.bytes_left -= len(data)

    def missed(self, names: Sequence[str]) -> None:
        """Of a name that was spelt out: it is to be in one of the two lists, itself or by what stands in its way."""
        path, refused = "/".join(names), self.found.refused
        above = {".", *("/".join(names[:end]) for end in range(1, len(names)))}
        # A directory that was asked for as a file is no obstacle.
        blocked = any(not refused[way].startswith(_KINDS[stat.S_IFDIR]) for way in above & refused.keys())
        if path not in self.found.files and path not in refused and not blocked:
            self.refuse(path, "no such file")

    def refuse(self, path: str, reason: str) -> None:
        refused = self.found.refused
        if len(refused) < _MAX_REFUSED:
            refused.setdefault(path, reason)
        else:
            refused.setdefault(_OTHERS, f"more than {_MAX_REFUSED} names were refused: the rest is not listed")
