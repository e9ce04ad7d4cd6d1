"""Policies and limits as TOML. Pure but for reading the file that is named; called by Policy, Limits and the command line.

A file has the fields of Policy as keys, by the same names: enums by value, paths as strings, pairs as `["/host", "/inside"]` or
`{host = "/host", inside = "/inside"}`. What is left out has the preset's value. Limits may stand beside them in a table of
their own:

    preset = "strict"
    readable = ["/srv/data", ["/srv/in", "/in"]]
    [limits]
    wall_seconds = 2.5

Nothing secret is in it, since a policy has nothing secret: secrets are given to each run.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args, get_origin, get_type_hints

from sandbox_native.errors import PolicyError, UnsupportedError
from sandbox_native.limits import Limits
from sandbox_native.policy import Policy

PRESETS: Final = ("strict", "light")
_LARGEST_FILE: Final = 1 << 20
_LEAST_LIKENESS: Final = 0.5  # "wall" is like "wall_seconds"
# How the two parts of a pair are called in a table; a string alone stands for a pair of itself where there is a host path.
_PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "readable": ("host", "inside"),
    "writable": ("host", "inside"),
    "symlinks": ("inside", "text"),
}
_KINDS: Final[Mapping[type, str]] = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a float",
    list: "an array",
    dict: "a table",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """What a file holds; `limits` is None where it has no such table."""

    policy: Policy
    limits: Limits | None


def named(name: str) -> Loaded:
    """A preset by its name, else a file by its path, as the command line takes them."""
    if name in PRESETS:
        return Loaded(policy=Policy.strict() if name == "strict" else Policy.light(), limits=None)
    if not os.path.exists(name):
        hint = _nearest(name, PRESETS) or f"give {', '.join(PRESETS)} or the path of a TOML file"
        raise PolicyError("neither a preset nor a file", field="policy", value=name, remedy=hint)
    return load(Path(name))


def load(source: str | os.PathLike[str]) -> Loaded:
    """A file's path, or TOML itself: a str that has a line's end in it.

    `PolicyError`: it cannot be read, is no TOML, has a key that nothing knows (the nearest one is named) or a value of another
    type (named with its path of keys), or makes a policy or limits that are refused.
    """
    name, kept = _parse(source)
    reader = _Reader(name)
    limits = reader.limits(kept.pop("limits")) if "limits" in kept else None
    return Loaded(policy=reader.policy(kept), limits=limits)


def dump(policy: Policy, limits: Limits | None = None) -> str:
    """The text that `load` makes these of again. `PolicyError`: a path in it is no Unicode, which TOML cannot hold."""
    try:
        import tomli_w
    except ImportError as error:
        raise UnsupportedError("TOML cannot be written", ("tomli_w",), "pip install tomli-w") from error
    return tomli_w.dumps(table(policy) if limits is None else {**table(policy), "limits": table(limits)})


def table(values: Policy | Limits) -> dict[str, Any]:
    """Every field that has a value, as strings, numbers, booleans and lists of them."""
    found = {field.name: getattr(values, field.name) for field in fields(values)}
    return {name: _written(name, value) for name, value in found.items() if value is not None}


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word.lower(), list(known), 1, _LEAST_LIKENESS)
    return f"did you mean {close[0]!r}?" if close else ""


def _written(name: str, value: object) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise PolicyError("TOML holds Unicode only", field=f"Policy.{name}", value=value, remedy="rename it") from None
    if isinstance(value, tuple):
        alone = name in _PARTS and "host" in _PARTS[name]
        return [_written(name, one[0] if alone and one[0] == one[-1] else one) for one in value]
    return value


def _parse(source: str | os.PathLike[str]) -> tuple[str, dict[str, Any]]:
    """What to call it in messages, and the tables."""
    name, text = ("TOML", source) if isinstance(source, str) and "\n" in source else _read(source)
    try:
        return name, tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PolicyError(f"not TOML: {error}", field=name, value=text, remedy="correct it there") from None
    except RecursionError:
        raise PolicyError("nested too deeply", field=name, value=text, remedy="no field has arrays in arrays in arrays") from None


def _read(source: object) -> tuple[str, str]:
    if not isinstance(source, str | os.PathLike) or not (path := os.fspath(source)) or not isinstance(path, str):
        raise PolicyError("not a path", field="from_toml", value=source, remedy="name a file, or give TOML that ends a line")
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise PolicyError(f"more than {_LARGEST_FILE} bytes", field="from_toml", value=path, remedy="name a policy's file")
        return path, data.decode()
    except UnicodeDecodeError as error:
        reason = f"not UTF-8: {error.reason} at byte {error.start}"
        raise PolicyError(reason, field="from_toml", value=path, remedy="save it as UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise PolicyError(reason, field="from_toml", value=path, remedy="name a file that the host can read") from error


class _Reader:
    """Tables to values; the file's name is in every message."""

    def __init__(self, name: str) -> None:
        self.name = name

    def policy(self, table: Mapping[str, Any]) -> Policy:
        hints = get_type_hints(Policy)
        self._known("", table, [*(field.name for field in fields(Policy)), "limits"])
        return Policy(**{key: self._value(key, key, value, hints[key]) for key, value in table.items()})

    def limits(self, table: object) -> Limits:
        if not isinstance(table, dict):
            raise self._wrong("limits", table, "a table", "write [limits] on a line of its own")
        hints = get_type_hints(Limits)
        self._known("limits.", table, [field.name for field in fields(Limits)])
        return Limits(**{key: self._value(f"limits.{key}", key, value, hints[key]) for key, value in table.items()})

    def _known(self, above: str, table: Mapping[str, object], known: Iterable[str]) -> None:
        names = sorted(known)
        for key, value in table.items():
            if key in names:
                continue
            hint = _nearest(key.replace("-", "_"), names) or f"the keys are {', '.join(names)}"
            raise PolicyError("no such key", field=f"{self.name}: {above}{key}", value=value, remedy=hint)

    def _value(self, path: str, name: str, value: Any, hint: Any) -> Any:
        if name in _PARTS:
            return tuple(self._pair(f"{path}[{at}]", name, one) for at, one in enumerate(self._array(path, value)))
        if get_origin(hint) is tuple:
            return tuple(self._string(f"{path}[{at}]", one) for at, one in enumerate(self._array(path, value)))
        if isinstance(hint, type) and issubclass(hint, Enum):
            return self._member(path, value, hint)
        if hint is bool:
            if not isinstance(value, bool):
                raise self._wrong(path, value, "a boolean", "write true or false")
            return value
        if hint in (int, float) or {int, float} & set(get_args(hint)):
            if type(value) not in (int, float):
                raise self._wrong(path, value, "a number", "write digits, without quotes and unit")
            return value
        return self._string(path, value)

    def _array(self, path: str, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise self._wrong(path, value, "an array", "put it into brackets: [ … ]")
        return value

    def _string(self, path: str, value: object) -> str:
        if not isinstance(value, str):
            raise self._wrong(path, value, "a string", "put it into quotes")
        return value

    def _member(self, path: str, value: object, kind: type[Enum]) -> Enum:
        values = {str(one.value): one for one in kind}
        text = self._string(path, value)
        if text not in values:
            hint = _nearest(text, values) or f"give {' or '.join(map(repr, values))}"
            raise PolicyError(f"not one of {kind.__name__}", field=f"{self.name}: {path}", value=value, remedy=hint)
        return values[text]

    def _pair(self, path: str, name: str, value: object) -> tuple[str, str]:
        first, second = _PARTS[name]
        alone = first == "host"
        if alone and isinstance(value, str):
            return value, value
        if isinstance(value, list) and len(value) == 2:
            return self._string(f"{path}[0]", value[0]), self._string(f"{path}[1]", value[1])
        shape = f"[{first}, {second}]"
        if not isinstance(value, dict):
            raise self._wrong(path, value, f"a path or {shape}" if alone else shape, f"write {{{first} = '…', {second} = '…'}}")
        self._known(f"{path}.", value, (first, second))
        for part in (first, second):
            if part not in value:
                raise PolicyError(f"has no {part}", field=f"{self.name}: {path}", value=value, remedy=f"add {part} = '…'")
        return self._string(f"{path}.{first}", value[first]), self._string(f"{path}.{second}", value[second])

    def _wrong(self, path: str, value: object, wanted: str, remedy: str) -> PolicyError:
        kind = _KINDS.get(type(value), "a date or time")
        if isinstance(value, list) and wanted.endswith("]"):
            kind = f"an array of {len(value)}"
        return PolicyError(f"{kind}, not {wanted}", field=f"{self.name}: {path}", value=value, remedy=remedy)
