"""What the fields of a policy may hold, each by itself. Pure; called when a Policy is made, before policy_conflicts.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from sandbox_native import paths
from sandbox_native.choices import Deletion, ReadPolicy, Rung, Writes
from sandbox_native.errors import PolicyError
from sandbox_native.paths import Pair
from sandbox_native.syscalls import OPTIONAL

Check = Callable[[str, object], object]


def checked(name: str, value: object) -> object:
    """A field's value as a Policy keeps it; PolicyError for what it cannot be."""
    return _CHECKS[name](f"Policy.{name}", value)


def _one_of(*known: str) -> Check:
    def check(field: str, value: object) -> object:
        if value not in known:
            raise PolicyError("unknown", field=field, value=value, remedy=f"give {' or '.join(map(repr, known))}")
        return value

    return check


def _member(kind: type[Enum]) -> Check:
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
        found: dict[str, None] = {}
        for at, value in enumerate(paths.items(field, values)):
            one = check(f"{field}[{at}]", value)
            if one in found:
                raise PolicyError("named twice", field=f"{field}[{at}]", value=value, remedy="leave one of the two out")
            found[one] = None
        return tuple(found)

    return check_all


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise PolicyError("not a name", field=field, value=value, remedy="give it as text")
    return value


def _group(field: str, value: object) -> str:
    name = _name(field, value)
    if name not in OPTIONAL:
        raise PolicyError("no such group", field=field, value=value, remedy=f"the groups are {', '.join(sorted(OPTIONAL))}")
    return name


def _denied(field: str, value: object) -> str:
    return paths.relative(field, value, "give its name without a slash at its end, such as 'ci'")


def _searched(field: str, value: object) -> str:
    directory = paths.absolute(field, value)
    if ":" in directory:
        raise PolicyError("holds ':', which parts the entries of PATH", field=field, value=value, remedy="show it elsewhere")
    return directory


_LINK_BYTES: Final = 4095


def _link(field: str, value: object) -> Pair:
    if not isinstance(value, tuple) or len(value) != 2:
        raise PolicyError("not a pair", field=field, value=value, remedy="give (path inside, the link's text)")
    inside, text = paths.absolute(field, value[0]), value[1]
    if not isinstance(text, str) or not text or "\0" in text:
        raise PolicyError("a link's text is a path", field=field, value=value, remedy="give text, without NUL bytes")
    try:
        size = len(text.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise PolicyError(
            "cannot be encoded as UTF-8", field=field, value=value, remedy="give a name that os.fsencode accepts"
        ) from None
    if size > _LINK_BYTES:
        raise PolicyError(f"{size} bytes long", field=field, value=value, remedy=f"a link has at most {_LINK_BYTES} bytes")
    return inside, text


def _links(field: str, values: object) -> tuple[Pair, ...]:
    found: dict[str, Pair] = {}
    for at, value in enumerate(paths.items(field, values)):
        pair = _link(f"{field}[{at}]", value)
        if pair[0] in found:
            raise PolicyError(f"two links at {pair[0]}", field=f"{field}[{at}]", value=value, remedy="leave one of the two out")
        found[pair[0]] = pair
    return tuple(found.values())


_CHECKS: Final[Mapping[str, Check]] = {
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
    "path": _each(_searched),
    "inherit": _each(_name),
    "inherit_unsafe": _boolean,
    "deterministic": _boolean,
    "syscalls": _each(_group),
    "explain": _boolean,
    "hostname": _hostname,
    "minimum_rung": _member(Rung),
    "workspace_owner": _one_of("idmap", "chown"),
}
