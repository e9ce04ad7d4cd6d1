"""What a commit does, as lists: of what is added, modified and deleted, and of what is refused. Pure; called by overlay.py."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from sandbox_native.commit.marks import Kind, kind_of
from sandbox_native.commit.node import Node
from sandbox_native.denials import Denial, as_text

_MOST_DENIALS: Final = 256

KindName = Literal["file", "directory", "link", "special"]

_KINDS: Final[dict[Kind, KindName]] = {Kind.FILE: "file", Kind.DIRECTORY: "directory", Kind.LINK: "link"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One name that the guest added, modified or deleted.

    `path` is relative to `root`, where the guest sees the host's directory. `size`: bytes of a file (of one that is deleted,
    those that it had); of a deleted directory, all that was in it; else 0. What is deleted with its directory is not listed
    by itself, and what becomes something of another kind is listed as deleted and as added.
    """

    path: str
    size: int = 0
    kind: KindName = "file"
    root: str = "/workspace"

    def to_dict(self) -> dict[str, Any]:
        """Names as in `Result.to_dict`."""
        return {"path": as_text(self.path), "size": self.size, "kind": self.kind, "root": as_text(self.root)}


@dataclass(slots=True)
class Listing:
    """Of one host directory or of several."""

    added: list[Change] = field(default_factory=list)
    modified: list[Change] = field(default_factory=list)
    deleted: list[Change] = field(default_factory=list)
    refused: list[Denial] = field(default_factory=list)
    beyond: int = 0  # refusals that found no room

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.deleted)

    def take(self, tree: Node, root: str) -> None:
        """What a tree of changes says of the directory that the guest sees at `root`."""
        for path, node in _walk(tree):
            if node.refused:
                self.refuse(f"{root}/{path}", node.refused, node.beneath or 1, node.allow)
            elif node.changed:
                self._add(path, node, root)
                if node.loses_bits:
                    self.refuse(f"{root}/{path}", "a set-id bit: the directory is committed without it")

    def refuse(self, name: str, reason: str, count: int = 1, allow: str | None = None) -> None:
        if len(self.refused) < _MOST_DENIALS:
            self.refused.append(Denial(kind="commit", name=name, reason=reason, count=count, allow=allow))
        else:
            self.beyond += count

    def denials(self) -> tuple[Denial, ...]:
        if not self.beyond:
            return tuple(self.refused)
        reason = "further changes that were refused: they are not listed"
        return (*self.refused, Denial(kind="commit", name="…", reason=reason, count=self.beyond))

    def _add(self, path: str, node: Node, root: str) -> None:
        before = None if node.before is None else kind_of(node.before)
        if before is not None and before is not node.kind:
            size = node.lost.bytes if node.lost is not None else _size(node.before)
            self.deleted.append(Change(path=path, size=size, kind=_KINDS.get(before, "special"), root=root))
        if node.kind is not Kind.REMOVED:
            change = Change(path=path, size=_size(node.status), kind=_KINDS[node.kind], root=root)
            (self.modified if before is node.kind else self.added).append(change)


def _size(status: os.stat_result | None) -> int:
    return status.st_size if status is not None and stat.S_ISREG(status.st_mode) else 0


def _walk(tree: Node) -> Iterator[tuple[str, Node]]:
    """What has a change at or beneath it, in order; nothing beneath what is refused."""
    waiting = [(name, node) for name, node in sorted(tree.children.items(), reverse=True)]
    while waiting:
        path, node = waiting.pop()
        if not node.beneath:
            continue
        yield path, node
        if not node.refused:
            waiting += ((f"{path}/{name}", child) for name, child in sorted(node.children.items(), reverse=True))
