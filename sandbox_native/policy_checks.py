"""What the fields of a policy may hold, each by itself and together. Pure; called when a Policy is made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final

from sandbox_native import paths
from sandbox_native.choices import Deletion, ReadPolicy, Rung, Writes
from sandbox_native.environment import HOME, WORKSPACE
from sandbox_native.errors import PolicyError
from sandbox_native.paths import Pair

# What a box has at these places cannot be covered, and beneath the first ones nothing can be put either.
_OURS_ALTOGETHER: Final = ("/proc", "/dev", "/.empty", "/.roots")
_OURS: Final = (
    *_OURS_ALTOGETHER,
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt"),
    *("/etc/passwd", "/etc/group", "/tmp", HOME, WORKSPACE),
)
_SHARED_MEMORY: Final = "/dev/shm"


def checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields as a Policy keeps them; PolicyError for what makes no sense, alone or together."""
    found = {name: _CHECKS[name](f"Policy.{name}", value) for name, value in given.items()}
    _check_shown(found)
    return found


# ---- each by itself ----


def _one_of(*known: str) -> Callable[[str, object], object]:
    def check(field: str, value: object) -> object:
        if value not in known:
            raise PolicyError("unknown", field=field, value=value, remedy=f"give {' or '.join(map(repr, known))}")
        return value

    return check


def _member(kind: type[Enum]) -> Callable[[str, object], object]:
    def check(field: str, value: object) -> object:
        if not isinstance(value, kind):
            words = f"give one, such as {next(iter(kind))}"
            raise PolicyError(f"not a {kind.__name__}", field=field, value=value, remedy=words)
        return value

    return check


def _boolean(field: str, value: object) -> object:
    if not isinstance(value, bool):
        raise PolicyError("not a bool", field=field, value=value, remedy="give True or False")
    return value


# A label of RFC 1123, and as many as the kernel's 64 bytes hold.
_HOSTNAME: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9-]{1,63}(?<!-))*", re.ASCII)
_HOSTNAME_BYTES: Final = 64


def _hostname(field: str, name: object) -> object:
    if not isinstance(name, str) or len(name) > _HOSTNAME_BYTES or _HOSTNAME.fullmatch(name) is None:
        raise PolicyError(
            "not a host name",
            field=field,
            value=name,
            remedy=f"give letters, digits, hyphens and dots, at most {_HOSTNAME_BYTES}",
        )
    return name


def _each(check: Callable[[str, object], str]) -> Callable[[str, object], tuple[str, ...]]:
    def check_all(field: str, values: object) -> tuple[str, ...]:
        found = [check(f"{field}[{at}]", value) for at, value in enumerate(paths.items(field, values))]
        for at, value in enumerate(found):
            if value in found[:at]:
                raise PolicyError("named twice", field=f"{field}[{at}]", value=value, remedy="leave one of the two out")
        return tuple(found)

    return check_all


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError("not a name", field=field, value=value, remedy="give it as text")
    return value


def _denied(field: str, value: object) -> str:
    return paths.relative(field, value, "give the directory's name without a slash at its end")


def _links(field: str, values: object) -> tuple[Pair, ...]:
    return tuple(tuple(pair) for pair in paths.items(field, values))  # type: ignore[misc, arg-type]


_CHECKS: Final[Mapping[str, Callable[[str, object], object]]] = {
    "preset": _one_of("strict", "light"),
    "read": _member(ReadPolicy),
    "readable": paths.pairs,
    "writable": paths.pairs,
    "protected": _each(paths.absolute),
    "hidden": _each(paths.absolute),
    "deny_write": _each(_denied),
    "deletion": _member(Deletion),
    "writes": _member(Writes),
    "changes": _one_of("memory", "disk"),
    "on_hard_links": _one_of("ignore", "report", "refuse"),
    "host_sockets": _one_of("scan", "hide", "show"),
    "system": _boolean,
    "symlinks": _links,
    "path": _each(paths.absolute),
    "inherit": _each(_name),
    "inherit_unsafe": _boolean,
    "deterministic": _boolean,
    "syscalls": _each(_name),
    "explain": _boolean,
    "hostname": _hostname,
    "minimum_rung": _member(Rung),
    "workspace_owner": _one_of("idmap", "chown"),
}


# ---- together ----


def _check_shown(found: Mapping[str, Any]) -> None:
    for name in ("readable", "writable"):
        for at, (host, inside) in enumerate(found[name]):
            where = f"Policy.{name}[{at}]"
            _check_host(where, host, writable=name == "writable")
            _check_inside(where, inside)
    _check_apart(found["readable"], found["writable"])


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
