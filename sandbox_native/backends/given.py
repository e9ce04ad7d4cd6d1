"""What one run is given of the host's: its workspace, where changes are kept apart, a supervisor of refused calls. Host process.

Called by linux.py for runs that bring a workspace, or whose policy keeps changes apart or explains; all others have NOTHING.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from sandbox_native._native import ffi, lib
from sandbox_native.backends.engine import Engine
from sandbox_native.errors import SetupError, as_setup_error
from sandbox_native.notes import keep_untold
from sandbox_native.policy import Policy, Writes
from sandbox_native.protection import Guard
from sandbox_native.receipt import Ground
from sandbox_native.receipt_paths import NOTHING as NO_WORKSPACE
from sandbox_native.receipt_paths import Brought
from sandbox_native.request import with_guards
from sandbox_native.run_checks import Before, RunChecks
from sandbox_native.workspace import Workspace, open_workspace

if TYPE_CHECKING:
    from sandbox_native.backends.apart import Apart
    from sandbox_native.backends.denials import Explained
    from sandbox_native.commit.changes import Changes
    from sandbox_native.denials import Denial


@dataclass(slots=True, eq=False)
class Given:
    """`mount` is the workspace as a detached mount, until the box has it."""

    workspace: Workspace | None = None
    mount: int = -1
    before: Before | None = None
    apart: Apart | None = None
    explained: Explained | None = None

    lent: bool = False
    """A box has it, and closes it."""
    _pid: int = field(default_factory=os.getpid)

    GRACE_MS: ClassVar[int] = 2000
    """Init keeps the deadline; only when it does not is the tree ended from the host, this much later."""
    TREE_OUTLIVES_INIT: ClassVar[bool] = False
    """Whether nobody but the slot ends what an init leaves that was killed."""

    @property
    def guards(self) -> tuple[Guard, ...]:
        """On top of the workspace."""
        return () if self.before is None else self.before.guards

    @property
    def brought(self) -> Brought:
        if self.before is None:
            return NO_WORKSPACE
        return Brought(
            shown=self.workspace is not None,
            guards=len(self.guards),
            protected=sum(guard.read_only for guard in self.guards),
            hidden=sum(guard.mask for guard in self.guards),
            searched=self.before.searched,
        )

    def body(self, data: bytes) -> bytes:
        """A request's body with the guards that the workspace has."""
        return with_guards(data, self.guards) if self.guards else data

    def settle(self) -> tuple[Denial, ...]:
        """When the box is dead: what was told before it began, and what was moved away now. The second time there is nothing.
        SetupError where not all could be settled: called again, it goes on with that."""
        if self.before is None:
            return ()
        found = self.before.settle(None if self.workspace is None else self.workspace.handed)
        before, self.before = self.before, None
        try:
            return before.tell() + found
        finally:
            before.close()

    def changes(self, directory: int, commit: bool) -> tuple[Changes | None, tuple[Denial, ...]]:
        """What the guest changed where that is kept apart, and what is refused of it. `commit`: at once."""
        if self.apart is None:
            return None, ()
        changes, told = self.apart.changes(directory), tuple(self.apart.told)
        if changes is None:
            return None, (*told, *self.apart.lost())
        try:
            changes.commit() if commit else changes.look()
        except BaseException:
            changes.discard()  # there is no Result that would have them
            raise
        return changes, (*told, *changes.refused)

    def denials(self) -> tuple[Denial, ...]:
        """What is told of the run that is over, but for its changes."""
        return (*(() if self.explained is None else self.explained.denials()), *self.settle())

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
        """When the box is dead. Harmless when repeated. SetupError as of `Workspace.close`."""
        self.started()
        before, self.before = self.before, None
        try:
            if before is not None:
                try:
                    before.settle(None if self.workspace is None else self.workspace.handed)
                finally:
                    before.close()
        finally:
            self._close_rest()

    def _close_rest(self) -> None:
        try:
            if self.explained is not None:
                self.explained.close()
            if self.apart is not None:
                self.apart.close()
        finally:
            if self.workspace is not None:
                self.workspace.close()

    def __del__(self) -> None:
        """Of one that a Ctrl-C kept from its box."""
        if not getattr(self, "lent", True) and getattr(self, "_pid", 0) == os.getpid():
            self.close()

    def abandon(self) -> None:
        """In a forked child of the host."""
        if self.before is not None:
            self.before.close()
            self.before = None
        if self.explained is not None:
            self.explained.abandon()
        if self.apart is not None:
            self.apart.abandon()
        if self.workspace is not None:
            self.workspace.abandon()


NOTHING = Given(lent=True)


def give(engine: Engine, ground: Ground, checks: RunChecks, path: str | None) -> Given:
    """Opens and checks the workspace, makes its mount, and what keeps changes apart. SetupError(ESTALE) when the plan is not that
    of the host's directories any more."""
    given = Given()
    try:
        if path is not None:
            given.workspace = open_workspace(path)
            _recover(given.workspace, ground.policy)
        if path is not None or checks.needed:
            given.before = checks.begin(given.workspace)
            if given.before.stale:
                raise SetupError("guard", errno.ESTALE, "", "what is protected changes while runs begin: run again")
        if ground.policy.writes is Writes.COMMIT:
            from sandbox_native.backends.apart import Apart

            given.apart = Apart(ground, given.workspace)
            given.apart.keep_on_disk(engine)
        if given.workspace is not None:
            given.mount = _bind(engine, ground, given.workspace)
        if ground.policy.explain:
            from sandbox_native.backends.denials import Explained

            given.explained = Explained(engine, ground)
        return given
    except BaseException as error:
        given.close()
        if isinstance(error, OSError) and not isinstance(error, SetupError):
            raise as_setup_error("workspace", error, path or "") from error
        raise


def gives_always(policy: Policy) -> bool:
    """Whether runs without a workspace are given something too."""
    return policy.explain or bool(policy.writable)


def _recover(workspace: Workspace, policy: Policy) -> None:
    """A commit that was interrupted comes first."""
    from sandbox_native.commit.recovery import recover_fd

    keep_untold((workspace.device, workspace.inode), recover_fd(workspace.fd, policy).denials)


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
