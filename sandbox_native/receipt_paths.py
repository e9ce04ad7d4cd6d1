"""The receipt's layers about files: what is hidden, protected, kept apart, and out of reach. Pure; called by receipt.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sandbox_native._native import lib
from sandbox_native.policy import Deletion, Policy, Writes
from sandbox_native.result import Layer
from sandbox_native.rules import Access
from sandbox_native.shown import HostTree, Shown

_OF_POLICY: Final = ("Policy.readable", "Policy.writable", "Policy.read")  # not what every box has of the system
_WINDOW: Final = "names that were absent are checked after the run: there was a window"


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """The host directory that a run shows as /workspace."""

    shown: bool = False
    guards: int = 0  # mounts on top of it; those that are read-only, and those that cover something:
    protected: int = 0
    hidden: int = 0
    searched: bool = True  # all of it was looked at for repositories


NOTHING: Final = Brought()


def path_layers(policy: Policy, tree: HostTree, held: int, brought: Brought, *, bare: bool) -> Iterator[Layer]:
    """`bare`: without namespaces, and so without mounts."""
    written = bool(policy.writable) or brought.shown
    yield _deletion(policy, held)
    yield _protected(policy, tree, held, brought, written, bare)
    yield _hidden(policy, tree, held, brought)
    yield _sockets_refused(held) if bare else _sockets(policy, tree.shown, brought)
    yield _hard_links(policy, written)
    yield _changes(policy, held, written)


def _deletion(policy: Policy, held: int) -> Layer:
    if policy.deletion is Deletion.ALLOW:
        return Layer(name="deletion", mechanism="Landlock", held=None, detail="removing and renaming are permitted")
    denied = "no removing, no renaming, no links across directories"
    return Layer(name="deletion", mechanism="Landlock", held=bool(held & lib.SN_HELD_LANDLOCK), detail=denied)


def _protected(policy: Policy, tree: HostTree, held: int, brought: Brought, written: bool, bare: bool) -> Layer:
    if not written:
        return Layer(name="protected", mechanism="mounts", held=None, detail="no directory of the host can be written")
    if bare:
        lost = "what lies in a directory that can be written can be written too"
        return Layer(name="protected", mechanism="none", held=False, detail=lost)
    in_place = not brought.guards or bool(held & lib.SN_HELD_GUARDS)
    count = sum(one.kind == "guard" and one.access is Access.PROTECTED for one in tree.shown)
    existing = f"{count or 'no'} existing names in the policy's roots"
    if brought.shown:
        existing += f", {brought.protected or 'none'} in the workspace"
    if tree.changeable:
        existing += f"; {len(tree.changeable)} links to such can be turned until the run ends"
    if policy.writes is Writes.DIRECT:
        return Layer(name="protected", mechanism="read-only mounts", held=in_place, detail=f"{existing}; {_WINDOW}")
    if tree.unsearched or not brought.searched:
        existing += "; there are more directories than could be searched for others"
        in_place = False
    apart = in_place and bool(held & lib.SN_HELD_CHANGES)
    how = "read-only mounts, and the commit refuses"
    return Layer(name="protected", mechanism=how, held=apart, detail=f"{existing}; absent ones by the commit")


def _hidden(policy: Policy, tree: HostTree, held: int, brought: Brought) -> Layer:
    count = sum(one.kind == "mask" for one in tree.shown) + brought.hidden
    if not count and not policy.hidden:
        return Layer(name="hidden", mechanism="mounts", held=None, detail="nothing that is shown was to be hidden")
    in_place = not brought.guards or bool(held & lib.SN_HELD_GUARDS)
    absent = f"; {len(tree.absent)} were not there when the run began, and nothing covers them" if tree.absent else ""
    return Layer(name="hidden", mechanism="covered by empty mounts", held=in_place, detail=f"{count} places{absent}")


def _sockets_refused(held: int) -> Layer:
    filtered = bool(held & lib.SN_HELD_SECCOMP)
    return Layer(name="host_sockets", mechanism="system call filter: no sockets", held=filtered)


def _sockets(policy: Policy, shown: tuple[Shown, ...], brought: Brought) -> Layer:
    """Held where no socket can be reached whenever it is made; a look says only what was there then."""
    if policy.host_sockets == "show":
        return Layer(name="host_sockets", mechanism="none", held=None, detail="sockets of the host in what is shown are in reach")
    direct = policy.writes is Writes.DIRECT
    count = sum(one.kind == "overlay" for one in shown)
    bound = [one.access for one in shown if one.kind == "bind" and one.directory and one.field.startswith(_OF_POLICY)]
    read = sum(access is not Access.WRITABLE for access in bound)
    written = (len(bound) - read) * direct
    looks = [f"{read} that are read when the Sandbox was made"] if read else []
    looks += [f"{written} that are written directly when the Sandbox was made"] if written else []
    looks += ["the workspace when the run began"] if brought.shown and direct else []
    detail = f"{count} roots behind one" + (f"; only looked at, and free of them then: {', '.join(looks)}" if looks else "")
    return Layer(name="host_sockets", mechanism="read-only overlays", held=not looks, detail=detail)


def _hard_links(policy: Policy, written: bool) -> Layer:
    if policy.on_hard_links == "ignore" or not written:
        return Layer(name="hard_links", mechanism="scan", held=None, detail="not looked for")
    return Layer(name="hard_links", mechanism="scan before the start", held=True, detail=policy.on_hard_links)


def _changes(policy: Policy, held: int, written: bool) -> Layer:
    how = "overlay and checked commit"
    if policy.writes is Writes.DIRECT or not written:
        return Layer(name="changes", mechanism=how, held=None, detail="what the guest writes is there at once")
    where = "in memory" if policy.changes == "memory" else "on disk"
    return Layer(name="changes", mechanism=how, held=bool(held & lib.SN_HELD_CHANGES), detail=f"kept {where} meanwhile")
