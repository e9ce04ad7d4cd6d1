"""What a Sandbox stands on: from policy, limits and features to a plan and a running engine. Host, once for each launcher.

Everything that can be refused is refused here, before anything runs: `UnsupportedError` names what is missing.
"""

from __future__ import annotations

import functools
import os
import weakref
from dataclasses import replace
from typing import Final

from sandbox_native import hostids, hosttree, planning
from sandbox_native.backends import bare
from sandbox_native.backends.base import Upkeep
from sandbox_native.backends.engine import Engine
from sandbox_native.backends.native import bare_filter, explaining_filters, strict_filter
from sandbox_native.cgroup import Group, Hierarchy, discover, make_group, release, sweep
from sandbox_native.errors import STAGES, SandboxError, setup_error
from sandbox_native.features import Feature, Features, launcher_path, probe
from sandbox_native.limits import Limits
from sandbox_native.plan import Identity
from sandbox_native.planning import Facts
from sandbox_native.policy import Policy, Rung
from sandbox_native.receipt import Ground
from sandbox_native.remedies import Machine
from sandbox_native.warm import spec

_STAGE_SPAWN: Final = next(number for number, name in STAGES.items() if name == "spawn")


def open_engine(policy: Policy, limits: Limits, cgroup: str | None, keep: Upkeep) -> tuple[Engine, Ground]:
    """A launcher with its first slots, and what the receipts of its runs say."""
    try:
        return _open(policy, limits, cgroup, keep)
    except OSError as error:  # of looking about on the host: no descriptors left, say
        if isinstance(error, SandboxError):
            raise
        raise setup_error(_STAGE_SPAWN, error.errno or 0, str(error.filename or "")) from error


def _open(policy: Policy, limits: Limits, cgroup: str | None, keep: Upkeep) -> tuple[Engine, Ground]:
    features = probe()
    # Looking for one may move this process: not where no rung has a use for it.
    hierarchy = Hierarchy(version=0, reason="no namespaces") if features.missing else control_groups(cgroup)
    facts = _facts(policy, features, hierarchy)
    planned = planning.plan(policy, limits, features, facts)
    rung, plan = planned.rung, planned.plan
    if keep.warm is not None:
        spec.check(policy, rung)
        plan = keep.warm.lowered(plan)
    if plan.bare:
        bare.check()
        bare.sweep()
    group = _make_group(hierarchy, plan.identity) if rung is Rung.FULL else None
    if group is not None:
        plan = replace(plan, groups=group.paths(), enter=group.entrance)
    engine = Engine(launcher_path(), group, plan.encode(), keep, plan.bare)
    try:
        engine.prepare()
    except BaseException:
        engine.close()
        raise
    ground = Ground(
        rung=rung,
        policy=policy,
        plan=plan,
        group=hierarchy.detail,
        swap_limited=engine.swap_limited,
        rlimit_counts=rung is Rung.NAMESPACES and features.works(Feature.NPROC),
        tree=facts.tree,
        landlock_abi=features.landlock_abi,
        warm="" if keep.warm is None else keep.warm.detail,
    )
    return engine, ground


def _facts(policy: Policy, features: Features, hierarchy: Hierarchy) -> Facts:
    identity, (seccomp, explain) = _identity(), _filters(policy, features)
    return Facts(
        tree=hosttree.read_tree(policy, overlays=features.works(Feature.OVERLAY) or bool(features.missing)),
        identity=identity,
        hierarchy=hierarchy,
        machine=Machine.here(launcher_path()),
        drops_groups=identity.root or not os.getgroups(),
        seccomp=seccomp,
        bare_seccomp=bare_filter() if features.missing else None,
        explain=explain,
    )


def _filters(policy: Policy, features: Features) -> tuple[bytes | None, bytes | None]:
    """The filter that the guest gets, and what the supervisor of refused calls answers where that one asks."""
    if policy.explain:
        return explaining_filters(policy.syscalls if policy.preset == "strict" else None)
    if policy.preset == "light":
        return None, None
    return strict_filter(features.works(Feature.LISTENER), policy.syscalls), None


def _make_group(hierarchy: Hierarchy, identity: Identity) -> Group:
    sweep(hierarchy)
    return make_group(hierarchy, box_uid=identity.box_uid if identity.root else None)


def control_groups(cgroup: str | None = None) -> Hierarchy:
    """Where this process may make groups; below `cgroup` if that is given."""
    return _hierarchy(cgroup, os.getpid())


@functools.lru_cache(maxsize=8)
def _hierarchy(cgroup: str | None, pid: int) -> Hierarchy:
    """Where groups may be made; asked once, since finding out may move this process (v2), which is undone at its end."""
    hierarchy = discover(cgroup)
    # Finalizers that are left at exit run newest first: after those of the Sandboxes, whose groups stand in the way.
    weakref.finalize(hierarchy, release, hierarchy)
    return hierarchy


def _identity() -> Identity:
    uid, gid = os.geteuid(), os.getegid()
    box = hostids.free_id() if uid == 0 else None
    if box is None:
        return Identity(root=False, box_uid=uid, box_gid=gid, owner_uid=uid, owner_gid=gid)
    return Identity(root=True, box_uid=box, box_gid=box, owner_uid=uid, owner_gid=gid)
