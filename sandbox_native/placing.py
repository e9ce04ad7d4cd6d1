"""Where and when each thing that a policy shows is mounted: once in the template, or in every box. Pure; called by view.py.

Most of it goes into the template, at its place. What a box covers or makes anew cannot: a root beneath the box's own /tmp, home
or workspace, and one whose changes are kept apart (an overlay for each run), with all that lies beneath it. Such a root is
kept aside in the template; each box mounts it at its place and then covers where it was kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sandbox_native import paths
from sandbox_native._native import lib
from sandbox_native.environment import HOME, WORKSPACE
from sandbox_native.plan import Op
from sandbox_native.rules import Access
from sandbox_native.shown import Shown

OWN: Final = ("/tmp", HOME, WORKSPACE)
"""Mounted anew in every box."""
EMPTY: Final = "/.empty"
ASIDE: Final = "/.roots"
SAFE: Final = lib.SN_OP_NOSUID | lib.SN_OP_NODEV
READ_ONLY: Final = lib.SN_OP_RDONLY | SAFE

_BINDS: Final = {"bind": lib.SN_OP_BIND, "overlay": lib.SN_OP_OVERLAY}


@dataclass(frozen=True, slots=True)
class _Home:
    """A root that was placed: what lies beneath it goes where it went."""

    inside: str
    at: str  # in the template's root; empty: only each box has it


class Places:
    """`template` and `box` after `place` of every thing, what lies around others first."""

    def __init__(self, *, kept_apart: bool, owner_map: bool) -> None:
        """`kept_apart`: changes of writable roots. `owner_map`: the caller's files are shown as the guest's."""
        self.template: list[Op] = []
        self.box: list[Op] = []
        self._kept_apart = kept_apart
        self._map = lib.SN_OP_IDMAP if owner_map else 0
        self._homes: list[_Home] = []
        self._aside = self._changed = 0

    def place_all(self, shown: Iterable[Shown]) -> None:
        ordered = outer_first(shown)
        for at, one in enumerate(ordered):
            self._place(one, [other for other in ordered[at + 1 :] if paths.contains(one.inside, other.inside)])
        if self._aside:
            self.box.append(Op(lib.SN_OP_MASK, ASIDE, source=f"{EMPTY}/dir"))

    def _place(self, shown: Shown, beneath: list[Shown]) -> None:
        home = next((home for home in reversed(self._homes) if paths.contains(home.inside, shown.inside)), None)
        at = shown.inside if home is None else home.at + shown.inside[len(home.inside) :] if home.at else ""
        if shown.kind == "mask":
            self._mask(shown, at, beneath)
        elif shown.kind == "guard":
            self._guard(shown, at)
        elif shown.kind == "bind" and shown.access is Access.WRITABLE and self._kept_apart:
            self._keep_apart(shown)
        else:
            covered = home is None and any(paths.contains(own, shown.inside) for own in OWN)
            self._root(shown, "" if covered else at)

    def _root(self, shown: Shown, at: str) -> None:
        if not at:
            at = self._put_aside(shown)
            self.box.append(Op(lib.SN_OP_BIND, shown.inside, source=at))
        self.template.append(self._lowered(shown, at))
        if shown.kind != "link":
            self._homes.append(_Home(shown.inside, at))

    def _keep_apart(self, shown: Shown) -> None:
        at = self._put_aside(shown)
        self._changed += 1
        self.template.append(self._bind(shown, at, READ_ONLY | self._map))
        self.box.append(Op(lib.SN_OP_CHANGES, shown.inside, SAFE, mode=self._changed, source=at))
        self._homes.append(_Home(shown.inside, ""))

    def _put_aside(self, shown: Shown) -> str:
        at = f"{ASIDE}/{self._aside}"
        self._aside += 1
        return at

    def _lowered(self, shown: Shown, at: str) -> Op:
        if shown.kind == "dir":
            return Op(lib.SN_OP_DIR, at, mode=0o755)
        if shown.kind == "link":
            return Op(lib.SN_OP_SYMLINK, at, data=shown.source.encode("utf-8", "surrogateescape"))
        return self._bind(shown, at, SAFE | self._map if shown.access is Access.WRITABLE else READ_ONLY)

    def _guard(self, shown: Shown, at: str) -> None:
        """Of the host's own file, shown to the guest as the root around it is: what it may read it goes on reading."""
        read_only = shown.access is Access.PROTECTED
        if at:
            self.template.append(self._bind(shown, at, (READ_ONLY if read_only else SAFE) | self._map))
        else:
            self.box.append(Op(lib.SN_OP_GUARD, shown.inside, lib.SN_OP_RDONLY if read_only else 0))

    def _mask(self, shown: Shown, at: str, beneath: list[Shown]) -> None:
        source = self._skeleton(shown, beneath) if beneath else f"{EMPTY}/{'dir' if shown.directory else 'file'}"
        op = Op(lib.SN_OP_MASK, at or shown.inside, READ_ONLY, source=source)
        (self.template if at else self.box).append(op)

    def _skeleton(self, shown: Shown, beneath: list[Shown]) -> str:
        """Something empty but for the places of what is shown beneath all the same."""
        self._skeletons += 1
        top = f"{EMPTY}/{self._skeletons}"
        self.template.append(Op(lib.SN_OP_DIR, top, mode=0o755))
        for one in beneath:
            place = top + one.inside[len(shown.inside) :]
            if one.kind != "mask" and not any(paths.contains(op.target, place) for op in self.template if op.source):
                self.template.append(Op(lib.SN_OP_DIR if one.directory else lib.SN_OP_FILE, place, mode=0o755))
        return top

    def _bind(self, shown: Shown, at: str, flags: int) -> Op:
        kind = _BINDS.get(shown.kind, lib.SN_OP_BIND)
        return Op(kind, at, flags, source=shown.source, device=shown.device, inode=shown.inode)


def outer_first(shown: Iterable[Shown]) -> list[Shown]:
    """In the order of mounting; and a link beneath the box's own places gets a directory that can be kept aside."""
    found = list(shown)
    for one in [one for one in found if one.kind == "link"]:
        parent = one.inside.rpartition("/")[0]
        around = any(other.kind != "link" and paths.contains(other.inside, parent) for other in found)
        if not around and any(paths.contains(own, parent) for own in OWN):
            found.append(Shown(kind="dir", inside=parent, field=one.field))
    return sorted(found, key=lambda one: (one.inside.count("/"), one.kind != "dir"))
