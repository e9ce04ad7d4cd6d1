"""What a feature is for, and the command that brings it where it is missing. Pure but for :meth:`Machine.here`.

Called by doctor and where a policy is refused, so that both give the same advice.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sandbox_native.features import Feature

PURPOSE: Final[Mapping[Feature, str]] = {
    Feature.USERNS: "user namespaces",
    Feature.MOUNT: "a mount namespace with mounts of its own",
    Feature.PROC: "a new /proc for each box",
    Feature.PROC_SUBSET: "a new /proc that shows processes only, where the full one is refused",
    Feature.NETNS: "a network namespace with lo up",
    Feature.SECCOMP: "system call filters",
    Feature.LISTENER: "seccomp notification: which call the filter ended",
    Feature.PIDFD: "process descriptors",
    Feature.CLOSE_RANGE: "closing descriptors in one call",
    Feature.OPENAT2: "opening files beneath a directory and nowhere else",
    Feature.MOUNT_SETATTR: "attributes of mounts set at once",
    Feature.IDMAP: "idmapped mounts: a host workspace stays the caller's",
    Feature.LANDLOCK: "Landlock",
    Feature.CGROUPNS: "cgroup namespaces",
    Feature.RESOURCE: "rlimits above the caller's own (CAP_SYS_RESOURCE)",
    Feature.KEYRING: "a session keyring of the guest's own",
    Feature.OVERLAY: "read-only overlays: a host directory without its sockets",
    Feature.CHANGES: "overlays with the changes in memory: Writes.COMMIT",
    Feature.NPROC: "RLIMIT_NPROC by user namespace: a process limit without a control group",
}

LOST: Final[Mapping[Feature, str]] = {
    Feature.RESOURCE: "a limit above the caller's own hard limit (`ulimit -H`) stays at that, as the receipt then says",
}
"""What is lost where a feature is missing and its remedy does not tell."""

_SINCE: Final[Mapping[Feature, str]] = {
    Feature.USERNS: "3.8 with CONFIG_USER_NS",
    Feature.MOUNT: "5.2",
    Feature.NETNS: "3.8 with CONFIG_NET_NS",
    Feature.PROC_SUBSET: "5.8",
    Feature.SECCOMP: "3.17 with CONFIG_SECCOMP_FILTER",
    Feature.LISTENER: "5.5",
    Feature.PIDFD: "5.3",
    Feature.CLOSE_RANGE: "5.9",
    Feature.OPENAT2: "5.6",
    Feature.MOUNT_SETATTR: "5.12",
    Feature.IDMAP: "5.12, and a file system that allows them",
    Feature.LANDLOCK: "5.13 with CONFIG_SECURITY_LANDLOCK",
    Feature.CGROUPNS: "4.6",
    Feature.KEYRING: "3.8 with CONFIG_KEYS",
    Feature.OVERLAY: "5.11 with CONFIG_OVERLAY_FS",
    Feature.NPROC: "5.14",
    Feature.CHANGES: "6.6 with CONFIG_OVERLAY_FS and CONFIG_TMPFS_XATTR",
}

OF_ROOT: Final = frozenset({Feature.RESOURCE, Feature.IDMAP})  # a plain user's box does without
_NAMESPACES: Final = frozenset({Feature.USERNS, Feature.MOUNT, Feature.NETNS, Feature.CGROUPNS})
_REFUSED: Final = (errno.EPERM, errno.EACCES, errno.ENOSPC)
_CONTAINER: Final = "start the container with --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
_CONTAINER_PROC: Final = "start the container with --security-opt systempaths=unconfined (podman: --security-opt unmask=ALL)"


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the advice depends on; a switch that is not there is None."""

    root: bool
    container: bool
    launcher: str
    max_user_namespaces: int | None = None
    unprivileged_userns_clone: int | None = None  # Debian's own switch
    apparmor_restricts_userns: int | None = None

    @classmethod
    def here(cls, launcher: str) -> Machine:
        return cls(
            root=os.geteuid() == 0,
            container=any(os.path.exists(path) for path in ("/.dockerenv", "/run/.containerenv")),
            launcher=launcher,
            max_user_namespaces=_switch("user/max_user_namespaces"),
            unprivileged_userns_clone=_switch("kernel/unprivileged_userns_clone"),
            apparmor_restricts_userns=_switch("kernel/apparmor_restrict_unprivileged_userns"),
        )


def _switch(name: str) -> int | None:
    try:
        return int(Path("/proc/sys", name).read_text())
    except (OSError, ValueError):  # not there, masked, or not a number
        return None


def remedy(feature: Feature, error: int, machine: Machine) -> str:
    """A command, or what to change; empty where nothing needs to be done."""
    if error == 0 or (feature in OF_ROOT and not machine.root):
        return ""
    if error in _REFUSED and feature in _NAMESPACES:
        return _switched_off(error, machine)[1]
    if feature is Feature.RESOURCE:
        return "start the container with --cap-add SYS_RESOURCE" if machine.container else ""
    if feature in (Feature.PROC, Feature.PROC_SUBSET) and error in (errno.EPERM, errno.EACCES):
        return _CONTAINER_PROC
    if feature is Feature.LANDLOCK and error == errno.EOPNOTSUPP:
        return "add landlock to the lsm= list of the kernel's command line"
    if error in (errno.EPERM, errno.EACCES) and machine.container:
        return _CONTAINER
    if feature in _SINCE:
        return f"a kernel from {_SINCE[feature]} on"
    return ""


def cause(feature: Feature, error: int, machine: Machine) -> str:
    """The switch that refuses it, where that can be told; else empty."""
    return _switched_off(error, machine)[0] if feature in _NAMESPACES and error in _REFUSED else ""


def _switched_off(error: int, machine: Machine) -> tuple[str, str]:
    """What refuses namespaces, and how it is undone: the switches that distributions have, most specific first; a container's own
    filter last."""
    if machine.max_user_namespaces == 0 or error == errno.ENOSPC:
        return "sysctl user.max_user_namespaces permits no more", "sudo sysctl -w user.max_user_namespaces=15000"
    if not machine.root and machine.unprivileged_userns_clone == 0:
        return "sysctl kernel.unprivileged_userns_clone is 0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    if not machine.root and machine.apparmor_restricts_userns == 1:
        # A user namespace can be made all the same: then writing its maps and every mount in it are refused.
        why = "AppArmor leaves user namespaces without privileges: sysctl kernel.apparmor_restrict_unprivileged_userns is 1"
        return why, _apparmor(machine.launcher)
    return "", _CONTAINER if machine.container else "a security module or a seccomp filter refuses them: run outside of it"


def _apparmor(launcher: str) -> str:
    """The profile that Ubuntu 24.04 wants to see for a program that makes user namespaces."""
    profile = rf'profile sandbox-native "{launcher}" flags=(unconfined) {{\n  userns,\n}}\n'
    profile = r"abi <abi/4.0>,\ninclude <tunables/global>\n" + profile
    path = "/etc/apparmor.d/sandbox-native"
    return f"printf '{profile}' | sudo tee {path} >/dev/null && sudo apparmor_parser -r {path}"
