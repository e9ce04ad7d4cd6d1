"""Values of the judge as what JSON has. Pure; used by values.py, gradings.py and outcomes.py."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

from sandbox_native.denials import as_text


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
