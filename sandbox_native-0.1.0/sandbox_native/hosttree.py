"""Reads from the host's files what a plan needs to know of them: what the box's own places are made from, and everything that
the policy names. Linux, host process.

Called by backends/prepare.py when a Sandbox is made. Whatever is refused here is refused before anything runs.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from typing import Final

from sandbox_native import home
from sandbox_native.errors import PolicyError
from sandbox_native.paths import contains
from sandbox_native.policy import Policy, ReadPolicy
from sandbox_native.showing import APART, Showing
from sandbox_native.shown import HostTree
from sandbox_native.view import COPIED_ETC, SHARED_ETC, SYSTEM, made_up, masked_paths

_LARGEST_COPY: Final = 1 << 20


def read_tree(policy: Policy, *, overlays: bool = True) -> HostTree:
    """The facts behind one plan. PolicyError for what may not be shown, or not in this way.

    `overlays`: this machine has them, so that a short look for sockets will do.
    """
    links = {path: os.readlink(path) for path in SYSTEM if os.path.islink(path)}
    directories = frozenset(path for path in _expand((*SYSTEM, *SHARED_ETC)) if os.path.isdir(path))
    files = {path: data for path in _expand(COPIED_ETC) if (data := _read(path)) is not None}
    _check_places(policy)
    whole_etc = policy.preset == "light"
    box = (directories - links.keys()) | ({"/etc"} if whole_etc else set())
    showing = Showing(policy, box, frozenset() if whole_etc else made_up(files), overlays)
    shown = tuple(showing.shown())
    return HostTree(
        links=links,
        directories=directories,
        files=files,
        proc=frozenset(path for path in masked_paths() if os.path.exists(path)),
        shown=shown,
        left_out=tuple(showing.left_out),
        covers=tuple(showing.covers),
        absent=tuple(showing.absent),
        changeable=tuple(showing.changeable),
        unsearched=tuple(showing.unsearched),
        denials=tuple(showing.denials),
    )


def _check_places(policy: Policy) -> None:
    """A path beneath one that is shown needs something there to be mounted on, unless what is around it is made by the box."""
    system = [(path, path) for path in SYSTEM] if policy.system else []
    whole = [("/", "/")] if policy.read is ReadPolicy.HOST else []
    covered = [*policy.hidden, *(home.hidden_paths() if whole else ())]
    shown = [*whole, *system, *((inner, outer) for outer, inner in (*policy.readable, *policy.writable))]
    for name, pairs in (("readable", policy.readable), ("writable", policy.writable)):
        for at, (host, inside) in enumerate(pairs):
            around = [(outer, source) for outer, source in shown if outer != inside and contains(outer, inside)]
            if around:
                outer, source = max(around, key=lambda pair: len(pair[0].rstrip("/")))
                hidden = any(contains(outer, path) and contains(path, inside) and path != inside for path in covered)
                anew = hidden or (outer == "/" and os.path.dirname(inside) in ("/", *APART))
                if not anew:
                    _check_place(f"Policy.{name}[{at}]", host, inside, outer, source)


def _check_place(field: str, host: str, inside: str, outer: str, source: str) -> None:
    if os.path.islink(outer) and outer in SYSTEM:
        raise PolicyError(f"{outer} is a link in the box", field=field, value=inside, remedy="name the place it leads to")
    elsewhere = "show it elsewhere, " + ("at the top" if outer == "/" else "in /mnt")
    beneath = inside[len(outer.rstrip("/")) :]
    place = source.rstrip("/") + beneath
    if not os.path.exists(place):
        raise PolicyError(f"{outer} has no such place", field=field, value=inside, remedy=elsewhere)
    if os.path.realpath(place) != os.path.realpath(source).rstrip("/") + beneath:
        raise PolicyError(f"a link in {outer} leads elsewhere", field=field, value=inside, remedy=elsewhere)
    if os.path.isdir(place) != os.path.isdir(host):
        kind = "a directory" if os.path.isdir(place) else "a file"
        raise PolicyError(f"{outer} has {kind} there", field=field, value=inside, remedy=elsewhere)


def _expand(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if pattern.endswith("*"):
            yield from sorted(glob.glob(pattern))
        else:
            yield pattern


def _read(path: str) -> bytes | None:
    """None for what is not there, and for what only the host's user may read: such a file is not the guest's."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not status.st_mode & stat.S_IROTH or status.st_size > _LARGEST_COPY:
                return None
            return file.read(_LARGEST_COPY)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return None
