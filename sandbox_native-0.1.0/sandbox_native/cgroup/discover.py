"""Where control groups may be made: only beneath the group that this process is in. Host process, own credentials.

Called when a Sandbox is made, and by doctor. Truth by doing: a directory counts when a group could be made in it and
shows the files that limits need; permission bits say little (read-only mounts, delegation, user namespaces).

v2 has a trap: a group that holds processes cannot hand controllers down to its children (EBUSY). Where our own group
holds nobody but us we move into a leaf of it, ``<own>/host``, once. The write of cgroup.procs waits for a grace period
(5 to 12 ms), which is why it happens here and never on the run path.
"""

from __future__ import annotations

import errno
import os

from sandbox_native.cgroup import files
from sandbox_native.cgroup.values import (
    OPTIONAL,
    PREFIX,
    REQUIRED_V1,
    REQUIRED_V2,
    Hierarchy,
    Mount,
    candidates,
    parse_memberships,
    parse_mounts,
)
from sandbox_native.errors import SetupError

__all__ = ["discover", "release"]

_HOST_LEAF = "host"
# On the leaf that we moved into: tells a later Python beneath it (a forked or spawned worker, a second look) that the
# group above is the one it may use, which the name alone would not.
_MARK = "user.sandbox_native.host"

_SCOPE_USER = "start the host in a scope of its own: systemd-run --user --scope -p Delegate=yes -- COMMAND"
_SCOPE_ROOT = "start the host in a scope of its own: systemd-run --scope -p Delegate=yes -- COMMAND"
_NAME_ONE = "or name an empty delegated group: Sandbox(cgroup=PATH)"
_CONTAINER = "in a container, mount /sys/fs/cgroup writable (podman: --security-opt unmask=/sys/fs/cgroup)"
_V1 = "run the host as root, or boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1) and delegate a group"
_MOUNT = "mount it: mount -t cgroup2 cgroup2 /sys/fs/cgroup"


class _Refused(Exception):
    """Why one version cannot serve, and what would help."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason, remedy)
        self.reason, self.remedy = reason, remedy


def discover(own: str | None = None) -> Hierarchy:
    """v2 where our own group has memory and pids, else v1, else version 0 with a reason and a remedy.

    ``own`` names the directory of an empty cgroup v2 group that the caller may write, and is used instead of our own.

    :raises SetupError: the group named by ``own`` cannot be used; errno and item say why. Without ``own``: never.
    """
    if own is not None:
        return _named(own)
    try:
        memberships, mounts = parse_memberships(files.read("/proc/self/cgroup")), parse_mounts(files.read("/proc/self/mountinfo"))
    except OSError as error:
        return Hierarchy(version=0, reason=f"/proc does not show our control group: {error.strerror}", remedy="mount /proc")
    refusals = []
    for attempt in (_v2, _v1):
        try:
            return attempt(memberships, mounts)
        except _Refused as refusal:
            refusals.append(refusal)
    if not mounts:
        return Hierarchy(version=0, reason="no cgroup file system is mounted", remedy=f"{_MOUNT}; {_CONTAINER}")
    # A v1 mount without what we need (systemd's own, in hybrid mode) is not what the user should repair.
    first = refusals[0] if "" in memberships and not _serves_v1(mounts) else refusals[1]
    return Hierarchy(version=0, reason=first.reason, remedy=first.remedy)


def _scope() -> str:
    return f"{_SCOPE_ROOT if os.geteuid() == 0 else _SCOPE_USER} ({_NAME_ONE})"


def _serves_v1(mounts: list[Mount]) -> bool:
    return all(any(name in mount.controllers for mount in mounts) for name in REQUIRED_V1)


def _locate(memberships: dict[str, str], mounts: list[Mount], controller: str) -> str:
    """The directory that shows our own group, proved by our pid in it: mounts can be covered, masked or partial."""
    label = controller or "cgroup v2"
    if controller not in memberships:
        raise _Refused(f"{label}: this process is in no such group", _CONTAINER)
    for directory in candidates(memberships, mounts, controller):
        try:
            if os.getpid() in files.pids(directory):
                return directory
        except OSError:  # covered by another mount, or not ours to read: the next one may do
            continue
    raise _Refused(f"{label}: no mount shows our own group {memberships[controller]}", f"{_MOUNT}; {_CONTAINER}")


def _probe(directory: str, needed: tuple[str, ...]) -> None:
    """Makes a group and removes it again; OSError, with a path, when that or a file in it is not to be had."""
    path = make_directory(directory)
    try:
        for name in needed:
            os.stat(os.path.join(path, name))
    finally:
        os.rmdir(path)


def make_directory(parent: str) -> str:
    """A new group of ours in ``parent``, with the first number that is free."""
    owner, number = files.this_process(), 0
    while True:
        path = os.path.join(parent, owner.name(number))
        try:
            os.mkdir(path, 0o755)
            return path
        except FileExistsError:
            number += 1


def _refusal(error: OSError, remedy: str) -> _Refused:
    path = str(error.filename)
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        path = _group_of(path)
    if error.errno == errno.EROFS:
        return _Refused(f"{path}: the cgroup file system is mounted read-only", _CONTAINER)
    if error.errno in (errno.EACCES, errno.EPERM):
        return _Refused(f"{path}: our own group may not be written ({error.strerror})", f"{remedy}; {_CONTAINER}")
    return _Refused(f"{path}: {error.strerror}", remedy)


def _group_of(path: str) -> str:
    """The group itself, where a probe in it or one of its files was what failed."""
    parent, name = os.path.split(path)
    if name.startswith(PREFIX):
        return parent
    return path if os.path.isdir(path) else _group_of(parent) if os.path.basename(parent).startswith(PREFIX) else parent


# ---- version 2 ----


def _v2(memberships: dict[str, str], mounts: list[Mount]) -> Hierarchy:
    own = _locate(memberships, mounts, "")
    if _is_host_leaf(own):
        own = os.path.dirname(own)
    try:
        return _open_v2(own, move=True)
    except OSError as error:
        raise _refusal(error, _scope()) from error


def _open_v2(own: str, *, move: bool) -> Hierarchy:
    """Hands the controllers down in ``own`` and tries them. OSError names the path and step that failed."""
    offered = files.read(os.path.join(own, "cgroup.controllers")).split()
    missing = [name for name in REQUIRED_V2 if name not in offered]
    if missing:
        raise _Refused(f"cgroup v2: {own} does not have the controllers {', '.join(missing)}", _scope())
    _probe(own, ())
    _hand_down(own, [f"+{name}" for name in REQUIRED_V2], move=move)
    controllers = list(REQUIRED_V2)
    if OPTIONAL in offered:
        try:
            _hand_down(own, [f"+{OPTIONAL}"], move=False)
            controllers.append(OPTIONAL)
        except OSError:  # real-time processes elsewhere forbid it (EINVAL): `limits_cpus` is then False
            pass
    _probe(own, ("memory.max", "pids.max", "cgroup.procs"))
    return Hierarchy(version=2, directories=dict.fromkeys(controllers, own))


def _hand_down(own: str, controllers: list[str], *, move: bool) -> None:
    switch = os.path.join(own, "cgroup.subtree_control")
    if {name[1:] for name in controllers} <= set(files.read(switch).split()):
        return
    try:
        files.write(switch, " ".join(controllers))
    except OSError as error:
        if error.errno != errno.EBUSY or not move:
            raise
        _move_aside(own)
        files.write(switch, " ".join(controllers))


def _move_aside(own: str) -> None:
    """Moves this process, all its threads with it, into ``<own>/host``; refused when others are in ``own`` too."""
    others = [pid for pid in files.pids(own) if pid != os.getpid()]
    if others:
        known = ", ".join(str(pid) for pid in others[:3] if pid)
        raise _Refused(
            f"cgroup v2: {own} holds {len(others)} other process(es) ({known}), "
            "and a group that holds processes cannot hand controllers down",
            _scope(),
        )
    leaf = os.path.join(own, _HOST_LEAF)
    try:
        os.mkdir(leaf, 0o755)
    except FileExistsError:
        pass
    try:
        os.setxattr(leaf, _MARK, b"1")
    except OSError:  # before 5.7: then a worker beneath the leaf finds no group, which its receipt says
        pass
    files.write(os.path.join(leaf, "cgroup.procs"), str(os.getpid()))


def _is_host_leaf(directory: str) -> bool:
    try:
        return os.path.basename(directory) == _HOST_LEAF and os.getxattr(directory, _MARK) == b"1"
    except OSError:
        return False


def release(hierarchy: Hierarchy) -> bool:
    """Undoes the move into ``<own>/host``, so that our group is as it was; True when nothing of it is left.

    Does nothing while groups of ours, or other processes in the leaf (workers that were forked), still need it. Costs
    a write of cgroup.procs; for the end of the process.
    """
    if hierarchy.version != 2:
        return True
    own = hierarchy.roots[0]
    leaf = os.path.join(own, _HOST_LEAF)
    try:
        if not _is_host_leaf(leaf) or any(os.path.basename(path).startswith(PREFIX) for path in files.subgroups(own)):
            return False
        if files.pids(leaf) != [os.getpid()]:
            return False
        enabled = files.read(os.path.join(own, "cgroup.subtree_control")).split()
        files.write(os.path.join(own, "cgroup.subtree_control"), " ".join(f"-{name}" for name in enabled))
        files.write(os.path.join(own, "cgroup.procs"), str(os.getpid()))
        os.rmdir(leaf)
    except OSError:  # somebody made a group meanwhile: it stays as it is, and works
        return False
    return True


def _named(own: str) -> Hierarchy:
    try:
        if not os.path.isabs(own):
            raise OSError(errno.EINVAL, "not an absolute path", own)
        if files.pids(own):
            raise OSError(errno.EBUSY, "it holds processes", own)
        return _open_v2(own, move=False)
    except _Refused as refusal:
        raise SetupError("cgroup", errno.ENOTSUP, own, f"{refusal.reason}; {refusal.remedy}") from refusal
    except OSError as error:
        hint = "Sandbox(cgroup=…) takes the directory of an empty cgroup v2 group that the caller may write"
        raise files.failure(error, str(error.filename or own), hint) from error


# ---- version 1 ----


def _v1(memberships: dict[str, str], mounts: list[Mount]) -> Hierarchy:
    directories = {name: _locate(memberships, mounts, name) for name in REQUIRED_V1}
    try:
        for name, files_needed in _NEEDED_V1.items():
            _probe(directories[name], files_needed)
    except OSError as error:
        raise _refusal(error, _V1) from error
    try:
        directory = _locate(memberships, mounts, OPTIONAL)
        _probe(directory, ("cpu.cfs_quota_us",))
        directories[OPTIONAL] = directory
    except (OSError, _Refused):  # `limits_cpus` is then False
        pass
    return Hierarchy(version=1, directories=directories)


_NEEDED_V1 = {
    "memory": ("memory.limit_in_bytes", "memory.oom_control", "cgroup.event_control"),
    "pids": ("pids.max",),
    "cpuacct": ("cpuacct.usage",),
}
