"""Removes the groups of hosts that died without anybody left to do it. Host process, own credentials.

Called when a Sandbox is made, and by doctor. A group of ours beneath our own group is dead when two things hold:
no process has the pid and start time in its name, and nobody holds the lock that a live host keeps on it (so a host
that we cannot see, in another pid namespace or behind hidepid, is safe). Processes that still run in it belong to a
host that can neither hear from them nor end them: their launcher was killed too. They are killed, and nothing else:
cgroup.kill reaches only the group's own members, and on v1 each pid is looked up in the group once its pidfd is open.

Any number of hosts may sweep at once: the lock lets one of them have each group, and what is already gone is fine.
"""

from __future__ import annotations

import errno
import fcntl
import os
from dataclasses import dataclass

from sandbox_native.cgroup import files
from sandbox_native.cgroup.values import Hierarchy, Owner
from sandbox_native.errors import SetupError

__all__ = ["Swept", "sweep"]


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What a sweep did: the directories removed, those left (their processes have not died yet), processes killed."""

    removed: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    killed: int = 0


def sweep(hierarchy: Hierarchy, seconds: float = 1.0) -> Swept:
    """Removes what dead hosts left beneath our own group, waiting at most ``seconds`` for each group to empty.

    A group that cannot be removed (another user's) is in ``left``; that is no error. Nothing is done without a
    hierarchy.
    """
    removed: list[str] = []
    left: list[str] = []
    killed = 0
    for root in hierarchy.roots:
        for path in files.subgroups(root):
            if not _is_dead(os.path.basename(path)):
                continue
            try:
                fd = files.lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                    raise files.failure(error, path) from error
                continue
            try:
                if not os.path.exists(path):  # another sweeper had the lock before us
                    continue
                gone, count = _clear(path, seconds)
            finally:
                os.close(fd)
            killed += count
            (removed if gone else left).append(path)
    return Swept(removed=tuple(removed), left=tuple(left), killed=killed)


def _is_dead(name: str) -> bool:
    owner = Owner.of(name)
    return owner is not None and files.start_time(owner.pid) != owner.start_time


def _clear(path: str, seconds: float) -> tuple[bool, int]:
    """Kills and removes, in rounds, since a killed process stays in its group until it has been torn down."""
    killed: set[int] = set()
    try:
        for _ in files.pauses(seconds):
            killed.update(files.kill_tree(path))
            if files.remove_tree(path, 0):
                return True, len(killed)
    except SetupError as error:
        if error.errno not in (errno.EACCES, errno.EPERM):
            raise
    return False, len(killed)
