"""Stages a commit: everything that the guest made, whole and on the host directory's own file system. Host process.

Called by overlay.py under the directory's lock. The directory itself is only read. What comes back are the steps that are left.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import Final

from sandbox_native.commit import copying, marks
from sandbox_native.commit.handles import Readable, leave, open_above, open_up
from sandbox_native.commit.marks import Kind
from sandbox_native.commit.node import Node
from sandbox_native.commit.steps import Down, Dress, Drop, Put, Step, Up
from sandbox_native.descent import Descent

_NO_LINK: Final = frozenset({errno.EMLINK, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENAMETOOLONG})


@dataclass(frozen=True, slots=True)
class Staged:
    steps: list[Step]
    unkept: list[str]  # paths whose attributes the file system does not take


def stage(tree: Node, upper: int, new: int, owner: tuple[int, int], durable: bool) -> Staged:
    """Fills the directory `new` with slots. `owner`: who has what the guest made. `durable`: each is on disk on return."""
    with Descent(upper) as source, Descent(new) as into:
        return _Stager(source, into, owner, durable).stage(tree)


@dataclass(slots=True)
class _Level:
    """A directory of the guest's that the walk is in."""

    node: Node
    waiting: list[Node]
    group: int  # of what is made in it: -1 is the owner's own
    name: str = ""  # of the directory that is staged for it; empty: the host has one
    slot: int = 0  # when that is not itself in a staged one
    restore: int = -1  # the mode that it had


class _Stager:
    def __init__(self, source: Descent, into: Descent, owner: tuple[int, int], durable: bool) -> None:
        self._source, self._into, self._owner, self._durable = source, into, owner, durable
        self._device = os.fstat(into.fd).st_dev
        self._steps: list[Step] = []
        self._unkept: list[str] = []
        self._slots = 0
        self._linked: dict[tuple[int, int], str] = {}  # inode of the guest's -> where it is staged

    def stage(self, tree: Node) -> Staged:
        levels = [_Level(tree, _busy(tree), _group(tree.before))]
        while levels:
            level = levels[-1]
            if not level.waiting:
                self._leave(levels.pop())
            elif (deeper := self._entry(level, level.waiting.pop())) is not None:
                levels.append(deeper)
        return Staged(self._steps, self._unkept)

    def _entry(self, level: _Level, node: Node) -> _Level | None:
        if node.kind is Kind.REMOVED:
            self._steps.append(Drop(node.name, self._slot()))
            return None
        if node.merges:
            self._steps.append(Down(node.name))
            return self._go(_Level(node, _busy(node), _group(node.before)))
        slot = 0 if level.name else self._slot()
        name = str(slot) if slot else node.name
        if node.kind is Kind.DIRECTORY:
            return self._make(node, name, slot, level.group)
        self._file(level, node, name)
        if slot:
            self._steps.append(Put(node.name, slot))
        return None

    def _slot(self) -> int:
        self._slots += 1
        return self._slots

    # ---- files and links ----

    def _file(self, level: _Level, node: Node, name: str) -> None:
        assert node.status is not None
        owner, source, into = self._owners(level.group), self._source.fd, self._into.fd
        if node.kind is Kind.LINK:
            copying.copy_link(node.text, node.status, name, into, owner)
            return
        with Readable(node.name, source, node.status):
            if node.status.st_dev == self._device and copying.adopt(node.name, source, name, into, owner, self._durable):
                return
            if self._link(node.status, name):
                return
            if not copying.copy_file(node.name, source, name, into, owner, self._durable):
                self._unkept.append(node.path())

    def _link(self, status: os.stat_result, name: str) -> bool:
        """A second name of a file that is staged already."""
        if status.st_nlink < 2:
            return False
        inode, path = (status.st_dev, status.st_ino), self._into.path(name)
        first = self._linked.setdefault(inode, path)
        if first == path:
            return False
        names = first.split("/")
        above = open_above(self._into.root, names)
        try:
            os.link(names[-1], name, src_dir_fd=above, dst_dir_fd=self._into.fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NO_LINK:
                raise
            return False
        finally:
            os.close(above)
        return True

    def _owners(self, group: int) -> tuple[int, int]:
        return self._owner if group < 0 else (self._owner[0], group)

    # ---- directories ----

    def _make(self, node: Node, name: str, slot: int, group: int) -> _Level:
        os.mkdir(name, 0o700, dir_fd=self._into.fd)
        self._into.down(name)
        copying.give(self._into.fd, self._owners(group))
        return self._go(_Level(node, _busy(node), group, name, slot))

    def _go(self, level: _Level) -> _Level:
        level.restore = open_up(level.node.name, self._source.fd)
        self._source.down(level.node.name)
        return level

    def _leave(self, level: _Level) -> None:
        node = level.node
        if node.parent is None:
            return
        dress = _dress(node, level.group, marks.attributes(self._source.fd))
        leave(self._source, level.restore)
        if not level.name:
            self._steps += (Up(), dress)
            return
        if not copying.set_attributes(self._into.fd, dress.attributes):
            self._unkept.append(node.path())
        if not level.slot:
            os.utime(self._into.fd, ns=(dress.mtime_ns, dress.mtime_ns))
        if self._durable:
            os.fsync(self._into.fd)
        if level.slot:
            # Its mode may forbid to move it: it comes when it is in its place.
            self._into.up()
            self._steps += (Put(node.name, level.slot), dress)
        else:
            leave(self._into, dress.mode)


def _busy(node: Node) -> list[Node]:
    """What there is to do in a directory, the first last."""
    return [child for _, child in sorted(node.children.items(), reverse=True) if child.live]


def _group(before: os.stat_result | None) -> int:
    """Of what is made in a directory of the host's: with its set-group-id bit its own group."""
    return before.st_gid if before is not None and before.st_mode & stat.S_ISGID else -1


def _dress(node: Node, group: int, attributes: dict[str, bytes]) -> Dress:
    """Set-id bits stay as the host has them, or come from the directory above as they do for everybody."""
    assert node.status is not None
    special = node.before.st_mode & 0o6000 if node.merges and node.before is not None else stat.S_ISGID if group >= 0 else 0
    return Dress(node.name, node.status.st_mode & 0o1777 | special, node.status.st_mtime_ns, attributes)
