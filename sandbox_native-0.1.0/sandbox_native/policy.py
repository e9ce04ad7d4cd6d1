"""What a guest may see and do. Pure values, checked when they are made; no mechanism and no look at a disk.

view.py lowers a policy to mounts; whether its host paths exist is found out by hosttree.py. What each field may hold is in
policy_checks.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Self, TypedDict, Unpack

from sandbox_native import policy_checks, policy_conflicts
from sandbox_native.choices import (
    ChangesIn,
    Deletion,
    HostSockets,
    OnHardLinks,
    Preset,
    ReadPolicy,
    Rung,
    WorkspaceOwner,
    Writes,
)
from sandbox_native.errors import PolicyError
from sandbox_native.paths import Pair, Path, PathSpec

if TYPE_CHECKING:
    from sandbox_native.limits import Limits

__all__ = [
    "ChangesIn",
    "Deletion",
    "HostSockets",
    "OnHardLinks",
    "Policy",
    "PolicyFields",
    "Preset",
    "ReadPolicy",
    "Rung",
    "WorkspaceOwner",
    "Writes",
]


class PolicyFields(TypedDict, total=False):
    """What `Policy.strict` and `Policy.light` take, all of it optional; see `Policy` for what each means."""

    read: ReadPolicy
    readable: Iterable[PathSpec]
    writable: Iterable[PathSpec]
    protected: Iterable[Path]
    hidden: Iterable[Path]
    deny_write: Iterable[Path]
    deletion: Deletion
    writes: Writes
    changes: ChangesIn
    on_hard_links: OnHardLinks
    host_sockets: HostSockets
    system: bool
    symlinks: Iterable[tuple[Path, str]]
    path: Iterable[Path]
    inherit: Iterable[str]
    inherit_unsafe: bool
    deterministic: bool
    syscalls: Iterable[str]
    explain: bool
    hostname: str
    minimum_rung: Rung
    workspace_owner: WorkspaceOwner


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Made by `Policy.strict` or `Policy.light`; equal policies compare and hash equal, and share a launcher.

    Paths. The longest one decides about a file; at equal paths hidden beats protected beats writable beats readable.

    - `read`: what is shown beside the two lists: the system's programs (DECLARED) or the whole host (HOST).
    - `readable`, `writable`: host paths that the guest sees too, each shown at the same place or, as `(host, inside)`,
      elsewhere. Files or directories, submounts included. After construction pairs of normalised absolute paths.
    - `protected`, `hidden`: paths as the guest sees them: read-only beneath a writable root or /workspace; not there at all.
    - `deny_write`: names, relative to every writable root and repository in it, that nobody may write, beside the built-in
      ones (.git/hooks, .bashrc, .vscode …): these beat everything that would allow it.
    - `writes`, `changes`: DIRECT, or COMMIT with the changes kept in "memory" or on "disk" beside the root meanwhile.
    - `deletion`: whether files may be removed and renamed. `on_hard_links`: what to do about files in a writable root that
      have names elsewhere too.
    - `host_sockets`: Unix sockets of the host in what is shown cannot be connected to: "scan" looks for them once, "hide" takes
      every readable root for one that has some, now or later; "show" leaves them in reach.
    - `system`: False leaves the system's programs out. `symlinks`: `(inside, text)` pairs that the root has as well.

    Environment: `path` comes first in PATH; `inherit` names what is taken from the host's own, injection into loaders and
    interpreters only with `inherit_unsafe`; `deterministic` fixes the seed, the time zone and the locale.

    System calls: `syscalls` names groups that are permitted in addition: "aio", "netlink", "numa", "personality", "ptrace",
    "seccomp", "sync" (`sandbox_native.syscalls.OPTIONAL` says what each opens). With `explain` every refused call and path is in
    `Result.denials`; what is refused costs a guest some 30 us then and a path some 50 us, and a signal may interrupt any of these
    calls.

    Machine: `minimum_rung`: one that reaches only a weaker one is refused with `UnsupportedError`. `hostname`: what the guest
    reads. `workspace_owner`: how what the guest makes in a host workspace becomes the caller's: `"idmap"` by an idmapped mount,
    refused where the kernel has none; `"chown"` by changing owners, there and back: when not everything can be given back,
    the run is a `SetupError` that names the first such file.

    `PolicyError` names the field, the value, what is wrong with it and what to give instead.
    """

    preset: Preset = "strict"
    read: ReadPolicy = ReadPolicy.DECLARED
    readable: tuple[Pair, ...] = ()
    writable: tuple[Pair, ...] = ()
    protected: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    deny_write: tuple[str, ...] = ()
    deletion: Deletion = Deletion.ALLOW
    writes: Writes = Writes.DIRECT
    changes: ChangesIn = "memory"
    on_hard_links: OnHardLinks = "ignore"
    host_sockets: HostSockets = "scan"
    system: bool = True
    symlinks: tuple[Pair, ...] = ()
    path: tuple[str, ...] = ()
    inherit: tuple[str, ...] = ()
    inherit_unsafe: bool = False
    deterministic: bool = False
    syscalls: tuple[str, ...] = ()
    explain: bool = False
    hostname: str = "sandbox"
    minimum_rung: Rung = Rung.NAMESPACES
    workspace_owner: WorkspaceOwner = "idmap"

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, policy_checks.checked(field.name, getattr(self, field.name)))
        policy_conflicts.check_together(self)

    @classmethod
    def strict(cls, *, python: Path | None = None, **given: Unpack[PolicyFields]) -> Self:
        """The default, for programs that nobody trusts: every layer that there is.

        `python`: an interpreter, such as sys.executable: what it needs beside the system's directories is readable (the
        prefixes of a virtual environment, of pyenv or of conda, libraries of its extension modules), and its directory comes
        first in PATH. Paths of an editable installation are not followed.
        """
        if python is not None:
            from sandbox_native.minimal import python_fields

            given = python_fields(python, given)
        return cls._of("strict", given)

    @classmethod
    def minimal_for(cls, program: Path, *, extra: Iterable[Path] = (), **given: Unpack[PolicyFields]) -> Self:
        """As `strict` with the smallest root in which a program runs, instead of the system's: its `closure`, and what `extra`
        and the other fields add.

        `program`: a name in the standard directories, or a path. `extra`: more programs, with what each needs, and directories
        and files that are shown as they are. What the program opens or starts by name at run time is not found: a shell
        starts no other program unless `extra` names it.
        """
        from sandbox_native.minimal import minimal_fields

        return cls._of("strict", minimal_fields(program, extra, given))

    @classmethod
    def light(cls, **given: Unpack[PolicyFields]) -> Self:
        """For trusted in-house jobs: namespaces, own root, no capabilities, no_new_privs.

        No seccomp filter, the host's /etc read-only, and a plain /proc.
        """
        return cls._of("light", given)

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Policy:
        """The policy in a file, named by its path, or in TOML itself: a str with an end of line in it.

        Its keys are the fields of this class, as policy_toml.py describes. A table `limits` may be there too; it is checked,
        and `Limits.from_toml` reads it. `PolicyError` names a wrong key and the nearest right one, and a wrong type by its keys.
        """
        from sandbox_native.policy_toml import load

        return load(source).policy

    def to_toml(self, limits: Limits | None = None) -> str:
        """TOML with every field, and with `limits` when they are given. `from_toml` makes an equal policy of it."""
        from sandbox_native.policy_toml import dump

        return dump(self, limits)

    @classmethod
    def _of(cls, preset: Preset, given: PolicyFields) -> Self:
        known = {field.name for field in fields(cls)} - {"preset"}
        for name, value in given.items():
            if name not in known:
                close = ", ".join(sorted(known))
                raise PolicyError("no such field", field=f"Policy.{name}", value=value, remedy=f"the fields are {close}")
        return cls(preset=preset, **given)  # type: ignore[arg-type]
