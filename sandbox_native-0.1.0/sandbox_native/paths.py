"""Checks of path strings: absolute paths of a policy, relative names of `files`, patterns of `collect`. Pure.

Called when a policy is made and at the start of a run. Nothing here looks at a disk: the kernel has the last word on
every path (openat2 with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS); strings are compared only to refuse nonsense early
and to say clearly what is wrong. POSIX spelling on every system, since the guest is on Linux.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from sandbox_native.errors import PolicyError
from sandbox_native.pathnames import POSIX

Path: TypeAlias = str | os.PathLike[str]
PathSpec: TypeAlias = Path | tuple[Path, Path]
"""A host path that is shown at the same place, or `(host, inside)`."""
Pair: TypeAlias = tuple[str, str]
"""`(host, inside)`, both normalised."""

absolute: Final = POSIX.absolute
relative: Final = POSIX.relative
contains: Final = POSIX.contains


def pairs(field: str, specs: object) -> tuple[Pair, ...]:
    """The `(host, inside)` pairs of a list of path specifications, in its order; no two with one inside path."""
    found: dict[str, Pair] = {}
    for at, spec in enumerate(items(field, specs)):
        where = f"{field}[{at}]"
        if isinstance(spec, tuple):
            if len(spec) != 2:
                raise PolicyError(
                    "not a path or a pair", field=where, value=spec, remedy="give a path, or (host path, path inside)"
                )
            pair = (absolute(where, spec[0]), absolute(where, spec[1]))
        else:
            host = absolute(where, spec)
            pair = (host, host)
        if pair[1] in found:
            raise PolicyError(f"shown twice at {pair[1]}", field=where, value=spec, remedy="leave one of the two out")
        found[pair[1]] = pair
    return tuple(found.values())


def files(contents: object, field: str = "files") -> dict[str, bytes]:
    """`files=` with normalised names and the data as bytes; `PolicyError` for names that lead out or clash."""
    if not isinstance(contents, Mapping):
        raise PolicyError("not a mapping", field=field, value=contents, remedy="give {'name': b'data'}")
    checked: dict[str, bytes] = {}
    for key, data in contents.items():
        name = relative(f"{field} name", key)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise PolicyError(
                f"holds {type(data).__name__}, not bytes",
                field=f"{field}[{name!r}]",
                value=data,
                remedy="encode text with .encode()",
            )
        if name in checked:
            raise PolicyError("named twice", field=f"{field} name", value=key, remedy="leave one of the two out")
        checked[name] = bytes(data)
    for name in checked:
        at = name.find("/")
        while at != -1:
            if name[:at] in checked:
                raise PolicyError(
                    f"lies beneath {name[:at]!r}, which is a file", field=f"{field} name", value=name, remedy="rename one"
                )
            at = name.find("/", at + 1)
    return checked


def patterns(wanted: object, field: str = "collect") -> tuple[str, ...]:
    """`collect=` normalised and without the chance to lead out of the workspace; see files.py for what they mean."""
    found: dict[str, None] = {}
    for at, pattern in enumerate(items(field, wanted)):
        where = f"{field}[{at}]"
        text = relative(where, pattern, "collect takes files: write 'dir/**' for all that lies beneath a directory")
        if any("**" in part and part != "**" for part in text.split("/")):
            raise PolicyError(
                "'**' beside other characters",
                field=where,
                value=text,
                remedy="write it as a component of its own: 'out/**/*.txt'",
            )
        if text in found:
            raise PolicyError("named twice", field=where, value=text, remedy="leave one of the two out")
        found[text] = None
    return tuple(found)


def items(field: str, values: object) -> list[object]:
    # A lone string would be taken letter by letter, and its first letter is "/": the whole host.
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise PolicyError("not a list", field=field, value=values, remedy="put it into a list: [...]")
    return list(values)
