"""Which directories git takes for a repository, in the host's directory with or without what the guest changed. Host process.

Called by refusals.py. A repository's hooks and configuration run programs, so they are protected wherever git finds them: in
a .git directory, where a .git link or file leads, where that says that it has them (`commondir`), and in a directory that
merely looks like a repository, which is enough for git when somebody stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.commit.marks import Kind
from sandbox_native.commit.node import Node
from sandbox_native.commit.protected import Protected
from sandbox_native.commit.resolve import Names, Place, View

MOST: Final = 1024
"""Working trees that a guest may make in one run; the .git of the others is refused."""

_LOOKS: Final = ("HEAD", "objects", "refs", "commondir")
_TELLING: Final = (*_LOOKS, "config", "hooks")


@dataclass(slots=True)
class Found:
    """Directories, each with the way that led there. `outside`: ways that lead out of the host's directory."""

    tops: list[Names]
    repositories: dict[Names, Place] = field(default_factory=dict)
    outside: list[Place] = field(default_factory=list)


@dataclass(slots=True)
class Around:
    """Where to look: directories in which a .git may be (the root always), and some that may look like a repository."""

    tops: dict[Names, None] = field(default_factory=dict)
    suspects: dict[Names, None] = field(default_factory=dict)


def find(view: View, around: Around) -> Found:
    found = Found([()])
    found.tops += (top for top in around.tops if top and view.exists((*top, ".git")))
    for top in found.tops:
        _note(view, found, view.repository(top))
    for names in around.suspects:
        if names not in found.repositories and _looks_like_one(view, names):
            _note(view, found, Place(names, tuple(_made(view, names))))
    return found


def _note(view: View, found: Found, place: Place) -> None:
    """A repository, and what it shares with others."""
    if place.names is None:
        found.outside.append(place)
        return
    if view.entry(place.names).kind not in (Kind.DIRECTORY, Kind.REMOVED):
        return
    found.repositories.setdefault(place.names, place)
    common = view.common(place.names)
    if common is None:
        return
    shared = place.on(common)
    if shared.names is None:
        found.outside.append(shared)
    else:
        found.repositories.setdefault(shared.names, shared)


def _looks_like_one(view: View, names: Names) -> bool:
    head, objects, refs, common = (view.exists((*names, name)) for name in _LOOKS)
    return (head and common) or (objects and refs)


def parts(repository: Names) -> Iterator[Names]:
    """What git knows it by: without one of these it would be taken for none, and nothing of it be protected."""
    return ((*repository, name) for name in _LOOKS)


def _made(view: View, names: Names) -> Iterator[Node]:
    """What the guest put there to make it look like one."""
    for name in _LOOKS:
        node = view.entry((*names, name)).node
        if node is not None and node.before is None:
            yield node


def look_around(tree: Node, protected: Protected) -> Around:
    """What the guest touched, what the host has, and what went with a directory that the guest removed."""
    around = Around()
    around.tops |= {tuple(top.split("/")): None for top in protected.tops if top}
    around.suspects |= {tuple(path.split("/")): None for path in protected.repositories if path}
    waiting: list[tuple[Node, Names]] = [(tree, ())]
    made = 0
    while waiting:
        node, names = waiting.pop()
        git = node.children.get(".git")
        if git is not None and git.before is None and git.changed:
            made += 1
            if made > MOST:
                git.refuse(f"the guest made more than {MOST} working trees of git")
        if git is not None or node.merges:
            around.tops[names] = None
        if not node.children.keys().isdisjoint(_TELLING):
            around.suspects[names] = None
        for child in node.children.values():
            if child.kind is Kind.DIRECTORY:
                waiting.append((child, (*names, child.name)))
            for top in () if child.lost is None else child.lost.repositories:
                around.tops[(*names, child.name, *filter(None, top.split("/")))] = None
    return around
