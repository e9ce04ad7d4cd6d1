"""Values of the judge as what JSON has, and whether JSON has the shape of one. Pure; used by values.py, gradings.py, outcomes.py
and journal.py.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from types import NoneType
from typing import Any, Final, get_args, get_origin, get_type_hints

from sandbox_native.denials import as_text

_LARGEST: Final = 1e300


def plain(value: Any) -> Any:
    """`value` made of what JSON has: dataclasses and mappings as dicts, sets sorted, bytes as in `Result.to_dict`."""
    match value:
        case None | bool():
            return value
        case Enum():
            return value.value
        case float():
            return value if math.isfinite(value) else None
        case int() | str():
            return value
        case bytes():
            try:
                return {"text": value.decode("utf-8")}
            except UnicodeDecodeError:
                return {"base64": base64.b64encode(value).decode("ascii")}
        case PurePath():
            return as_text(str(value))
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case frozenset():
            return sorted(plain(item) for item in value)
        case list() | tuple():
            return [plain(item) for item in value]
    return {entry.name: plain(getattr(value, entry.name)) for entry in dataclasses.fields(value)}


class Value:
    """Base of the judge's dataclasses."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """The value for `json.dumps`: paths as text, bytes as `{"text": …}` or `{"base64": …}`, infinities as None."""
        shown = plain(self)
        assert isinstance(shown, dict)
        return shown


def unlike(told: Any, kind: Any) -> str:
    """Why `told` is not what `plain` makes of a value of a kind; empty when it is. `kind`: a dataclass, or an annotation of a
    field of one: numbers, texts, bytes, enums, tuples of one kind, and None."""
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _unlike_fields(told, _hints(kind))
    if get_origin(kind) is tuple:
        found = (unlike(item, get_args(kind)[0]) for item in told) if isinstance(told, list) else iter(("not a list",))
        return next((fault for fault in found if fault), "")
    if get_args(kind):  # X | None
        return "" if told is None and NoneType in get_args(kind) else unlike(told, get_args(kind)[0])
    return "" if _is_plain(told, kind) else f"{str(told)[:80]!r} is not of the kind {kind.__name__}"


def _unlike_fields(told: Any, hints: Mapping[str, Any]) -> str:
    if not isinstance(told, dict):
        return "not an object"
    for name in hints.keys() ^ told.keys():
        return f"{name}: {'missing' if name in hints else 'not known'}"
    for name, hint in hints.items():
        fault = unlike(told[name], hint)
        if fault:
            return f"{name}: {fault}"
    return ""


def _is_plain(told: Any, kind: type[Any]) -> bool:
    if kind is bytes:
        texts = list(told.values()) if isinstance(told, dict) else []
        return len(texts) == 1 and isinstance(texts[0], str) and told.keys() <= {"text", "base64"}
    if issubclass(kind, Enum):
        return isinstance(told, str) and told in {one.value for one in kind}
    if kind in (int, float):
        return type(told) in (int, kind) and -_LARGEST < told < _LARGEST
    return type(told) is kind


_hints = functools.cache(get_type_hints)
