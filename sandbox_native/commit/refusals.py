"""What of a guest's changes is not committed, and why. Host process.

Called by overlay.py with a tree of changes; marks what is refused in it. The rest is committed.

- Protected names: the mandatory ones and those of the policy, at the top and in git's working trees; also where a link or a
  file that names a directory leads. What such a link of the guest's would make a protected name of something that is there
  already is itself refused; so is one that leads out of the host's directory.
- The removal of a protected name, of what holds one, and of what git knows a repository by.
- Special files, set-id bits, names of our own, and what is beyond a bound (tree.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sandbox_native.commit import marks
from sandbox_native.commit.lookalikes import plain, refuse_lookalikes
from sandbox_native.commit.marks import Kind
from sandbox_native.commit.node import SET_ID, Node
from sandbox_native.commit.place import RESERVED
from sandbox_native.commit.protected import Protected
from sandbox_native.commit.repositories import Around, Found, find, look_around, parts
from sandbox_native.commit.resolve import Names, Place, View

_GIT: Final = ".git/"
_ROUNDS: Final = 16


@dataclass(frozen=True, slots=True)
class _Rule:
    """One path that is protected, and the way that makes it so."""

    name: str
    field: str
    way: Place


_Rules = dict[Names, _Rule]


def refuse(tree: Node, target: int, protected: Protected) -> None:
    """Marks in `tree` what is not to be committed to the directory `target`."""
    for node in _nodes(tree):
        _refuse_by_itself(node)
    refuse_lookalikes(tree, (name for name, _ in protected.names))
    around = look_around(tree, protected)
    before = View(None, target)
    found = find(before, around)
    _refuse_removal(tree, found)
    rules_before = _rules(before, found, protected)
    rules = _settled(tree, target, around, protected, before, rules_before)
    for names, rule in (rules_before | rules).items():
        _refuse_path(tree, before, names, rule)
    for names, rule in rules_before.items():
        if before.exists(names):
            for link in rule.way.hosts:
                _refuse_path(tree, before, link, _Rule(rule.name, rule.field, Place(link)))
    _count_live(tree)


def _refuse_removal(tree: Node, found: Found) -> None:
    """Of what git knows a repository by."""
    for names in (one for repository in found.repositories for one in parts(repository)):
        node: Node | None = tree
        for name in names:
            node = None if node is None else node.children.get(name)
        if node is not None and node.kind is Kind.REMOVED and node.changed:
            node.refuse("without it git would not know the repository")


def _nodes(tree: Node) -> Iterator[Node]:
    """Those that may be committed, but for the root."""
    waiting = [tree]
    while waiting:
        for node in waiting.pop().children.values():
            if not node.refused:
                yield node
                waiting.append(node)


def _count_live(tree: Node) -> None:
    nodes = [tree, *_nodes(tree)]  # each after the one above it
    for node in reversed(nodes):
        node.live += node.changed
        if node.parent is not None:
            node.parent.live += node.live


def _refuse_by_itself(node: Node) -> None:
    if node.status is None or not (node.changed or node.beneath):
        return
    if plain(node.name).startswith(RESERVED):
        node.refuse("a name that is kept for commits")
    elif node.kind is Kind.SPECIAL:
        node.refuse(marks.special(node.status))
    elif node.kind is Kind.FILE and node.status.st_mode & SET_ID:
        node.refuse("a set-id bit")


def _settled(tree: Node, target: int, around: Around, protected: Protected, before: View, rules_before: _Rules) -> _Rules:
    """The rules with the guest's changes, once no link of the guest's is left that would make new ones of what is there."""
    for _ in range(_ROUNDS):
        view = View(tree, target)
        found = find(view, around)
        rules = _rules(view, found, protected)
        refused = False
        for place in found.outside:
            refused |= _refuse_links(place.guests, "it leads out of the directory that is committed to")
        for names, rule in rules.items():
            if names not in rules_before and before.exists(names):
                refused |= _refuse_links(rule.way.guests, f"it would make {rule.name} of {'/'.join(names)}")
        if not refused:
            return rules
    _refuse_links([node for node in _nodes(tree) if node.text], "too many links lead to protected names, one by one")
    view = View(tree, target)
    return _rules(view, find(view, around), protected)


def _refuse_links(guests: Iterable[Node], reason: str) -> bool:
    fresh = [node for node in guests if not node.refused]
    for node in fresh:
        node.refuse(reason)
    return bool(fresh)


def _rules(view: View, found: Found, protected: Protected) -> _Rules:
    rules: _Rules = {}
    plain = [(name, field) for name, field in protected.names if not name.startswith(_GIT)]
    for top in found.tops:
        way, there = Place(top), view.entries(top)
        for name, field in plain:
            if there is None or name.partition("/")[0] in there:
                _add(rules, view, found, way, name, "/".join((*top, name)), field)
    of_git = [(name.removeprefix(_GIT), field) for name, field in protected.names if name.startswith(_GIT)]
    for way in list(found.repositories.values()):
        there = None if way.names is None else view.entries(way.names)
        for name, field in of_git:
            if there is None or name in there:
                _add(rules, view, found, way, name, _GIT + name, field)
    for path, field in protected.paths:
        _add(rules, view, found, Place(()), path, path, field)
    return rules


def _add(rules: _Rules, view: View, found: Found, way: Place, path: str, name: str, field: str) -> None:
    """The name itself, and where a link in its place leads."""
    assert way.names is not None
    for last in (False, True):
        place = way.on(view.resolve(way.names, path, last=last))
        if place.names is not None:
            rules.setdefault(place.names, _Rule(name, field, place))
        elif not last:
            found.outside.append(place)


def _refuse_path(tree: Node, before: View, names: Names, rule: _Rule) -> None:
    """The entry there, or one on the way that would take it along."""
    node, path = tree, "/".join(names)
    for left, name in zip(reversed(range(len(names))), names, strict=True):
        child = node.children.get(name)
        if child is None:
            return
        node = child
        if left == 0:
            node.refuse(_reason(rule, path), rule.field or None)
        elif node.lost is not None:
            if before.exists(names):
                node.refuse(f"it holds the protected {path}", rule.field or None)
            return


def _reason(rule: _Rule, path: str) -> str:
    what = f"protected by {rule.field}" if rule.field else "a protected name"
    return what if f"/{path}".endswith(f"/{rule.name}") else f"{what}: {rule.name}"
