"""The rung without namespaces: what it takes, what it cannot hold, and its Landlock rules. Pure; called by planning.py.

The guest has the caller's user and the host's own file tree, of which Landlock opens what the policy shows, at the host's
own paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from sandbox_native import landlock
from sandbox_native._native import lib
from sandbox_native.features import Feature, Features
from sandbox_native.limits import Limits
from sandbox_native.paths import contains
from sandbox_native.plan import PathRule, Ruleset
from sandbox_native.policy import Policy, ReadPolicy, Writes
from sandbox_native.rules import SYSTEM, Access
from sandbox_native.shown import HostTree, Shown

ABI: Final = 6
"""From here on signals and abstract sockets stay within the tree. Below it a filter would have to tell the guest's processes
from the caller's by their numbers, which it cannot."""

_READ: Final = ("execute", "read_file", "read_dir")
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
# Of the whole machine, and readable by everybody: what run-times ask for. Nothing of another process.
_PROC: Final = (
    *("cpuinfo", "meminfo", "stat", "version", "filesystems", "uptime", "loadavg"),
    *("sys/vm/overcommit_memory", "sys/vm/max_map_count", "sys/kernel/random", "sys/kernel/osrelease", "sys/kernel/pid_max"),
    *("sys/kernel/threads-max", "sys/kernel/ngroups_max", "sys/kernel/cap_last_cap", "sys/fs/nr_open", "sys/fs/pipe-max-size"),
)


class Lack(NamedTuple):
    what: str
    remedy: str


def lacks(policy: Policy, limits: Limits, features: Features, tree: HostTree) -> Iterator[Lack]:
    """Why this machine or this policy cannot have the rung; nothing when it can."""
    if features.landlock_abi < ABI:
        found = f"ABI {features.landlock_abi} here" if features.landlock_abi else "no Landlock here"
        yield Lack(f"Landlock ABI {ABI} ({found})", "boot Linux 6.12 or later with landlock among its security modules")
    for feature, what in (
        (Feature.SECCOMP, "system call filters"),
        (Feature.LISTENER, "a filter's notifications"),
        (Feature.PIDFD, "process descriptors"),
        (Feature.OPENAT2, "opening files beneath a directory and nowhere else"),
    ):
        if not features.works(feature):
            yield Lack(what, "")
    for field, wanted, why in _asked(policy, tree):
        yield Lack(f"namespaces ({field}: {why})", wanted)
    if limits.cpus is not None:
        yield Lack("a control group (Limits.cpus needs it)", "leave Limits.cpus at None")


def _asked(policy: Policy, tree: HostTree) -> Iterator[tuple[str, str, str]]:
    """Fields that only mounts can serve, what to give instead, and why."""
    if policy.read is ReadPolicy.HOST:
        yield "Policy.read=ReadPolicy.HOST", "read=ReadPolicy.DECLARED", "Landlock cannot hide a path beneath one that it shows"
    for name, pairs in (("readable", policy.readable), ("writable", policy.writable)):
        for at, (host, inside) in enumerate(pairs):
            if host != inside:
                yield f"Policy.{name}[{at}]", f"show {host} at its own path", "there is no root of its own to show it elsewhere"
    if policy.symlinks:
        yield "Policy.symlinks", "leave it empty", "there is no root of its own"
    for name, given in (("protected", policy.protected), ("hidden", policy.hidden), ("deny_write", policy.deny_write)):
        if given:
            yield f"Policy.{name}", "leave it empty", "Landlock cannot take back what it gave above"
    if policy.writes is Writes.COMMIT:
        yield "Policy.writes=Writes.COMMIT", "writes=Writes.DIRECT", "it takes an overlay"
    if policy.syscalls:
        yield "Policy.syscalls", "leave it empty", "more calls would reach the caller's own processes and sockets"
    if policy.explain:
        yield "Policy.explain", "explain=False", "the filter's notifications are init's"
    covered = min((shown for shown in tree.shown if shown.kind in ("guard", "mask")), key=_access, default=None)
    if covered is not None:
        yield (
            covered.field or "the mandatory deny-write",
            f"leave out the root around {covered.inside}",
            f"{covered.inside} lies beneath a root, and Landlock cannot take back what it gave above",
        )
    for shown in tree.shown:
        if shown.kind in ("bind", "overlay") and shown.access is not Access.WRITABLE:
            around = next((one for one in tree.shown if _is_writable(one) and contains(one.inside, shown.inside)), None)
            if around is not None:
                yield shown.field, "show it elsewhere", f"it would be writable, as {around.inside} around it is"


def _is_writable(shown: Shown) -> bool:
    return shown.kind == "bind" and shown.access is Access.WRITABLE


def _access(shown: Shown) -> Access:
    """What is covered for its own sake first, then what is only kept in its place."""
    return shown.access


def ruleset(policy: Policy, tree: HostTree, abi: int) -> Ruleset:
    """Everything that the guest may open, execute, make and remove."""
    change = landlock.bits(landlock.change(policy), abi)
    read, device = landlock.bits(_READ, abi), landlock.bits(landlock.DEVICE, abi)
    optional = lib.SN_RULE_OPTIONAL
    rules = [PathRule(path=path, access=read, flags=optional) for path in _system(policy, tree)]
    rules += (PathRule(path=path, access=device, flags=optional) for path in _DEVICES)
    rules += (PathRule(path=f"/proc/{name}", access=read, flags=optional) for name in _PROC)
    own = landlock.bits((*_READ, "write_file", "truncate"), abi)
    rules.append(PathRule(path="/proc/self", access=own, flags=lib.SN_RULE_SELF))
    rules += (_root(shown, read, change) for shown in tree.shown if shown.kind in ("bind", "overlay"))
    return Ruleset(handled=landlock.bits(landlock.RIGHTS, abi), scoped=landlock.scopes(abi), workspace=change, rules=rules)


def _system(policy: Policy, tree: HostTree) -> Iterator[str]:
    yield from tree.files
    if policy.system:
        yield from (path for path in SYSTEM if path in tree.directories or path in tree.links)
        yield from sorted(path for path in tree.directories if path.startswith("/etc/"))


def _root(shown: Shown, read: int, change: int) -> PathRule:
    writable = shown.access is Access.WRITABLE
    return PathRule(
        path=shown.source,
        access=change if writable else read,
        flags=lib.SN_RULE_OWNED if writable else 0,
        device=shown.device,
        inode=shown.inode,
    )
