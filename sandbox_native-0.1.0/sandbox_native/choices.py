"""The choices that a policy makes, as enums and literals. Pure; policy.py exports them all."""

from __future__ import annotations

import functools
from enum import Enum
from typing import Final, Literal

Preset = Literal["strict", "light"]
WorkspaceOwner = Literal["idmap", "chown"]
ChangesIn = Literal["memory", "disk"]
OnHardLinks = Literal["ignore", "report", "refuse"]
HostSockets = Literal["scan", "hide", "show"]


@functools.total_ordering
class Rung(Enum):
    """A complete way to confine on a given machine. Stronger is greater: `Rung.FULL > Rung.NAMESPACES > Rung.AUDIT`.

    Iteration goes from the strongest to the weakest.
    """

    FULL = "full"
    """Namespaces, own root, seccomp, rlimits, no capabilities, and a control group."""
    CONTAINER = "container"
    """An OCI engine with the same limits."""
    NAMESPACES = "namespaces"
    """As FULL without a writable control group: memory and CPU are watched by sampling."""
    LANDLOCK = "landlock"
    """No namespaces: Landlock, seccomp, rlimits."""
    SEATBELT = "seatbelt"
    """macOS."""
    JOB = "job"
    """Windows."""
    AUDIT = "audit"
    """Python only, same process; a guard rail and no security boundary."""

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Rung):
            return NotImplemented
        return _ORDER[self] > _ORDER[other]


_ORDER: Final = {rung: place for place, rung in enumerate(Rung)}


class ReadPolicy(Enum):
    """What a guest may read beside `Policy.readable` and `Policy.writable`."""

    DECLARED = "declared"
    """The system's programs and libraries."""
    HOST = "host"
    """The whole host, but for a built-in list of secrets that `Policy.hidden` extends."""


class Deletion(Enum):
    """Whether a guest may remove and rename files in what it can write."""

    ALLOW = "allow"
    DENY = "deny"
    """By Landlock, in writable roots and the workspace: unlink, rmdir, every rename (in one directory too) and links across
    directories fail, for all that the guest starts; creating, writing and truncating in place work. By nature so do fail: rm,
    mv, sed -i, every program that saves by writing a new file and renaming it, and git, which renames its locks.

    The box's own scratch places (/tmp, the home, /dev/shm) are free: nothing of the host is there, and nothing can be moved
    there. One in which a writable root lies is not.
    """


class Writes(Enum):
    """Where what a guest writes to a host directory goes during the run."""

    DIRECT = "direct"
    """Into the directory itself. What it made under a protected name is moved away when the run ends."""
    COMMIT = "commit"
    """Into an overlay: the host commits what is allowed after the run."""
