"""Where and when each thing that a policy shows is mounted: once in the template, or in every box. Pure; called by view.py.

Most of it goes into the template, at its place. A root beneath the box's own /tmp, home or workspace cannot, since the box covers
that: it is kept aside in the template; each box mounts it at its place and then covers where it was kept. A root whose
changes are kept apart gets an overlay in each box; what lies beneath such a one is mounted there as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sandbox_native import paths
from sandbox_native._native import lib
from sandbox_native.plan import Op
from sandbox_native.rules import OWN, Access
from sandbox_native.shown import Shown

EMPTY: Final = "/.empty"
ASIDE: Final = "/.roots"
SAFE: Final = lib.SN_OP_NOSUID | lib.SN_OP_NODEV
READ_ONLY: Final = lib.SN_OP_RDONLY | SAFE


@dataclass(frozen=True, slots=True)
class _Home:
    """Something that was placed: what lies beneath it goes where it went."""

    inside: str
    at: str  # in the template's root; empty: only each box has it
    made: str = ""  # where in the template's root the directory is that it shows; empty: that is the host's
    masked: bool = False

    def place(self, inside: str) -> str:
        return self.at and self.at + inside[len(self.inside) :]

    def making(self, inside: str) -> str:
        return self.made and self.made + inside[len(self.inside) :]


class Places:
    """`template` and `box` after `place_all`."""

    def __init__(self, *, kept_apart: bool, owner_map: bool) -> None:
        """`kept_apart`: changes of writable roots. `owner_map`: the caller's files are shown as the guest's."""
        self.template: list[Op] = []
        self.box: list[Op] = []
        self._kept_apart = kept_apart
        self._map = lib.SN_OP_IDMAP if owner_map else 0
        self._homes: list[_Home] = []
        self._aside = self._changed = self._skeletons = 0

    def place_all(self, shown: Iterable[Shown]) -> None:
        ordered = outer_first(shown)
        for number, one in enumerate(ordered, 1):
            home = next((home for home in reversed(self._homes) if paths.contains(home.inside, one.inside)), None)
            at = one.inside if home is None else home.place(one.inside)
            if one.kind not in ("guard", "mask"):
                self._root(one, home, at)
            elif home is not None and home.masked:
                continue
            elif one.kind == "guard":
                self._guard(one, at)
            else:
                self._mask(one, at, [other for other in ordered[number:] if paths.contains(one.inside, other.inside)])
        if self._aside:
            self.box.append(Op(lib.SN_OP_MASK, ASIDE, READ_ONLY, source=f"{EMPTY}/dir"))

    def _root(self, shown: Shown, home: _Home | None, at: str) -> None:
        making = home.making(shown.inside) if home is not None else ""
        if shown.kind == "link":
            self.template.append(Op(lib.SN_OP_SYMLINK, making or at, data=shown.source.encode("utf-8", "surrogateescape")))
            return
        keep_apart = self._kept_apart and shown.kind == "bind" and shown.access is Access.WRITABLE
        covered = home is None and any(paths.contains(own, shown.inside) for own in OWN)
        if making and (making != at or shown.kind == "dir"):
            self._make(making, shown.directory)
        on_hosts = shown.kind == "dir" and home is not None and not making  # nothing can be made there
        if covered or not at or on_hosts:
            at = self._put_aside(shown, keep_apart)
        elif keep_apart:
            self._change(shown, at)
        if shown.kind == "dir":
            if not making:
                self._make(at, directory=True)
            self._homes.append(_Home(shown.inside, at, making or at))
            return
        self.template.append(self._bind(shown, at, self._flags(shown, keep_apart)))
        self._homes.append(_Home(shown.inside, "" if keep_apart else at))

    def _put_aside(self, shown: Shown, keep_apart: bool) -> str:
        at = f"{ASIDE}/{self._aside}"
        self._aside += 1
        if keep_apart:
            self._change(shown, at)
        else:
            self.box.append(Op(lib.SN_OP_BIND, shown.inside, source=at))
        return at

    def _change(self, shown: Shown, source: str) -> None:
        """An overlay at its place over what the template has, there or aside."""
        self._changed += 1
        self.box.append(Op(lib.SN_OP_CHANGES, shown.inside, SAFE, mode=self._changed, source=source))

    def _make(self, at: str, directory: bool) -> None:
        self.template.append(Op(lib.SN_OP_DIR if directory else lib.SN_OP_FILE, at, mode=0o755 if directory else 0o644))

    def _flags(self, shown: Shown, keep_apart: bool) -> int:
        if shown.access is not Access.WRITABLE:
            return READ_ONLY
        return (READ_ONLY if keep_apart else SAFE) | self._map

    def _guard(self, shown: Shown, at: str) -> None:
        """Of the host's own file, shown to the guest as the root around it is: what it may read it goes on reading."""
        read_only = shown.access is Access.PROTECTED
        if at:
            self.template.append(self._bind(shown, at, (READ_ONLY if read_only else SAFE) | self._map))
        else:
            self.box.append(Op(lib.SN_OP_GUARD, shown.inside, lib.SN_OP_RDONLY if read_only else 0))

    def _mask(self, shown: Shown, at: str, beneath: list[Shown]) -> None:
        source = f"{EMPTY}/{'dir' if shown.directory else 'file'}"
        made = ""
        if any(one.kind not in ("guard", "mask") for one in beneath):
            self._skeletons += 1
            source = made = f"{EMPTY}/{self._skeletons}"
            self._make(made, directory=True)
        op = Op(lib.SN_OP_MASK, at or shown.inside, READ_ONLY, source=source)
        (self.template if at else self.box).append(op)
        self._homes.append(_Home(shown.inside, at, made, masked=True))

    def _bind(self, shown: Shown, at: str, flags: int) -> Op:
        kind = lib.SN_OP_OVERLAY if shown.kind == "overlay" else lib.SN_OP_BIND
        return Op(kind, at, flags, source=shown.source, device=shown.device, inode=shown.inode)


def outer_first(shown: Iterable[Shown]) -> list[Shown]:
    """In the order of mounting; and a link beneath the box's own places gets a directory that can be kept aside."""
    found = list(shown)
    for one in [one for one in found if one.kind == "link"]:
        parent = one.inside.rpartition("/")[0]
        around = any(other.kind != "link" and paths.contains(other.inside, parent) for other in found)
        if not around and any(paths.contains(own, parent) for own in OWN):
            found.append(Shown(kind="dir", inside=parent, field=one.field))
    return sorted(found, key=lambda one: one.inside.count("/"))
