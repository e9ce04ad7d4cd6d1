"""What is looked at before every run that may write to directories of the host, and settled after it. Linux, host process.

Called by the backend on the way to a run: a workspace is another in each run, and what lies in a writable root may have changed
since the plan was made. What an earlier look at the same directory learnt is kept, so that most of it is one stat for each
directory.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from sandbox_native import guarding, hard_links, notes, sockets, survey
from sandbox_native.at_work import EVERYWHERE, Directory, Stay
from sandbox_native.claims import Claim
from sandbox_native.denials import Denial
from sandbox_native.descent import DIRECTORY
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import SetupError
from sandbox_native.guarding import Guarded, of_root
from sandbox_native.hostmounts import Mounts, mount_id
from sandbox_native.paths import contains
from sandbox_native.policy import Policy, Writes
from sandbox_native.protection import Guard, Protection
from sandbox_native.quarantine import quarantine
from sandbox_native.roots import Found, refuse_writable
from sandbox_native.rules import Access
from sandbox_native.shown import Shown
from sandbox_native.survey import Memory, Survey
from sandbox_native.workspace import Handed, Workspace

_KEPT: Final = 16  # directories that are remembered
_FIELD: Final = "workspace"


@dataclass(slots=True)
class Before:
    """One run, from before its start to after its end. `close` it in any case.

    - `guards`: for the request, what is mounted on top of the workspace.
    - `denials`: what is told of the workspace before the run, for its Result.
    - `left`: the same, of what hosts left that are gone. What no Result tells the next run tells.
    - `searched`: all of the workspace was looked at for repositories.
    - `stale`: a writable root's guards are not those that the plan has: somebody on the host changed what is protected.
    """

    policy: Policy
    guards: tuple[Guard, ...] = ()
    denials: tuple[Denial, ...] = ()
    left: dict[Directory, tuple[Denial, ...]] = field(default_factory=dict)
    stale: bool = False
    searched: bool = True
    _watched: list[_Watched] = field(default_factory=list)
    _began: bool = False
    _failed: bool = False
    _pid: int = field(default_factory=os.getpid)

    def settle_left(self, fd: int, policy: Policy, inside: str) -> None:
        """What hosts left that are gone."""
        status = os.fstat(fd)
        key = (status.st_dev, status.st_ino)
        self.left[key] = notes.UNTOLD.pop(key, ())
        self.left[key] += notes.settle(fd, policy, inside)

    def watch(self, fd: int, guarded: Guarded) -> None:
        """From now on; what another guest may have made that is at work there counts as absent. What was absent is written down
        for when the host is killed."""
        assert guarded.protection is not None
        status, protection = os.fstat(fd), guarded.protection
        stay = Stay((status.st_dev, status.st_ino), frozenset(protection.absent))
        watched = _Watched(guarded.inside, protection, stay)
        self._watched.append(watched)  # first: `close` undoes what an interrupt leaves of the rest
        watched.fd = os.dup(fd)
        EVERYWHERE.enter(stay)
        known = {name: state for name, state in protection.before.items() if name not in stay.doubtful}
        watched.protection = replace(protection, before=known)
        notes.write(fd, stay.doubtful, known, watched.note)

    def settle(self, handed: Handed | None = None) -> tuple[Denial, ...]:
        """When the box is dead: moves away what the guest made under a denied name, and tells it with `denials`. `handed`: the
        workspace's files changed owners. SetupError for the first directory that could not be settled, after all the others
        were; called again, it goes on with those."""
        self._began = True
        first: SetupError | None = None
        for one in self._watched:
            if one.settled:
                continue
            given = handed if one.inside == WORKSPACE else None
            try:
                one.found = quarantine(one.fd, one.protection, self.policy, inside=one.inside, handed=given)
                one.settled = True
            except SetupError as error:
                first = first or error
        self._failed |= first is not None
        if first is not None:
            raise first
        return tuple(denial for one in self._watched for denial in one.found)

    def tell(self) -> tuple[Denial, ...]:
        """What is told of what was there before the run."""
        self._failed = False
        left, self.left = self.left, {}
        return (*(denial for found in left.values() for denial in found), *self.denials)

    def close(self) -> None:
        """Harmless when repeated. What was not settled stays written down. In a forked child of the host the notes are the
        parent's."""
        ours = os.getpid() == self._pid
        while self._watched:
            one = self._watched[-1]  # until all of it is done: an interrupt leaves it to the next call
            one.note.remove() if ours and (one.settled or not self._began) else one.note.close()
            found, one.found = one.found, ()
            if self._failed and ours:
                notes.keep_untold(one.stay.directory, found)
            EVERYWHERE.leave(one.stay)
            one.close()
            del self._watched[-1:]
        while self.left:
            key, found = self.left.popitem()
            if ours:
                notes.keep_untold(key, found)


@dataclass(slots=True)
class _Watched:
    """One directory that the run may write to."""

    inside: str
    protection: Protection
    stay: Stay
    fd: int = -1
    note: Claim = field(default_factory=notes.new)
    settled: bool = False
    found: tuple[Denial, ...] = ()

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


class RunChecks:
    """Of one policy and its plan. Safe in threads."""

    def __init__(self, policy: Policy, shown: Iterable[Shown]) -> None:
        self._policy = policy
        self._direct = policy.writes is Writes.DIRECT
        self._shown = tuple(shown)
        roots = [one for one in self._shown if one.kind == "bind" and one.access is Access.WRITABLE and one.directory]
        self._roots = sorted(roots, key=lambda one: one.inside.count("/"))
        self._masks = [one.inside for one in self._shown if one.kind == "mask"]
        self._memories: dict[tuple[int, int, str], Memory] = {}
        self._allowed: set[tuple[str, int, int, int]] = set()

    @property
    def needed(self) -> bool:
        """Whether runs without a workspace have anything to look at."""
        return self._direct and bool(self._roots)

    def begin(self, workspace: Workspace | None) -> Before:
        """PolicyError for a workspace that no guest may write, or that holds what the policy refuses."""
        before = Before(self._policy)
        try:
            if workspace is not None:
                self._begin_workspace(workspace, before)
            if self._direct:
                around: list[Guarded] = []
                for root in self._roots:
                    self._begin_root(root, before, around)
            return before
        except BaseException:
            before.close()
            raise

    def _begin_workspace(self, workspace: Workspace, before: Before) -> None:
        fd, path = workspace.fd, workspace.path
        policy = guarding.by_host(path, self._policy)
        self._refuse(workspace)
        before.settle_left(fd, policy, WORKSPACE)
        one = of_root(WORKSPACE, path, policy)
        searched = sockets.looks(policy, writable=True)
        seen = self._survey(fd, (workspace.device, workspace.inode), one, deep=searched)
        if searched:
            sockets.refuse_living(fd, seen, _FIELD, path)
        before.denials = hard_links.check(fd, policy, _FIELD, path, WORKSPACE)
        found = guarding.guarded(fd, one, policy, _FIELD, seen)
        if found.protection is not None:
            before.guards = found.protection.guards
        before.searched = found.searched
        if self._direct:
            before.watch(fd, found)

    def _refuse(self, workspace: Workspace) -> None:
        """Once for each directory: its mount and inode say that it is the same."""
        key = (workspace.path, workspace.device, workspace.inode, mount_id(workspace.fd))
        if key in self._allowed:
            return
        mounts = Mounts.read()
        found = Found(workspace.path, workspace.device, workspace.inode, True, mounts.of(workspace.fd))
        covered = (*self._policy.protected, *self._policy.hidden)
        refuse_writable(
            found,
            _FIELD,
            mounts,
            [workspace.path + path[len(WORKSPACE) :] for path in covered if contains(WORKSPACE, path) and path != WORKSPACE],
        )
        if len(self._allowed) >= _KEPT:
            self._allowed.clear()
        self._allowed.add(key)

    def _begin_root(self, root: Shown, before: Before, around: list[Guarded]) -> None:
        """One of the plan's. Where the path leads elsewhere by now the plan is stale."""
        try:
            fd = os.open(root.source, DIRECTORY)
        except FileNotFoundError:
            before.stale = True
            return
        try:
            status = os.fstat(fd)
            if (status.st_dev, status.st_ino) != (root.device, root.inode):
                before.stale = True
                return
            before.settle_left(fd, self._policy, root.inside)
            one = of_root(root.inside, root.source, self._policy, self._masks, around)
            seen = self._survey(fd, (root.device, root.inode), one, deep=False)
            found = guarding.guarded(fd, one, self._policy, root.field, seen)
            around.append(found)
            before.stale |= set(found.shown(root.field)) != self._planned(root)
            before.watch(fd, found)
        finally:
            os.close(fd)

    def _planned(self, root: Shown) -> set[Shown]:
        return {one for one in self._shown if one.kind in ("guard", "mask") and one.field == root.field}

    def _survey(self, fd: int, key: tuple[int, int], one: Guarded, *, deep: bool) -> Survey:
        """What is covered may hold a socket, but no repository that a guest could write in."""
        which = (*key, one.inside if not deep else "")
        memory = self._memories.pop(which, None) or Memory()  # another thread at the same directory begins anew
        skip = frozenset[str]() if deep else one.closed
        seen = survey.walk(fd, sockets.WRITABLE if deep else survey.GUARDS, deep=deep, skip=skip, memory=memory)
        if len(self._memories) >= _KEPT:
            self._memories.clear()
        self._memories[which] = memory
        return seen
