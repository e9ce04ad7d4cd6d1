"""What a guest may see and do. Pure values, checked when they are made; no mechanism and no look at a disk.

view.py lowers a policy to mounts; whether its host paths exist is found out by hosttree.py.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, Self

from sandbox_native import paths
from sandbox_native.environment import HOME, WORKSPACE
from sandbox_native.errors import PolicyError
from sandbox_native.paths import Pair, PathSpec

Preset = Literal["strict", "light"]
WorkspaceOwner = Literal["idmap", "chown"]


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


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Made by `Policy.strict` or `Policy.light`; equal policies compare and hash equal, and share a launcher.

    After construction `readable` and `writable` are tuples of `(host, inside)` pairs of normalised absolute paths.
    """

    preset: Preset = "strict"
    readable: tuple[Pair, ...] = ()
    writable: tuple[Pair, ...] = ()
    hostname: str = "sandbox"
    minimum_rung: Rung = Rung.NAMESPACES
    workspace_owner: WorkspaceOwner = "idmap"

    def __post_init__(self) -> None:
        _one_of("Policy.preset", self.preset, ("strict", "light"))
        _one_of("Policy.workspace_owner", self.workspace_owner, ("idmap", "chown"))
        if not isinstance(self.minimum_rung, Rung):
            raise PolicyError(
                "not a Rung", field="Policy.minimum_rung", value=self.minimum_rung, remedy="give one, such as Rung.FULL"
            )
        _check_hostname(self.hostname)
        readable = paths.pairs("Policy.readable", self.readable)
        writable = paths.pairs("Policy.writable", self.writable)
        for field, shown in (("Policy.readable", readable), ("Policy.writable", writable)):
            for at, (host, inside) in enumerate(shown):
                where = f"{field}[{at}]"
                _check_host(where, host, writable=field == "Policy.writable")
                _check_inside(where, inside)
        _check_apart(readable, writable)
        object.__setattr__(self, "readable", readable)
        object.__setattr__(self, "writable", writable)

    @classmethod
    def strict(
        cls,
        *,
        readable: Iterable[PathSpec] = (),
        writable: Iterable[PathSpec] = (),
        hostname: str = "sandbox",
        minimum_rung: Rung = Rung.NAMESPACES,
        workspace_owner: WorkspaceOwner = "idmap",
    ) -> Self:
        """The default, for programs that nobody trusts: every layer that there is.

        - `readable`, `writable`: host paths that the guest sees too, each shown at the same place or, as
          `(host, inside)`, elsewhere. Files or directories, submounts included.
        - `hostname`: what the guest reads as its host's name.
        - `minimum_rung`: a machine that reaches only a weaker one is refused with `UnsupportedError`.
        - `workspace_owner`: how what the guest makes in a host workspace becomes the caller's: `"idmap"` by an idmapped
          mount, refused where the kernel has none; `"chown"` by changing owners, there and back: when not
          everything can be given back, the run is a `SetupError` that names the first such file.

        `PolicyError` names the field, the value, what is wrong with it and what to give instead.
        """
        return cls(
            preset="strict",
            readable=paths.pairs("Policy.readable", readable),
            writable=paths.pairs("Policy.writable", writable),
            hostname=hostname,
            minimum_rung=minimum_rung,
            workspace_owner=workspace_owner,
        )

    @classmethod
    def light(
        cls,
        *,
        readable: Iterable[PathSpec] = (),
        writable: Iterable[PathSpec] = (),
        hostname: str = "sandbox",
        minimum_rung: Rung = Rung.NAMESPACES,
        workspace_owner: WorkspaceOwner = "idmap",
    ) -> Self:
        """For trusted in-house jobs: namespaces, own root, no capabilities, no_new_privs.

        No seccomp filter, the host's /etc read-only, and a plain /proc. Fields as in `strict`.
        """
        return cls(
            preset="light",
            readable=paths.pairs("Policy.readable", readable),
            writable=paths.pairs("Policy.writable", writable),
            hostname=hostname,
            minimum_rung=minimum_rung,
            workspace_owner=workspace_owner,
        )


# A label of RFC 1123, and as many as the kernel's 64 bytes hold.
_HOSTNAME: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*", re.ASCII)
_HOSTNAME_BYTES: Final = 64

# What a box has at these places cannot be covered, and beneath the first ones nothing can be put either.
_OURS_ALTOGETHER: Final = ("/proc", "/dev", "/.empty")
_OURS: Final = (
    *_OURS_ALTOGETHER,
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"),
    *("/etc/passwd", "/etc/group", "/tmp", HOME, WORKSPACE),
)
_SHARED_MEMORY: Final = "/dev/shm"


def _one_of(field: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise PolicyError("unknown", field=field, value=value, remedy=f"give {' or '.join(map(repr, known))}")


def _check_hostname(name: object) -> None:
    if not isinstance(name, str) or len(name) > _HOSTNAME_BYTES or _HOSTNAME.fullmatch(name) is None:
        raise PolicyError(
            "not a host name",
            field="Policy.hostname",
            value=name,
            remedy=f"give letters, digits, hyphens and dots, at most {_HOSTNAME_BYTES}",
        )


def _check_host(field: str, host: str, *, writable: bool) -> None:
    if host == "/":
        # Its submounts come with it: /proc of the host, /sys, every disk.
        raise PolicyError("shows the whole host", field=field, value=host, remedy="name the directories that are needed")
    if paths.contains("/proc", host):
        raise PolicyError(
            "shows the host's processes", field=field, value=host, remedy="leave it out: the guest has a /proc of its own"
        )
    if paths.contains("/dev", host) and (host == _SHARED_MEMORY or not paths.contains(_SHARED_MEMORY, host)):
        raise PolicyError(
            "the host's devices cannot be shown", field=field, value=host, remedy="leave it out: the guest has a /dev of its own"
        )
    if writable and paths.contains("/sys", host):
        # A delegated control group beneath it would let the guest lift its own limits.
        raise PolicyError(
            "a kernel file system cannot be writable", field=field, value=host, remedy="give it in readable instead"
        )


def _check_inside(field: str, inside: str) -> None:
    for ours in _OURS:
        if paths.contains(inside, ours) or (ours in _OURS_ALTOGETHER and paths.contains(ours, inside)):
            raise PolicyError(
                f"would cover {ours} of the box" if inside != ours else "is there in every box already",
                field=field,
                value=inside,
                remedy=f"show it elsewhere: (host path, '/mnt/{inside.strip('/').rpartition('/')[2] or 'host'}')",
            )


def _check_apart(readable: tuple[Pair, ...], writable: tuple[Pair, ...]) -> None:
    shown = {inside for _, inside in readable}
    for at, (host, inside) in enumerate(writable):
        if inside in shown:
            raise PolicyError(
                f"{inside} is in Policy.readable as well",
                field=f"Policy.writable[{at}]",
                value=(host, inside),
                remedy="leave one of the two out",
            )
