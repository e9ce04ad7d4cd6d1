"""The decision: from a policy, limits and what was found of the machine to a plan, or to what is missing. Pure.

Called by backends/prepare.py before anything is started; nothing degrades here without being in the plan's layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sandbox_native import bare, landlock, view
from sandbox_native._native import lib
from sandbox_native.bare import Lack
from sandbox_native.cgroup.values import Hierarchy
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import PolicyError, UnsupportedError
from sandbox_native.features import Feature, Features
from sandbox_native.limits import Limits
from sandbox_native.plan import Identity, Plan
from sandbox_native.policy import Deletion, Policy, Rung, Writes
from sandbox_native.remedies import PURPOSE, Machine, cause, remedy
from sandbox_native.rules import Access
from sandbox_native.shown import HostTree


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was found beside the features."""

    tree: HostTree
    identity: Identity
    hierarchy: Hierarchy
    machine: Machine
    drops_groups: bool  # the caller has no supplementary groups, or may give them up
    seccomp: bytes | None  # the filter that the policy asks for
    bare_seccomp: bytes | None = None  # where there are no namespaces: that rung's own
    explain: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """`held`: the bits (enum sn_held) that the report of every run has when all holds as planned."""

    rung: Rung
    plan: Plan
    held: int


def plan(policy: Policy, limits: Limits, features: Features, facts: Facts) -> Planned:
    """What the launcher is told. UnsupportedError: this machine cannot hold all of the policy; every lack is named.

    PolicyError: the policy asks for what no machine can do, as its paths are now.
    """
    _check_tree(policy, facts.tree)
    if features.missing and policy.minimum_rung <= Rung.LANDLOCK:
        return _without_namespaces(policy, limits, features, facts)
    lacks = [*_of_namespaces(features, facts.machine), *_of_policy(policy, limits, features, facts)]
    if lacks:
        raise _refusal(lacks, *_weaker(policy, limits, features, facts))
    rung = _rung(policy, facts.hierarchy)
    lowered = _lowered(policy, limits, features, facts)
    _check_links(policy, lowered)
    return Planned(rung=rung, plan=lowered, held=_held(features, facts, rung, lowered))


def _refusal(lacks: Sequence[Lack], *remedies: str) -> UnsupportedError:
    return UnsupportedError(
        "no rung that the policy allows can be reached on this machine",
        tuple(dict.fromkeys(lack.what for lack in lacks)),
        "; ".join(dict.fromkeys(word for word in (*(lack.remedy for lack in lacks), *remedies) if word)),
    )


def _weaker(policy: Policy, limits: Limits, features: Features, facts: Facts) -> Iterator[str]:
    """What a caller may settle for, where that is to be had."""
    if features.missing and not list(bare.lacks(policy, limits, features, facts.tree)):
        yield f"or allow the rung that this machine reaches: minimum_rung=Rung.{Rung.LANDLOCK.name}"


def _without_namespaces(policy: Policy, limits: Limits, features: Features, facts: Facts) -> Planned:
    """Rung `landlock`; what it cannot hold of the policy is named beside what keeps the machine from a stronger one."""
    lacks = list(bare.lacks(policy, limits, features, facts.tree))
    if lacks:
        raise _refusal([*_of_namespaces(features, facts.machine), *lacks])
    identity = replace(facts.identity, root=False, box_uid=facts.identity.owner_uid, box_gid=facts.identity.owner_gid)
    lowered = Plan(
        identity=identity,
        template=(),
        box=(),
        workspace=WORKSPACE,
        hostname=policy.hostname,
        tmp_bytes=limits.tmp_bytes,
        seccomp=facts.bare_seccomp,
        bare=True,
        landlock=bare.ruleset(policy, facts.tree, features.landlock_abi),
    )
    return Planned(rung=Rung.LANDLOCK, plan=lowered, held=_held_bare(features, facts))


def _check_tree(policy: Policy, tree: HostTree) -> None:
    for shown in tree.shown:
        if policy.writes is Writes.COMMIT and shown.access is Access.WRITABLE and shown.kind == "bind" and not shown.directory:
            reason = "a file's changes cannot be kept apart"
            remedy = "name the directory that it is in, or give writes=Writes.DIRECT"
            raise PolicyError(reason, field=shown.field, value=shown.inside, remedy=remedy)


def _check_links(policy: Policy, plan: Plan) -> None:
    """A name that the box has already is taken, and only the operations know them all."""
    targets = Counter(op.target for op in plan.template)
    for at, (inside, _) in enumerate(policy.symlinks):
        if targets[inside] > 1:
            remedy = "put the link elsewhere"
            raise PolicyError("is there in every box already", field=f"Policy.symlinks[{at}]", value=inside, remedy=remedy)


# ---- what is missing ----


def _of_namespaces(features: Features, machine: Machine) -> Iterator[Lack]:
    for feature in features.missing:
        error = features.errors[feature]
        why = cause(feature, error, machine)
        yield Lack(f"{PURPOSE[feature]} ({why})" if why else PURPOSE[feature], remedy(feature, error, machine))


def _of_policy(policy: Policy, limits: Limits, features: Features, facts: Facts) -> Iterator[Lack]:
    """Mechanisms that only some policies need."""
    for feature, field, instead in _needed(policy, facts):
        if not features.works(feature) and not features.follows(feature):
            how = remedy(feature, features.errors[feature], facts.machine)
            yield Lack(f"{PURPOSE[feature]} ({field} needs it)", " or ".join(word for word in (how, instead) if word))
    if not (features.missing or features.has_proc or facts.hierarchy.usable):  # sampling reads it
        words = (remedy(Feature.PROC, features.errors[Feature.PROC], facts.machine), facts.hierarchy.remedy)
        yield Lack(
            f"{PURPOSE[Feature.PROC]}, or a control group ({facts.hierarchy.reason})", " or ".join(word for word in words if word)
        )
    if limits.cpus is not None and not facts.hierarchy.limits_cpus:
        why = facts.hierarchy.reason or "it has no cpu controller"
        how = " or ".join(word for word in (facts.hierarchy.remedy, "leave Limits.cpus at None") if word)
        yield Lack(f"a control group ({why}; Limits.cpus needs it)", how)


def _needed(policy: Policy, facts: Facts) -> Iterator[tuple[Feature, str, str]]:
    """Feature, the field that asks for it, and what to give instead."""
    if policy.deletion is Deletion.DENY:
        yield Feature.LANDLOCK, "Policy.deletion=Deletion.DENY", "deletion=Deletion.ALLOW"
    if policy.writes is Writes.COMMIT:
        yield Feature.CHANGES, "Policy.writes=Writes.COMMIT", "writes=Writes.DIRECT"
    if policy.explain:
        yield Feature.LISTENER, "Policy.explain", "explain=False"
    hidden = next((shown for shown in facts.tree.shown if shown.kind == "overlay"), None)
    if hidden is not None:
        yield Feature.OVERLAY, f"{hidden.field}: sockets of the host in {hidden.source}", 'host_sockets="show"'


def _rung(policy: Policy, hierarchy: Hierarchy) -> Rung:
    rung = Rung.FULL if hierarchy.usable else Rung.NAMESPACES
    if rung < policy.minimum_rung:
        raise UnsupportedError(
            f"the policy asks for rung {policy.minimum_rung.value} and this machine reaches {rung.value}",
            (f"a control group ({hierarchy.reason})",),
            hierarchy.remedy,
        )
    return rung


# ---- the plan ----


def _lowered(policy: Policy, limits: Limits, features: Features, facts: Facts) -> Plan:
    return Plan(
        identity=facts.identity,
        template=view.template_ops(policy, facts.tree, facts.identity.root),
        box=view.box_ops(policy, facts.tree, features.has_proc),
        workspace=WORKSPACE,
        hostname=policy.hostname,
        tmp_bytes=limits.tmp_bytes,
        seccomp=facts.seccomp,
        landlock=landlock.ruleset(policy, facts.tree, features.landlock_abi),
        changes=view.CHANGES if policy.writes is Writes.COMMIT else "",
        explain=facts.explain,
    )


_ALWAYS: Final = (
    *(lib.SN_HELD_USER, lib.SN_HELD_MOUNT, lib.SN_HELD_PID, lib.SN_HELD_IPC, lib.SN_HELD_UTS, lib.SN_HELD_NET),
    *(lib.SN_HELD_ROOT, lib.SN_HELD_CAPS, lib.SN_HELD_NO_NEW_PRIVS, lib.SN_HELD_SECUREBITS),
    *(lib.SN_HELD_RLIMITS, lib.SN_HELD_SESSION, lib.SN_HELD_FDS),
)


_BARE: Final = (
    *(lib.SN_HELD_CAPS, lib.SN_HELD_NO_NEW_PRIVS, lib.SN_HELD_SECCOMP, lib.SN_HELD_LISTENER, lib.SN_HELD_LANDLOCK),
    *(lib.SN_HELD_RLIMITS, lib.SN_HELD_SESSION, lib.SN_HELD_FDS, lib.SN_HELD_SUBREAPER),
)


def _held_bare(features: Features, facts: Facts) -> int:
    asked = {
        lib.SN_HELD_KEYRING: features.works(Feature.KEYRING),
        lib.SN_HELD_NO_GROUPS: facts.drops_groups,
    }
    return sum(_BARE) | sum(bit for bit, holds in asked.items() if holds)


def _held(features: Features, facts: Facts, rung: Rung, plan: Plan) -> int:
    asked = {
        lib.SN_HELD_CGROUP_NS: features.works(Feature.CGROUPNS),
        lib.SN_HELD_KEYRING: features.works(Feature.KEYRING),
        lib.SN_HELD_PROC: features.has_proc,
        lib.SN_HELD_PROC_SUBSET: features.has_proc and not features.works(Feature.PROC),
        lib.SN_HELD_NO_GROUPS: facts.drops_groups,
        lib.SN_HELD_GROUP: rung is Rung.FULL,
        lib.SN_HELD_SECCOMP: facts.seccomp is not None,
        lib.SN_HELD_LISTENER: facts.seccomp is not None and features.works(Feature.LISTENER),
        lib.SN_HELD_EXPLAIN: facts.explain is not None,
        lib.SN_HELD_LANDLOCK: plan.landlock is not None,
    }
    return sum(_ALWAYS) | sum(bit for bit, holds in asked.items() if holds)
