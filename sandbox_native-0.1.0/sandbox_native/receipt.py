"""The receipt: from the bits of init's report and the plan to `Enforcement`. Pure.

A layer holds because init or the guest's first steps did it in this very run and said so, not because it was planned.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sandbox_native._native import lib
from sandbox_native.limits import Limits
from sandbox_native.plan import INSIDE_UID, Plan
from sandbox_native.policy import Policy, Rung
from sandbox_native.receipt_paths import NOTHING, Brought, path_layers
from sandbox_native.request import rlimits
from sandbox_native.result import Enforcement, Layer
from sandbox_native.shown import HostTree, Shown
from sandbox_native.verdict import ReportData

WARM: Final = "clone of a warm interpreter"
_SAMPLED: Final = "may be passed between two samples; memory that waits in sockets is not counted"
_KEPT: Final = 256  # receipts that are remembered: the bits differ in few runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """What a Sandbox stands on, for the receipts of all its runs."""

    rung: Rung
    policy: Policy
    plan: Plan
    group: str  # which control group serves, or why none does
    swap_limited: bool
    rlimit_counts: bool  # RLIMIT_NPROC counts the box's processes, since no group does
    tree: HostTree = field(default_factory=HostTree)
    landlock_abi: int = 0  # 0: this kernel has none
    warm: str = ""  # guests are clones of an interpreter, and of which

    @property
    def shown(self) -> tuple[Shown, ...]:
        return self.tree.shown


# Each run's own steps: layer, mechanism, bit. The first ones are namespaces' work.
_OF_NAMESPACES: Final = (
    ("user", "user namespace", lib.SN_HELD_USER),
    ("mount", "mount namespace", lib.SN_HELD_MOUNT),
    ("root", "root of its own, by pivot_root", lib.SN_HELD_ROOT),
    ("pid", "pid namespace", lib.SN_HELD_PID),
    ("proc", "/proc of its own", lib.SN_HELD_PROC),
    ("ipc", "ipc namespace", lib.SN_HELD_IPC),
    ("uts", "uts namespace", lib.SN_HELD_UTS),
    ("net", "network namespace", lib.SN_HELD_NET),
    ("cgroup_namespace", "cgroup namespace", lib.SN_HELD_CGROUP_NS),
)
_STEPS: Final = (
    ("groups", "no supplementary groups", lib.SN_HELD_NO_GROUPS),
    ("capabilities", "all five sets empty", lib.SN_HELD_CAPS),
    ("no_new_privs", "PR_SET_NO_NEW_PRIVS", lib.SN_HELD_NO_NEW_PRIVS),
    ("securebits", "securebits, locked", lib.SN_HELD_SECUREBITS),
    ("session", "setsid, default signals, umask 022", lib.SN_HELD_SESSION),
    ("descriptors", "close_range: only 0, 1, 2", lib.SN_HELD_FDS),
    ("keyring", "session keyring of its own", lib.SN_HELD_KEYRING),
)


class Receipts:
    """Makes receipts, and gives the same one to runs for which the same held. Safe in threads."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._known: dict[object, Enforcement] = {}

    @property
    def policy(self) -> Policy:
        return self._ground.policy

    def of(self, report: ReportData, limits: Limits, brought: Brought = NOTHING) -> Enforcement:
        """`brought`: the host directory that this run shows as its workspace, if it shows one."""
        kept = limits if report.rlimits_kept else None
        key = (report.held, report.rlimits_kept, kept, limits.cpus, limits.cpu_seconds is None, brought)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            layers = tuple(_layers(self._ground, report, limits, brought))
            found = self._known[key] = Enforcement(rung=self._ground.rung, layers=layers)
        return found


def _layers(ground: Ground, report: ReportData, limits: Limits, brought: Brought) -> Iterator[Layer]:
    held, bare = report.held, ground.rung is Rung.LANDLOCK
    if bare:
        yield from _without_namespaces(ground, held)
    for name, mechanism, bit in (*(() if bare else _OF_NAMESPACES), *_STEPS):
        if name == "capabilities" and bare and not held & lib.SN_HELD_SECUREBITS:
            mechanism = "four sets empty"
        yield Layer(name=name, mechanism=mechanism, held=bool(held & bit), detail=_detail(ground, name, held))
    yield _seccomp(ground, held)
    yield _landlock(ground, held)
    yield from path_layers(ground.policy, ground.tree, held, brought, bare=bare)
    asked = ground.plan.explain is not None
    yield Layer(name="explain", mechanism="seccomp notification", held=bool(held & lib.SN_HELD_EXPLAIN) if asked else None)
    if ground.warm:
        yield Layer(name="warm", mechanism=WARM, held=True, detail=ground.warm)
    yield _rlimits(ground, report, limits)
    yield from _consumption(ground, held, limits)


def _without_namespaces(ground: Ground, held: int) -> Iterator[Layer]:
    """What takes the place of each namespace, or that nothing does."""
    landlock, filtered = bool(held & lib.SN_HELD_LANDLOCK), bool(held & lib.SN_HELD_SECCOMP)
    scoped = landlock and ground.plan.landlock is not None and bool(ground.plan.landlock.scoped)
    here = f"uid {ground.plan.identity.box_uid}, the caller's own"
    yield Layer(name="user", mechanism="none", held=False, detail=here)
    names = "the host's names and what stat tells of them are seen; Landlock says what can be opened"
    yield Layer(name="mount", mechanism="none", held=False, detail=names)
    places = "workspace, home and TMPDIR are a directory of the host's, which nothing bounds"
    yield Layer(name="tmp_bytes", mechanism="none", held=False, detail=places)
    yield Layer(name="pid", mechanism="Landlock: no signal leaves the tree", held=scoped, detail="the host's pids are seen")
    yield Layer(name="tree", mechanism="subreaper and process descriptors", held=bool(held & lib.SN_HELD_SUBREAPER))
    yield Layer(name="net", mechanism="system call filter: no sockets", held=filtered)
    yield Layer(name="ipc", mechanism="system call filter", held=filtered)
    yield Layer(name="uts", mechanism="none", held=False, detail="the host's name is read")


def _detail(ground: Ground, name: str, held: int) -> str:
    identity = ground.plan.identity
    if name == "user":
        return f"uid {INSIDE_UID} inside, {identity.box_uid} on the host"
    if name == "root" and ground.tree.left_out:
        return f"{len(ground.tree.left_out)} paths in what is shown are left out, such as {ground.tree.left_out[0]}"
    if name == "proc" and not held & lib.SN_HELD_PROC:
        return "there is none: a new one was refused here, so killed_processes may miss some"
    if name == "proc":
        if held & lib.SN_HELD_PROC_SUBSET:
            return "processes only: a full one was refused here"
        masked = sum(op.kind == lib.SN_OP_MASK and op.target.startswith("/proc/") for op in ground.plan.box)
        return f"{masked} host-wide names masked" if masked else "nothing masked"
    if name == "capabilities" and ground.rung is Rung.LANDLOCK and not held & lib.SN_HELD_SECUREBITS:
        return "the bounding set stays the caller's: no_new_privs keeps it from giving anything"
    if name == "net":
        return "lo only" + ("; an earlier box had it and left no trace in it" if held & lib.SN_HELD_NET_UNUSED else "")
    return ""


def _seccomp(ground: Ground, held: int) -> Layer:
    code = ground.plan.seccomp
    if code is None or ground.policy.preset == "light":  # where calls are explained that has one too, which refuses nothing
        return Layer(name="seccomp", mechanism="system call filter", held=None, detail="not requested by this policy")
    listener = "" if held & lib.SN_HELD_LISTENER else "; what it ends looks like a SIGSYS here"
    detail = f"allowlist, {len(code) // 8} instructions{listener}"
    return Layer(name="seccomp", mechanism="system call filter", held=bool(held & lib.SN_HELD_SECCOMP), detail=detail)


def _landlock(ground: Ground, held: int) -> Layer:
    ruleset, abi = ground.plan.landlock, ground.landlock_abi
    if ruleset is None:
        return Layer(name="landlock", mechanism="Landlock", held=None, detail="none on this kernel" if not abi else f"ABI {abi}")
    scoped = "; abstract sockets and signals stay inside" if ruleset.scoped else ""
    detail = f"ABI {abi}, {len(ruleset.rules)} rules{scoped}"
    return Layer(name="landlock", mechanism="Landlock", held=bool(held & lib.SN_HELD_LANDLOCK), detail=detail)


def _rlimits(ground: Ground, report: ReportData, limits: Limits) -> Layer:
    asked = rlimits(limits, ground.rlimit_counts)
    kept = [limit.name for at, limit in enumerate(asked) if report.rlimits_kept >> at & 1]
    detail = ", ".join(limit.name for limit in asked)
    if kept:
        detail += f"; above the caller's own hard limit, which stays: {', '.join(kept)}"
    return Layer(name="rlimits", mechanism="setrlimit", held=bool(report.held & lib.SN_HELD_RLIMITS), detail=detail)


def _consumption(ground: Ground, held: int, limits: Limits) -> Iterator[Layer]:
    grouped = ground.rung is Rung.FULL
    in_group = bool(held & lib.SN_HELD_GROUP)
    yield Layer(name="control_group", mechanism="cgroup", held=in_group if grouped else False, detail=ground.group)
    if grouped:
        swap = "without swap" if ground.swap_limited else "swap is not accounted by this kernel"
        yield Layer(name="memory", mechanism="control group limit", held=in_group, detail=swap)
        yield Layer(name="processes", mechanism="control group limit", held=in_group)
        cpu = "control group usage"
    else:
        yield Layer(name="memory", mechanism="sampling", held=True, detail=_SAMPLED)
        counts = ground.rlimit_counts
        counted = "RLIMIT_NPROC" if counts else "no control group, and before Linux 5.14 RLIMIT_NPROC counts the whole host"
        if ground.plan.bare:
            counted = "RLIMIT_NPROC counts all that the caller runs: as many more as the limit says than there were at the start"
        yield Layer(name="processes", mechanism="rlimit", held=counts and bool(held & lib.SN_HELD_RLIMITS), detail=counted)
        cpu = "sampling"
    yield Layer(name="cpu_seconds", mechanism=cpu, held=None if limits.cpu_seconds is None else in_group or not grouped)
    yield Layer(name="cpus", mechanism="control group quota", held=None if limits.cpus is None else in_group)
    yield Layer(name="wall_seconds", mechanism="init's clock", held=True)
