"""What one run is given of the host's: its workspace, where changes are kept apart, a supervisor of refused calls. Host process.

Called by linux.py for runs that bring a workspace, or whose policy keeps changes apart or explains; all others have NOTHING.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox_native._native import ffi, lib
from sandbox_native.backends.engine import Engine
from sandbox_native.errors import SetupError
from sandbox_native.policy import Policy, Writes
from sandbox_native.receipt import Ground
from sandbox_native.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sandbox_native.backends.apart import Apart
    from sandbox_native.backends.denials import Explained


@dataclass(slots=True, eq=False)
class Given:
    """`mount` is the workspace as a detached mount, until the box has it."""

    workspace: Workspace | None = None
    mount: int = -1
    apart: Apart | None = None
    explained: Explained | None = None

    def descriptors(self) -> Any:
        """A struct sn_given."""
        upper = -1 if self.apart is None else self.apart.mount
        explain = -1 if self.explained is None else self.explained.socket
        return ffi.new("struct sn_given *", (self.mount, upper, explain, 0))

    def started(self) -> None:
        """The box has its mounts. Harmless when repeated."""
        mount, self.mount = self.mount, -1
        if mount >= 0:
            os.close(mount)
        if self.apart is not None:
            self.apart.started()
        if self.explained is not None:
            self.explained.started()

    def close(self) -> None:
        """Harmless when repeated. SetupError as of `Workspace.close`."""
        self.started()
        try:
            if self.explained is not None:
                self.explained.close()
            if self.apart is not None:
                self.apart.close()
        finally:
            if self.workspace is not None:
                self.workspace.close()

    def abandon(self) -> None:
        """In a forked child of the host."""
        if self.explained is not None:
            self.explained.abandon()
        if self.apart is not None:
            self.apart.abandon()
        if self.workspace is not None:
            self.workspace.abandon()


NOTHING = Given()


def give(engine: Engine, ground: Ground, path: str | None) -> Given:
    """Opens the workspace, makes its mount, and what keeps changes apart."""
    given = Given()
    try:
        if path is not None:
            given.workspace = open_workspace(path)
            _recover(given.workspace.fd)
        if ground.policy.writes is Writes.COMMIT:
            from sandbox_native.backends.apart import Apart

            given.apart = Apart(ground, given.workspace)
            given.apart.keep_on_disk(engine)
        if given.workspace is not None:
            given.mount = _bind(engine, ground, given.workspace)
        if ground.policy.explain:
            from sandbox_native.backends.denials import Explained

            given.explained = Explained(engine, ground)
    except BaseException:
        given.close()
        raise
    return given


def keeps_apart(policy: Policy) -> bool:
    """Whether runs without a workspace have something to commit too."""
    return policy.writes is Writes.COMMIT and bool(policy.writable)


def _recover(root: int) -> None:
    """A commit that was interrupted comes first."""
    from sandbox_native.commit.recovery import recover_fd

    recover_fd(root)


def _bind(engine: Engine, ground: Ground, shown: Workspace) -> int:
    """What the guest makes there is to be the caller's: by an idmapped mount, or by changing owners if the policy says so."""
    flags, identity = lib.SN_OP_NOSUID | lib.SN_OP_NODEV, ground.plan.identity
    if not identity.root:
        return engine.bind(shown.path, flags, shown.device, shown.inode)
    try:
        return engine.bind(shown.path, flags | lib.SN_OP_IDMAP, shown.device, shown.inode)
    except SetupError as error:
        if error.stage != "idmap" or ground.policy.workspace_owner != "chown":
            raise
    shown.hand_over((identity.owner_uid, identity.owner_gid), (identity.box_uid, identity.box_gid))
    return engine.bind(shown.path, flags, shown.device, shown.inode)
