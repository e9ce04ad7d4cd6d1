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

Path: TypeAlias = str | os.PathLike[str]
PathSpec: TypeAlias = Path | tuple[Path, Path]
"""A host path that is shown at the same place, or `(host, inside)`."""
Pair: TypeAlias = tuple[str, str]
"""`(host, inside)`, both normalised."""

_PATH_BYTES: Final = 4095  # PATH_MAX without the NUL
_NAME_BYTES: Final = 255  # NAME_MAX


def absolute(field: str, value: object) -> str:
    """An absolute path without repeated slashes, `.` components or a slash at its end; `PolicyError` for all others.

    `..` is refused, not resolved: through a symbolic link it leads elsewhere than the string says.
    """
    text = _text(field, value)
    if not text.startswith("/"):
        raise PolicyError(
            "not an absolute path",
            field=field,
            value=text,
            remedy="give os.path.abspath(path)" if text[:1] != "~" else "give os.path.expanduser(path)",
        )
    return "/" + "/".join(_components(field, text))


_MADE_AS_NEEDED: Final = "give the file's own name: directories are made as needed"


def relative(field: str, value: object, remedy: str = _MADE_AS_NEEDED) -> str:
    """The name of a file beneath the workspace, normalised as in `absolute`; `PolicyError` for one that leads out.

    `remedy`: for one that names a directory."""
    text = _text(field, value)
    if text.startswith("/"):
        raise PolicyError(
            "an absolute name", field=field, value=text, remedy="give a name relative to the workspace, such as 'in/a.txt'"
        )
    parts = _components(field, text)
    if not parts or text.endswith(("/", "/.")):
        raise PolicyError("names a directory", field=field, value=text, remedy=remedy)
    return "/".join(parts)


def contains(outer: str, inner: str) -> bool:
    """Whether `inner` is `outer` or lies beneath it, component by component: `/data/1` does not contain `/data/10`.

    Both as `absolute` gives them.
    """
    return inner == outer or inner.startswith(outer if outer == "/" else outer + "/")


def pairs(field: str, specs: object) -> tuple[Pair, ...]:
    """The `(host, inside)` pairs of a list of path specifications, in its order; no two with one inside path."""
    found: dict[str, Pair] = {}
    for at, spec in enumerate(_items(field, specs)):
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
    for at, pattern in enumerate(_items(field, wanted)):
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


def _items(field: str, values: object) -> list[object]:
    # A lone string would be taken letter by letter, and its first letter is "/": the whole host.
    if isinstance(values, str | bytes | os.PathLike) or not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise PolicyError("not a list", field=field, value=values, remedy="put it into a list: [...]")
    return list(values)


def _text(field: str, value: object) -> str:
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise PolicyError("not a path", field=field, value=value, remedy="give a str or a pathlib.Path (os.fsdecode for bytes)")
    if not path:
        raise PolicyError("empty", field=field, value=path, remedy="name a path")
    if "\0" in path:
        raise PolicyError("holds a NUL byte", field=field, value=path, remedy="no path can: leave it out")
    size = len(_encoded(field, path))
    if size > _PATH_BYTES:
        raise PolicyError(f"{size} bytes long", field=field, value=path, remedy=f"a path has at most {_PATH_BYTES} bytes")
    return path


def _encoded(field: str, path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise PolicyError(
            "cannot be encoded as UTF-8", field=field, value=path, remedy="give a name that os.fsencode accepts"
        ) from None


def _components(field: str, path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    for part in parts:
        if part == "..":
            raise PolicyError("holds '..'", field=field, value=path, remedy="give the path that is meant, without '..'")
        if len(_encoded(field, part)) > _NAME_BYTES:
            raise PolicyError(f"a name in it has more than {_NAME_BYTES} bytes", field=field, value=path, remedy="shorten it")
    return parts
