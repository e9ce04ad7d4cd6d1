"""Runs whose changes are kept apart from the host's directories (`Writes.COMMIT`): from their start to `Result.changes`. Host
process.

Made by linux.py for such a run alone. The box sends a descriptor of the directory of changes up before its report; `N/upper`
in it belongs to the N-th overlay: 0 is the run's workspace, then come the policy's writable roots in the order of the plan.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from functools import partial

from sandbox_native import notes
from sandbox_native._native import lib
from sandbox_native.backends.engine import Engine
from sandbox_native.commit import uppers
from sandbox_native.commit.changes import Changes
from sandbox_native.commit.overlay import Overlay
from sandbox_native.commit.place import require
from sandbox_native.commit.protected import protected
from sandbox_native.commit.recovery import recover_fd
from sandbox_native.commit.uppers import Upper
from sandbox_native.denials import Denial
from sandbox_native.descent import DIRECTORY
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import SetupError, as_setup_error
from sandbox_native.receipt import Ground
from sandbox_native.workspace import Workspace


@dataclass(slots=True)
class _Target:
    """One host directory, open from before the run to the commit."""

    number: int
    inside: str
    host: str
    fd: int


class Apart:
    """One run's overlays. `close` gives back what `changes` has not handed on."""

    def __init__(self, ground: Ground, workspace: Workspace | None) -> None:
        """SetupError when a root is not what the plan was made for. PolicyError when there is no place beside one to stage in."""
        self._policy, self._identity = ground.policy, ground.plan.identity
        self._targets: list[_Target] = []
        self._upper: Upper | None = None
        self.told: list[Denial] = []
        """Of commits that were interrupted."""
        self.mount = -1
        """The directory of changes, where it is on disk: a detached mount for the request."""
        try:
            if workspace is not None:
                self._targets.append(_Target(0, WORKSPACE, workspace.path, os.dup(workspace.fd)))
            self._targets += (_open_root(number, *root) for number, root in _roots(ground))
            for target in self._targets[:1]:
                notes.rehearse(target.fd)
            for target in self._targets:
                _require_place(target)
                self.told += recover_fd(target.fd, self._policy, target.inside).denials
        except BaseException:
            self.close()
            raise

    def keep_on_disk(self, engine: Engine) -> None:
        """With `Policy.changes="disk"`: makes the directory, for a run that has anything to keep there."""
        if self._policy.changes != "disk" or not self._targets:
            return
        first, identity = self._targets[0], self._identity
        self._upper = upper = uppers.make(first.fd, first.host, (identity.box_uid, identity.box_gid))
        self.mount = engine.bind(upper.path, lib.SN_OP_NOSUID | lib.SN_OP_NODEV, upper.device, upper.inode)

    def started(self) -> None:
        """The box has the mount."""
        fd, self.mount = self.mount, -1
        if fd >= 0:
            os.close(fd)

    def changes(self, directory: int) -> Changes | None:
        """What came of the run; `directory` (of changes, -1: init was lost with it) stays the caller's. None: nothing came."""
        if self._upper is not None:
            directory = self._upper.fd  # by the host's own mount, from which files can be linked elsewhere
        if directory < 0:
            return None
        targets = self._targets
        release = _Release([target.fd for target in targets], self._upper)
        try:
            self._targets, self._upper = [], None  # that gives them back from here on
            overlays = [self._overlay(target, release.opened(target, directory)) for target in targets]
            return Changes(overlays, release)
        except BaseException as error:
            release()
            if isinstance(error, OSError) and not isinstance(error, SetupError):
                raise as_setup_error("commit", error, targets[0].host) from error
            raise

    def _overlay(self, target: _Target, upper: int) -> Overlay:
        return Overlay(
            upper=upper,
            target=target.fd,
            inside=target.inside,
            host=target.host,
            owner=(self._identity.owner_uid, self._identity.owner_gid),
            protected=partial(protected, self._policy, target.inside),
        )

    def lost(self) -> tuple[Denial, ...]:
        """What is said where nothing came of the run."""
        reason = "the changes were lost with their box, which the kernel ended for want of memory"
        return tuple(Denial(kind="commit", name=target.inside, reason=reason) for target in self._targets)

    def close(self) -> None:
        """Harmless when repeated."""
        self.started()
        targets, self._targets = self._targets, []
        _close([target.fd for target in targets])
        upper, self._upper = self._upper, None
        if upper is not None:
            upper.close(remove=True)

    def abandon(self) -> None:
        """In a forked child of the host: the directory on disk is still the parent's run's."""
        upper, self._upper = self._upper, None
        if upper is not None:
            upper.close(remove=False)
        self.close()


def _require_place(target: _Target) -> None:
    """For what will be staged. PolicyError where it has none."""
    remedy = (
        f"changes to {target.host} are staged beside it: give a directory beneath one of your own, on the same mount, or use "
        "writes=Writes.DIRECT"
    )
    os.close(require(target.fd, target.host, field="Policy.writes", value="commit", remedy=remedy))


class _Release:
    """Gives back what Changes held; in a forked child of the host descriptors only."""

    def __init__(self, fds: list[int], upper: Upper | None) -> None:
        self._fds, self._upper, self._pid = fds, upper, os.getpid()

    def opened(self, target: _Target, directory: int) -> int:
        """What the guest changed there."""
        fd = os.open(f"{target.number}/upper", DIRECTORY, dir_fd=directory)
        self._fds.append(fd)
        return fd

    def __call__(self) -> None:
        _close(self._fds)
        if self._upper is not None:
            self._upper.close(remove=os.getpid() == self._pid)


def _close(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


Root = tuple[str, str, int, int]  # inside, host, device, inode


def _roots(ground: Ground) -> list[tuple[int, Root]]:
    """The plan's overlays by number."""
    aside = {op.target: op for op in ground.plan.template}
    found = []
    for op in ground.plan.box:
        if op.kind == lib.SN_OP_CHANGES:
            source = aside[op.source]
            found.append((op.mode, (op.target, source.source, source.device, source.inode)))
    return found


def _open_root(number: int, inside: str, host: str, device: int, inode: int) -> _Target:
    try:
        fd = os.open(host, DIRECTORY)
    except OSError as error:
        raise SetupError("workspace", error.errno or 0, host, "make the Sandbox anew: a writable root is gone") from error
    status = os.fstat(fd)
    if (status.st_dev, status.st_ino) != (device, inode):
        os.close(fd)
        raise SetupError("workspace", errno.ESTALE, host, "make the Sandbox anew: a writable root was replaced")
    return _Target(number, inside, host, fd)
