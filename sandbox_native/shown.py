"""What the host's files look like to a plan, as values. Pure; hosttree.py makes them, view.py lowers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sandbox_native.rules import Access

Kind = Literal["bind", "overlay", "dir", "link", "guard", "mask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One thing that the policy makes a box show, guard or cover: what was looked at when the plan was made.

    - bind: a root, read-write when `access` is WRITABLE. overlay: a read-only root in which no socket can be connected to.
    - dir, link: a directory or a link of the box's own, where a root is shown piecewise.
    - guard: beneath a writable root. PROTECTED: read-only; WRITABLE: only that it cannot be renamed, since something
      beneath it is guarded.
    - mask: something empty covers it.
    """

    kind: Kind
    inside: str
    source: str = ""  # on the host, resolved: no component is a link; of a link its text
    access: Access = Access.READABLE
    device: int = 0
    inode: int = 0
    directory: bool = True
    field: str = ""  # the policy's, for messages


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTree:
    """Facts about the host's files."""

    links: Mapping[str, str] = field(default_factory=dict)  # of SYSTEM, those that are links: path -> text
    directories: frozenset[str] = frozenset()  # of SYSTEM and SHARED_ETC, those that are directories
    files: Mapping[str, bytes] = field(default_factory=dict)  # of COPIED_ETC
    proc: frozenset[str] = frozenset()  # of the masked names, those that are there
    shown: tuple[Shown, ...] = ()  # the policy's, in the order in which they are mounted: what lies around others first
