"""The tree that a guest sees, as values: read off the operations that make a box, so that it is no second description. Pure.

Called by policy_show.py and command_guard.py. What a run adds of its own (a host workspace, files placed in it) is not there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sandbox_native import view
from sandbox_native._native import lib
from sandbox_native.paths import contains
from sandbox_native.placing import ASIDE, EMPTY
from sandbox_native.plan import Op
from sandbox_native.policy import Policy
from sandbox_native.rules import Access
from sandbox_native.shown import HostTree, Shown

_WORKINGS: Final = (EMPTY, ASIDE, view.CHANGES)  # of the box: empty, or covered before the guest starts
_NOT_RENAMED: Final = "cannot be renamed: something beneath it is protected"
_MADE: Final = (lib.SN_OP_DIR, lib.SN_OP_FILE, lib.SN_OP_SYMLINK)
_MOST_LINKS: Final = 40  # MAXSYMLINKS


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One place of the tree. `access` is ro, rw, protected, hidden or link."""

    path: str
    access: str
    detail: str = ""
    whole: bool = True
    """What lies beneath is as this is. False: made for the box, and only what other entries name lies beneath."""
    text: str = ""
    """Of a link."""


def entries(policy: Policy, tree: HostTree, root: bool) -> list[Entry]:
    """The places of a box in the order of their paths; what lies beneath a covered one is not there. Pure."""
    found = {"/": Entry(path="/", access="ro", detail="made for the box", whole=False)}
    own = {one.inside: one for one in tree.shown}
    for op in _operations(view.template_ops(policy, tree, root), view.box_ops(policy, tree)):
        if op.kind not in (*_MADE, lib.SN_OP_GUARD):
            found = {path: one for path, one in found.items() if path == op.target or not contains(op.target, path)}
        found[op.target] = _entry(op, own.get(op.target), policy)
    for path in list(found):
        for above in _made_above(path, found):
            found[above] = Entry(path=above, access="ro", whole=False)
    return [found[path] for path in sorted(found, key=lambda path: path.split("/") if path != "/" else [""])]


def _operations(template: Sequence[Op], box: Sequence[Op]) -> Iterator[Op]:
    """In their order and at the places that the guest sees: what the template keeps aside is where each box mounts it."""
    aside = [op for op in template if contains(ASIDE, op.target)]
    for op in (*template, *box):
        if any(contains(place, op.target) for place in _WORKINGS):
            continue
        if not op.source or not contains(ASIDE, op.source):
            yield op
            continue
        for one in (one for one in aside if contains(op.source, one.target)):
            kind = op.kind if one.target == op.source and op.kind == lib.SN_OP_CHANGES else one.kind
            yield replace(one, kind=kind, target=op.target + one.target.removeprefix(op.source))


def _made_above(path: str, found: Mapping[str, Entry]) -> list[str]:
    """Directories that the launcher makes on the way; none beneath a mount, which has them."""
    made, above = [], os.path.dirname(path)
    while above not in found:
        made.append(above)
        above = os.path.dirname(above)
    return [] if found[above].whole else made


def _entry(op: Op, shown: Shown | None, policy: Policy) -> Entry:
    access, detail = _described(op, policy)
    if shown is not None and shown.kind == "guard":
        access = "protected" if shown.access is Access.PROTECTED else "rw"
        detail = f"{detail}, {_NOT_RENAMED}" if access == "rw" else detail
    text = op.data.decode("utf-8", "surrogateescape") if op.kind == lib.SN_OP_SYMLINK else ""
    return Entry(path=op.target, access=access, detail=f"-> {text}" if text else detail, whole=op.kind not in _MADE, text=text)


def _described(op: Op, policy: Policy) -> tuple[str, str]:
    if op.kind == lib.SN_OP_MASK:
        return "hidden", ""
    if op.kind == lib.SN_OP_SYMLINK:
        return "link", ""
    if op.kind in (lib.SN_OP_TMPFS, lib.SN_OP_MQUEUE):
        return "rw", "the run's own, empty at its start"
    if op.kind == lib.SN_OP_PROC:
        return "rw", "the run's own processes"
    if op.kind == lib.SN_OP_GUARD:
        return ("protected", "") if op.flags & lib.SN_OP_RDONLY else ("rw", _NOT_RENAMED)
    if op.kind in (lib.SN_OP_DIR, lib.SN_OP_FILE):
        return "ro", "made for the box"
    detail = f"the host's {op.source}" if op.source != op.target else "the host's"
    if op.kind == lib.SN_OP_CHANGES:
        return "rw", f"{detail}, changes kept apart ({policy.changes}) until they are committed"
    if op.kind == lib.SN_OP_OVERLAY:
        detail += ", its sockets out of reach"
    device = contains("/dev", op.target) and op.source == op.target  # a read-only mount says nothing about writing to it
    return "ro" if op.flags & lib.SN_OP_RDONLY and not device else "rw", detail


def lookup(tree: Mapping[str, Entry], path: str) -> Entry | None:
    """The entry that a path of the box leads to, through the tree's own links; None where nothing is shown."""
    for _ in range(_MOST_LINKS):
        at = path
        while at not in tree:
            at = os.path.dirname(at)
        entry = tree[at]
        if entry.access != "link":
            return entry if entry.whole or at == path else None
        path = os.path.normpath(os.path.join(os.path.dirname(at), entry.text, path[len(at) + 1 :]))
    return None
