"""What the host's files look like to a plan, as values. Pure; hosttree.py makes them, view.py lowers them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from sandbox_native.denials import Denial
from sandbox_native.rules import Access

Kind = Literal["bind", "overlay", "dir", "link", "guard", "mask"]

# Directories of /etc that installed programs reach by links out of /usr (Debian's java, python and perl packages; the crypto
# policy and certificates of Fedora's). All are readable by everybody on the host. Trailing * is a prefix.
SHARED_ETC: Final = (
    "/etc/alternatives",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
    "/etc/pki/java",
    "/etc/crypto-policies",
    "/etc/java-*",
    "/etc/python3*",
    "/etc/perl",
)
# Files copied by content, so that a link or a later change on the host plays no part.
COPIED_ETC: Final = (
    "/etc/localtime",
    "/etc/ld.so.cache",
    "/etc/ld-musl-*",
    "/etc/ssl/openssl.cnf",
    "/etc/locale.alias",
    "/etc/services",
    "/etc/protocols",
)


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
class Cover:
    """A place that is to lead to nothing, as it was when the plan was made."""

    path: str  # of the host's, as it is named
    real: str  # behind its links
    state: tuple[int, int, int] | None  # device, inode, last change; None: it was absent
    above: int  # last change of the directory that it is in


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTree:
    """Facts about the host's files."""

    links: Mapping[str, str] = field(default_factory=dict)  # of SYSTEM, those that are links: path -> text
    directories: frozenset[str] = frozenset()  # of SYSTEM and SHARED_ETC, those that are directories
    files: Mapping[str, bytes] = field(default_factory=dict)  # of COPIED_ETC
    proc: frozenset[str] = frozenset()  # of the masked names, those that are there
    shown: tuple[Shown, ...] = ()  # the policy's, in the order in which they are mounted: what lies around others first
    left_out: tuple[str, ...] = ()  # host paths beneath what is shown that are not: the kernel's, and what cannot be read
    unsearched: tuple[str, ...] = ()  # writable roots with too many directories to look for repositories in all of them
    covers: tuple[Cover, ...] = ()  # of what is hidden, there or not
    absent: tuple[str, ...] = ()  # hidden paths that are not there: nothing covers them
    changeable: tuple[str, ...] = ()  # links in writable roots on the way to a denied name: nothing can be mounted on one
    denials: tuple[Denial, ...] = ()  # hard links, where they are to be reported
