"""What a guest left in an overlay's upper layer, next to what the host's directory has now. Host process; changes nothing.

Both trees are walked at once, by descriptors and following no link. Names and depth are the guest's choice: no recursion, few
descriptors, a bound on entries and on the length of paths.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sandbox_native.commit import marks
from sandbox_native.commit.compare import same_attributes, same_content
from sandbox_native.commit.handles import Readable, leave, open_up
from sandbox_native.commit.marks import Kind
from sandbox_native.commit.node import Lost, Node
from sandbox_native.descent import Descent

MAX_ENTRIES: Final = 200_000
MAX_PATH: Final = 4095  # bytes, from the root: a longer one no program can name
_POINTERS: Final = (".git", "commondir")  # files that name a directory
MAX_POINTER: Final = 4096
_LOOK: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read(upper: int, target: int) -> Node:
    """The whole upper layer, compared. OSError when one of the two roots cannot be read."""
    with Descent(upper) as above, Descent(target) as below:
        return _Reader(above, below).read()


@dataclass(slots=True)
class _Level:
    node: Node
    waiting: list[str]
    opaque: bytes
    length: int  # of the path, in bytes
    restore: int  # the mode that the upper directory had, -1: it was not touched


class _Reader:
    def __init__(self, above: Descent, below: Descent) -> None:
        self._above, self._below = above, below
        self._entries = 0
        self._beyond: Node | None = None
        self._device = os.fstat(below.fd).st_dev

    def read(self) -> Node:
        root = Node("", Kind.DIRECTORY, status=os.fstat(self._above.fd), before=os.fstat(self._below.fd))
        levels = [self._level(root, -1, -1)]
        while levels:
            level = levels[-1]
            if level.waiting:
                deeper = self._entry(level, level.waiting.pop())
                if deeper is not None:
                    levels.append(deeper)
            else:
                self._leave(levels.pop(), bool(levels))
        return root

    def _level(self, node: Node, length: int, restore: int) -> _Level:
        """Of the directory where both walks stand; names come back in order."""
        level = _Level(node, sorted(os.listdir(self._above.fd), reverse=True), marks.opaque(self._above.fd), length, restore)
        if node.merges and level.opaque == b"y":
            self._remove_the_rest(node, set(level.waiting))
        return level

    def _leave(self, level: _Level, up: bool) -> None:
        node = level.node
        node.beneath += node.changed
        if node.parent is not None:
            node.parent.beneath += node.beneath
        if not up:
            return
        if node.merges:
            self._below.up()
        leave(self._above, level.restore)

    def _remove_the_rest(self, node: Node, kept: set[str]) -> None:
        for name in sorted(os.listdir(self._below.fd)):
            if name not in kept:
                self._take_in(Node(name, Kind.REMOVED, node))

    def _entry(self, level: _Level, name: str) -> _Level | None:
        if self._entries >= MAX_ENTRIES:
            self._pass_over(Node(name, Kind.SPECIAL, level.node))
            return None
        status = os.stat(name, dir_fd=self._above.fd, follow_symlinks=False)
        kind = marks.upper_kind(name, self._above.fd, status, level.opaque == b"x")
        node = Node(name, kind, level.node, status)
        length = level.length + 1 + len(os.fsencode(name))
        if length > MAX_PATH:
            node.refuse(f"its path is longer than {MAX_PATH} bytes")
        self._take_in(node)
        if kind is not Kind.DIRECTORY or node.refused:
            return None
        return self._descend(node, length)

    def _descend(self, node: Node, length: int) -> _Level | None:
        assert node.status is not None
        restore = open_up(node.name, self._above.fd)
        self._above.down(node.name)
        if node.merges:
            try:
                self._below.down(node.name)
            except OSError as error:
                leave(self._above, restore)
                node.refuse(f"the host's directory: {os.strerror(error.errno or 0)}")
                self._count(node)
                return None
            self._compare_directory(node)
        return self._level(node, length, restore)

    def _take_in(self, node: Node) -> None:
        """Into the tree, with what the host has there."""
        assert node.parent is not None
        self._entries += 1
        if self._entries > MAX_ENTRIES:
            self._pass_over(node)
            return
        node.parent.children[node.name] = node
        if node.parent.merges:
            self._look_before(node)
        if not node.refused and node.kind is not Kind.DIRECTORY:
            self._compare(node)
        if node.kind is not Kind.DIRECTORY or node.refused:
            self._count(node)
        elif node.before is None or not node.merges:
            node.changed = True

    def _pass_over(self, node: Node) -> None:
        """The first beyond the bound stands for all."""
        if self._beyond is None:
            self._beyond = node
            node.refuse(f"the guest changed more than {MAX_ENTRIES} entries: this and what follows is left out")
            assert node.parent is not None
            node.parent.children[node.name] = node
            node.parent.beneath += 1
        self._beyond.beneath += 1

    def _count(self, node: Node) -> None:
        if node.kind is Kind.DIRECTORY:
            node.changed = True
        node.beneath += node.changed
        if node.parent is not None:
            node.parent.beneath += node.beneath

    def _look_before(self, node: Node) -> None:
        try:
            node.before = os.stat(node.name, dir_fd=self._below.fd, follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:  # a name that the host's file system does not take
            node.refuse(os.strerror(error.errno or 0))
            return
        if stat.S_ISDIR(node.before.st_mode):
            if node.before.st_dev != self._device:
                node.refuse("another file system is mounted there")
            elif not node.merges:
                node.lost = measure(node.name, self._below.fd)

    def _compare(self, node: Node) -> None:
        """Files, links, removed names: whether there is a change."""
        if node.kind is Kind.REMOVED:
            node.changed = node.before is not None
            return
        assert node.status is not None
        with Readable(node.name, self._above.fd, node.status):
            if node.kind is Kind.LINK:
                node.text = os.readlink(node.name, dir_fd=self._above.fd)
            elif node.kind is Kind.FILE and node.name in _POINTERS:
                node.text = read_pointer(node.name, self._above.fd)
            node.same = self._is_same(node)
        node.changed = not node.same

    def _is_same(self, node: Node) -> bool:
        if node.before is None or node.status is None or marks.kind_of(node.before) is not node.kind:
            return False
        if node.kind is Kind.LINK:
            return os.readlink(node.name, dir_fd=self._below.fd) == node.text
        return node.kind is Kind.FILE and same_content(node.name, self._above.fd, self._below.fd)

    def _compare_directory(self, node: Node) -> None:
        assert node.status is not None and node.before is not None
        after, before = node.status.st_mode, node.before.st_mode
        # A set-id bit is the host's own: staging.py keeps it as it is.
        mode = (after ^ before) & 0o1777
        node.changed = bool(mode) or node.loses_bits or not same_attributes(self._above.fd, self._below.fd)


def measure(name: str, directory: int) -> Lost:
    """All that is in a directory of the host. What cannot be read is not counted: removing it will fail as well."""
    lost = Lost()
    try:
        root = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return lost
    try:
        with Descent(root) as place:
            for found, status in walk(place):
                lost.entries += 1
                lost.bytes += status.st_size if stat.S_ISREG(status.st_mode) else 0
                if found == ".git":
                    lost.repositories.append(place.path("")[:-1])
                if lost.entries >= MAX_ENTRIES:
                    break
    finally:
        os.close(root)
    return lost


def walk(place: Descent) -> Iterator[tuple[str, os.stat_result]]:
    """Every entry beneath, by name and with `place` in its directory. Directories that cannot be read are passed over."""
    waiting = [_names(place)]
    while waiting:
        if not waiting[-1]:
            waiting.pop()
            if waiting:
                place.up()
            continue
        name = waiting[-1].pop()
        try:
            status = os.stat(name, dir_fd=place.fd, follow_symlinks=False)
        except FileNotFoundError:
            continue
        yield name, status
        if stat.S_ISDIR(status.st_mode):
            try:
                place.down(name)
            except OSError:
                continue
            waiting.append(_names(place))


def _names(place: Descent) -> list[str]:
    try:
        return sorted(os.listdir(place.fd), reverse=True)
    except OSError:
        return []


def read_pointer(name: str, directory: int) -> str:
    """The beginning of a file that names a directory."""
    fd = os.open(name, _LOOK, dir_fd=directory)
    try:
        return os.fsdecode(os.read(fd, MAX_POINTER + 1))
    finally:
        os.close(fd)
