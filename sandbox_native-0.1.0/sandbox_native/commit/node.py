"""One entry of what a guest left in an overlay: what it is, what the host has there, and whether it is committed. Pure values.

tree.py makes them, refusals.py marks them; listing.py and staging.py go by them.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.commit.marks import Kind

SET_ID: Final = stat.S_ISUID | stat.S_ISGID


@dataclass(slots=True)
class Lost:
    """What goes with a directory of the host that the guest removed."""

    entries: int = 0
    bytes: int = 0
    repositories: list[str] = field(default_factory=list)  # directories with a .git, from the removed one on; "" is itself


@dataclass(slots=True, eq=False)
class Node:
    """One entry of the upper layer, or a name that is removed. `before` is what the host's directory has there."""

    name: str
    kind: Kind
    parent: Node | None = None
    status: os.stat_result | None = None
    before: os.stat_result | None = None
    text: str = ""  # of a link; of a file that names a directory, its content
    same: bool = False  # what is there before differs in nothing that counts
    changed: bool = False  # in itself; a directory that is there before: in mode or attributes
    lost: Lost | None = None
    children: dict[str, Node] = field(default_factory=dict)
    refused: str = ""
    allow: str | None = None  # with `refused`: the policy's field
    beneath: int = 0  # changes at and beneath
    live: int = 0  # those of them that are not refused

    @property
    def merges(self) -> bool:
        """A directory that is there before: only what is in it changes."""
        return self.kind is Kind.DIRECTORY and self.before is not None and stat.S_ISDIR(self.before.st_mode)

    @property
    def loses_bits(self) -> bool:
        """A directory with set-id bits that it has neither before nor from the one above, as everybody's has."""
        if self.kind is not Kind.DIRECTORY or self.status is None or self.parent is None or self.parent.status is None:
            return False
        before = self.before.st_mode if self.merges and self.before is not None else self.parent.status.st_mode & stat.S_ISGID
        return bool(self.status.st_mode & SET_ID & ~before)

    def path(self) -> str:
        names = []
        node: Node | None = self
        while node is not None and node.parent is not None:
            names.append(node.name)
            node = node.parent
        return "/".join(reversed(names))

    def at(self, path: str) -> Node:
        """The node of a path beneath this one."""
        node = self
        for name in path.split("/"):
            node = node.children[name]
        return node

    def refuse(self, reason: str, allow: str | None = None) -> None:
        self.refused, self.allow = self.refused or reason, allow
