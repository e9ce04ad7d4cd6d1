"""Where a path of the host's directory leads, with what the guest changed and without it. Host process.

Called by repositories.py and refusals.py. Links are followed by us, name by name, and only within the directory: what leads
out of it is said to. A view without a tree is the directory as the host has it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from sandbox_native.commit import marks
from sandbox_native.commit.handles import open_above
from sandbox_native.commit.marks import Kind
from sandbox_native.commit.node import Node
from sandbox_native.commit.tree import MAX_PATH, MAX_POINTER, read_pointer

_MOST_LINKS: Final = 40  # as the kernel's own bound
_GITFILE: Final = "gitdir:"
_UNREADABLE: Final = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EISDIR, errno.EINVAL),
        *(errno.ENXIO, errno.ENODEV, errno.ENAMETOOLONG),
    }
)
_T = TypeVar("_T")

Names = tuple[str, ...]
"""A path as its components, from the root on; no component is a link."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a path names; `node` when it is the guest's."""

    kind: Kind
    node: Node | None = None


_ABSENT: Final = Entry(Kind.REMOVED)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a path leads. `names` is None when that is outside, or nowhere for its many links; `guests` are the links, and
    files that name a directory, of the guest's that led there, `hosts` those of the host's."""

    names: Names | None
    guests: tuple[Node, ...] = ()
    hosts: tuple[Names, ...] = ()

    def on(self, further: Place) -> Place:
        """The way that goes on from here."""
        return Place(further.names, (*self.guests, *further.guests), (*self.hosts, *further.hosts))


def _nothing(error: OSError, value: _T) -> _T:
    """`value` where there is nothing to read, or nothing that anybody with the caller's rights could. Else the error: a file
    that cannot be opened for a lease on it, or for want of descriptors, says no less than others."""
    if error.errno in _UNREADABLE:
        return value
    raise error


class View:
    """`tree` is what the guest changed, as far as it is not refused; None: nothing."""

    def __init__(self, tree: Node | None, target: int) -> None:
        self._tree, self._target = tree, target
        self._known: dict[Names, Entry] = {}  # of the host's

    def entry(self, names: Names) -> Entry:
        node = self._tree
        for at, name in enumerate(names):
            if node is None:
                break
            child = node.children.get(name)
            if child is None or child.refused:
                if not node.merges:
                    return _ABSENT
                node = None
            elif at + 1 == len(names):
                return Entry(child.kind, child) if not child.same else self._hosts(names)
            elif child.kind is not Kind.DIRECTORY:
                return _ABSENT
            else:
                node = child
        return self._hosts(names)

    def entries(self, directory: Names) -> Collection[str] | None:
        """All that is in a directory that the guest made; None where the host knows more."""
        node = self._tree
        for name in directory:
            if node is None or node.refused:
                return None
            node = node.children.get(name)
        return None if node is None or node.merges or node.kind is not Kind.DIRECTORY else node.children.keys()

    def exists(self, names: Names) -> bool:
        return self.entry(names).kind is not Kind.REMOVED

    def _hosts(self, names: Names) -> Entry:
        known = self._known.get(names)
        if known is None:
            known = self._known[names] = self._look(names)
        return known

    def _look(self, names: Names) -> Entry:
        if not names:
            return Entry(Kind.DIRECTORY)
        try:
            with self._above(names) as above:
                status = os.stat(names[-1], dir_fd=above, follow_symlinks=False)
        except OSError as error:
            return _nothing(error, _ABSENT)
        return Entry(marks.kind_of(status))

    @contextmanager
    def _above(self, names: Names) -> Iterator[int]:
        if len(names) == 1:
            yield self._target
            return
        fd = open_above(self._target, names)
        try:
            yield fd
        finally:
            os.close(fd)

    def text(self, names: Names, entry: Entry) -> str:
        """Of a link, or the beginning of a file that names a directory."""
        if entry.node is not None:
            return entry.node.text
        try:
            with self._above(names) as above:
                if entry.kind is Kind.LINK:
                    return os.readlink(names[-1], dir_fd=above)
                return read_pointer(names[-1], above)
        except OSError as error:
            return _nothing(error, "")

    # ---- following ----

    def resolve(self, start: Names, path: str, *, last: bool = True) -> Place:
        """Where `path` leads from the directory `start`. `last`: a link at its end is followed too."""
        return _Way(self, start, last).go(path)

    def repository(self, directory: Names) -> Place:
        """Where git finds the repository of a working tree: its .git, which may be a link or a file that names a directory."""
        place = self.resolve(directory, ".git")
        if place.names is None or (entry := self.entry(place.names)).kind is not Kind.FILE:
            return place
        return self._pointed(place, entry, place.names[:-1], _GITFILE)

    def common(self, repository: Names) -> Place | None:
        """Where git finds what several working trees share, when a repository has it elsewhere."""
        place = self.resolve(repository, "commondir")
        if place.names is None or (entry := self.entry(place.names)).kind is not Kind.FILE:
            return None
        return self._pointed(place, entry, repository, "")

    def _pointed(self, place: Place, entry: Entry, start: Names, prefix: str) -> Place:
        assert place.names is not None
        text = self.text(place.names, entry)
        if not text.startswith(prefix):
            return place  # nothing that git follows
        by = Place(None, (), (place.names,)) if entry.node is None else Place(None, (entry.node,))
        if len(os.fsencode(text)) > MAX_POINTER:
            return place.on(by)
        return place.on(by).on(self.resolve(start, text[len(prefix) :].strip(" \t\r\n")))


class _Way:
    """One path on its way through a view."""

    def __init__(self, view: View, start: Names, last: bool) -> None:
        self._view, self._last = view, last
        self._at = list(start)
        self._guests: list[Node] = []
        self._hosts: list[Names] = []
        self._links = 0

    def go(self, path: str) -> Place:
        if path.startswith("/"):
            return self._outside()
        waiting = list(reversed(path.split("/")))
        while waiting:
            name = waiting.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not self._at:
                    return self._outside()
                self._at.pop()
                continue
            here = (*self._at, name)
            entry = self._view.entry(here)
            if entry.kind is Kind.LINK and (waiting or self._last):
                text = self._view.text(here, entry)
                if not self._follow(here, entry, text, waiting):
                    return self._outside()
            else:
                self._at.append(name)
        return Place(tuple(self._at), tuple(self._guests), tuple(self._hosts))

    def _follow(self, here: Names, entry: Entry, text: str, waiting: list[str]) -> bool:
        if entry.node is not None:
            self._guests.append(entry.node)
        else:
            self._hosts.append(here)
        self._links += 1
        if text.startswith("/") or self._links > _MOST_LINKS or len(waiting) > MAX_PATH:
            return False
        waiting += reversed(text.split("/"))
        return True

    def _outside(self) -> Place:
        return Place(None, tuple(self._guests), tuple(self._hosts))
