"""Which directories git takes for a repository, in the host's directory with what the guest changed. Host process.

Called by refusals.py. A repository's hooks and configuration run programs, so they are protected wherever git finds them: in a .git
directory, where a .git link or file leads, where that says that it has them (`commondir`), and in a directory that merely looks like a
repository, which is enough for git when somebody stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.commit.marks import Kind
from sandbox_native.commit.resolve import Names, View
from sandbox_native.commit.tree import Node

MOST: Final = 4096
"""Working trees; a guest that makes more of them has the rest of its .git refused."""

_LOOKS: Final = ("HEAD", "objects", "refs", "commondir")


@dataclass(slots=True)
class Found:
    """Directories, each with the guest's nodes that led there. `outside`: nodes that lead out of the host's directory."""

    tops: dict[Names, tuple[Node, ...]] = field(default_factory=dict)
    repositories: dict[Names, tuple[Node, ...]] = field(default_factory=dict)
    outside: list[Node] = field(default_factory=list)


def find(view: View, tops: Iterator[Names], looking: Iterator[Names]) -> Found:
    """`tops`: where there may be a .git. `looking`: directories that may look like a repository themselves."""
    found = Found(tops={(): ()})
    for top in tops:
        if view.exists((*top, ".git")):
            found.tops[top] = ()
    for top in found.tops:
        _note(view, found, view.repository(top))
    for directory in looking:
        guests = _looks_like_one(view, directory)
        if guests is not None:
            _note_at(view, found, directory, guests)
    return found


def _note(view: View, found: Found, place: object) -> None:
    raise NotImplementedError
