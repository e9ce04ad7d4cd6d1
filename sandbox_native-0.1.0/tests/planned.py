"""Machines and facts to plan for: everything works unless it is said not to."""

from __future__ import annotations

import errno
from typing import Any

from sandbox_native import Limits, Policy
from sandbox_native.cgroup.values import Hierarchy
from sandbox_native.features import Feature, Features
from sandbox_native.plan import Identity
from sandbox_native.planning import Facts, Planned, plan
from sandbox_native.remedies import Machine
from sandbox_native.shown import HostTree, Shown

ROOT = Identity(root=True, box_uid=1879049192, box_gid=1879049192, owner_uid=0, owner_gid=0)
PLAIN = Identity(root=False, box_uid=1001, box_gid=1001, owner_uid=1001, owner_gid=1001)
TREE = HostTree(
    links={"/bin": "usr/bin"},
    directories=frozenset({"/usr", "/lib64", "/opt", "/etc/ssl/certs"}),
    files={"/etc/localtime": b"TZif"},
    proc=frozenset({"/proc/keys", "/proc/pressure"}),
)
GROUPS = Hierarchy(version=2, directories=dict.fromkeys(("memory", "pids", "cpu"), "/sys/fs/cgroup/x"))
NO_GROUPS = Hierarchy(version=0, reason="nothing is delegated", remedy="systemd-run --user --scope -p Delegate=yes")


def features(root: bool = True, abi: int = 7, **errors: int) -> Features:
    """`userns=errno.EPERM`: that one is answered so."""
    given = {Feature[name.upper()]: error for name, error in errors.items()}
    found = dict.fromkeys(Feature, 0) | ({Feature.LANDLOCK: errno.EOPNOTSUPP} if not abi else {}) | given
    return Features(root=root, kernel="6.18.0", machine="x86_64", errors=found, landlock_abi=abi)


def facts(*shown: Shown, identity: Identity = ROOT, **more: Any) -> Facts:
    from dataclasses import replace

    given: dict[str, Any] = {
        "tree": replace(TREE, shown=shown),
        "identity": identity,
        "hierarchy": GROUPS,
        "machine": Machine(root=identity.root, container=False, launcher="/opt/launcher"),
        "drops_groups": True,
        "seccomp": bytes(16),
        "explain": None,
    }
    return Facts(**(given | more))


def planned(policy: Policy | None = None, found: Features | None = None, given: Facts | None = None, **limits: Any) -> Planned:
    return plan(policy or Policy.strict(), Limits(**limits), found or features(), given or facts())
