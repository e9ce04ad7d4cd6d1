"""What has to be guarded in one writable directory of the host's, and what was there before a guest came. Linux, host process.

Called by showing.py for a policy's writable roots and by run_checks.py for a run's workspace; quarantine.py compares with
it afterwards. What exists is made read-only, and every directory on the way to it a mount point, so that it cannot be renamed
(`mv .git x; mkdir -p .git/hooks` passes a bind on hooks alone). What does not exist cannot be a mount point.

A link cannot be one either. What it leads to is guarded when that lies beneath the root; the link itself is remembered, with
its text, and put back after the run. Git's own pointers, the `.git` files of worktrees and submodules, are followed alike.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sandbox_native import mandatory
from sandbox_native.mandatory import GIT, join
from sandbox_native.paths import contains
from sandbox_native.survey import Survey

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_POINTER_BYTES: Final = 4096  # of a .git file or commondir
_LINKS: Final = 40  # on one way, as the kernel has it
_ROUNDS: Final = 4  # a link that leads to a link, a worktree's .git file to a directory with a commondir
_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)

Trie = dict[str, "Trie"]


@dataclass(frozen=True, slots=True)
class State:
    """What is at one name; `text` of a link."""

    kind: Literal["directory", "file", "link", "other"]
    device: int
    inode: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Guard:
    """One mount on top of a workspace: `name` relative to it, what was there when it was looked at, and what is done to it:
    read-only, covered, or neither: then it only cannot be renamed."""

    name: str
    device: int
    inode: int
    read_only: bool = False
    mask: bool = False
    directory: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a policy denies in one root, as names relative to it. `host`: the root's own path."""

    host: str
    deny_write: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    roots: tuple[str, ...] = ()
    """Something else is shown at these: what leads there is guarded, they are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """`names`: all that is denied or hidden, be it there or not; `denied` without what is hidden. `before`: what was there, of
    these and the directories on the way. `guards`: what lies around others first. `outside`: host paths of git directories
    and links' targets elsewhere."""

    names: frozenset[str]
    denied: frozenset[str]
    before: Mapping[str, State]
    guards: tuple[Guard, ...]
    outside: frozenset[str] = frozenset()

    @property
    def links(self) -> tuple[str, ...]:
        """Links on the way to a denied name: they can be replaced during a run, and are put back after it."""
        return tuple(sorted(name for name, state in self.before.items() if state.kind == "link"))

    @property
    def absent(self) -> tuple[str, ...]:
        """Denied names that nothing can be mounted on."""
        return tuple(sorted(self.names - self.before.keys()))


def protect(root: int, wanted: Wanted, survey: Survey) -> Protection:
    """Of the directory `root`, which stays the caller's. Follows no link: a guest may be at work in it. PermissionError when the
    root itself may not be entered."""
    place = _Place(root, wanted.host)
    names = {*mandatory.names(survey.repositories, wanted.deny_write), *wanted.protected}
    for directory in survey.git_directories:
        names.update(mandatory.of_git(directory))
    hidden = set(wanted.hidden)
    outside: set[str] = set()
    for _ in range(_ROUNDS):
        before, shut = snapshot(root, names | hidden)
        more = _Leads(place, before)
        new_names, new_hidden = more.of(names), more.of(hidden)
        outside |= more.outside
        if new_names <= names and new_hidden <= hidden:
            break
        names |= new_names
        hidden |= new_hidden
    shut |= {path: state for path in survey.unreadable if (state := _state(root, path))}
    guards = _guards(root, {**shut, **before}, names | shut.keys(), hidden, wanted.roots)
    return Protection(
        names=frozenset(names | hidden),
        denied=frozenset(names),
        before=before,
        guards=tuple(guards),
        outside=frozenset(outside),
    )


# ---- looking ----


def trie(names: Iterable[str]) -> Trie:
    """Names by their components, so that each directory on the way is opened once."""
    top: Trie = {}
    for name in names:
        at = top
        for part in name.split("/"):
            at = at.setdefault(part, {})
    return top


def snapshot(root: int, names: Iterable[str]) -> tuple[dict[str, State], dict[str, State]]:
    """What is there of `names` and of the directories that lead to them; and those of them that could not be entered."""
    found: dict[str, State] = {}
    shut: dict[str, State] = {}
    _look(root, trie(names), "", found, shut)
    return found, shut


def _look(fd: int, wanted: Trie, above: str, found: dict[str, State], shut: dict[str, State]) -> None:
    for name, beneath in wanted.items():
        path = join(above, name)
        try:
            state = look(fd, name)
        except PermissionError:
            if not above:
                raise
            shut[above] = found[above]
            return
        if state is None:
            continue
        found[path] = state
        if beneath and state.kind == "directory":
            try:
                below = os.open(name, _DIRECTORY, dir_fd=fd)
            except OSError as error:
                if error.errno in _GONE:
                    continue
                raise
            try:
                _look(below, beneath, path, found, shut)
            finally:
                os.close(below)


def look(fd: int, name: str) -> State | None:
    """What is called `name` in an open directory; None for nothing. PermissionError where that may not be looked into."""
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return State("link", status.st_dev, status.st_ino, os.readlink(name, dir_fd=fd))
    except OSError as error:
        if error.errno in (*_GONE, errno.EINVAL):
            return None
        raise
    kinds: Mapping[int, Literal["directory", "file"]] = {stat.S_IFDIR: "directory", stat.S_IFREG: "file"}
    return State(kinds.get(stat.S_IFMT(status.st_mode), "other"), status.st_dev, status.st_ino)


def _state(root: int, path: str) -> State | None:
    try:
        return look(root, path)
    except PermissionError:
        return None


# ---- where links and git's pointers lead ----


@dataclass(frozen=True, slots=True)
class _Place:
    fd: int
    host: str

    def follow(self, path: str) -> str:
        """Where a path beneath the root leads: relative to the root, or absolute when that is not beneath it. Nothing of it needs
        to be there."""
        waiting, done, left = path.split("/")[::-1], list[str](), _LINKS
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    return self._elsewhere([*done, part, *reversed(waiting)])
                done.pop()
                continue
            state = _state(self.fd, "/".join((*done, part)))
            if state is None or state.kind != "link" or not left:
                done.append(part)
                continue
            left -= 1
            if not state.text.startswith("/"):
                waiting += state.text.split("/")[::-1]
            elif contains(self.host, os.path.normpath(state.text)):
                waiting += os.path.normpath(state.text)[len(self.host) :].split("/")[::-1]
                done.clear()
            else:
                return os.path.realpath("/".join((state.text, *reversed(waiting))))
        return "/".join(done)

    def _elsewhere(self, parts: Iterable[str]) -> str:
        return os.path.realpath("/".join((self.host, *parts)))

    def pointer(self, path: str, key: str) -> str | None:
        """What a file of git's points to, as `follow` says it; None when it is no such file. `key` is what comes first in it."""
        try:
            fd = os.open(path, _READ, dir_fd=self.fd)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return None
        try:
            text = os.read(fd, _POINTER_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
        finally:
            os.close(fd)
        word = os.fsdecode(text.split(b"\n", 1)[0]).rstrip("\r")
        if not word.startswith(key) or "\0" in word:
            return None
        return self.led(path.rpartition("/")[0], word[len(key) :].strip())

    def led(self, directory: str, text: str) -> str:
        """Where `text` leads from a directory beneath the root."""
        if not text.startswith("/"):
            return self.follow(join(directory, text))
        plain = os.path.normpath(text)
        return self.follow(plain[len(self.host) :]) if contains(self.host, plain) else os.path.realpath(plain)


class _Leads:
    """What else is denied, since something that is leads there."""

    def __init__(self, place: _Place, before: Mapping[str, State]) -> None:
        self._place, self._before = place, before
        self.outside: set[str] = set()

    def of(self, names: Iterable[str]) -> set[str]:
        wanted = list(names)
        links = {path for path, state in self._before.items() if state.kind == "link"}
        found: set[str] = set()
        for name in wanted if links else ():
            if any(contains(link, name) for link in links):
                found |= self._beneath(self._place.follow(name))
        for path in dict.fromkeys(name.rpartition("/")[0] for name in wanted):
            found.update(self._git(path))
        return found

    def _git(self, path: str) -> Iterator[str]:
        """Of a directory that something denied is in: it may be a worktree's .git file, or have a commondir."""
        state = self._before.get(path)
        if state is not None and state.kind == "file" and path.rpartition("/")[2] == GIT:
            yield path
            yield from self._denied(self._place.pointer(path, "gitdir:"))
        pointer = self._before.get(join(path, "commondir"))
        if pointer is not None and pointer.kind == "file":
            yield from self._denied(self._place.pointer(join(path, "commondir"), ""))

    def _denied(self, directory: str | None) -> Iterator[str]:
        for path in () if directory is None else self._beneath(directory):
            yield from mandatory.of_git(path)

    def _beneath(self, path: str) -> set[str]:
        if path.startswith("/"):
            self.outside.add(path)
            return set()
        return {path} if path else set()


# ---- guarding ----


def _guards(
    root: int, states: Mapping[str, State], fixed: Iterable[str], hidden: Iterable[str], roots: Iterable[str]
) -> Iterator[Guard]:
    """Of what is there; nothing beneath what is covered or read-only needs one, but to cover it. `roots`: what is seen at and
    beneath them is another's."""
    others = set(roots)
    states = {name: state for name, state in states.items() if name not in others and not _below_one(name, others)}
    masks = {name for name in hidden if name in states}
    read_only = {name for name in fixed if name in states and name not in masks}
    ends = [name for name in masks | read_only if states[name].kind in ("directory", "file") and not _below_one(name, masks)]
    ends = [name for name in ends if name in masks or not _below_one(name, read_only)]
    ways = {name for name in _ways([*ends, *others]) if name not in others and not _below_one(name, others)}
    for name in sorted({*ends, *ways}, key=lambda name: (name.count("/"), name)):
        state = states.get(name) or _state(root, name)
        if state is None or state.kind == "link" or (name not in ends and (name in masks or _below_one(name, masks | read_only))):
            continue
        yield Guard(name, state.device, state.inode, name in read_only, name in masks, state.kind == "directory")


def _ways(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        while "/" in name:
            name = name.rpartition("/")[0]
            yield name


def _below_one(name: str, others: set[str]) -> bool:
    return any(way in others for way in _ways([name]))
