"""Names of a package that are loaded at their first use. Called by the `__init__` of packages whose values are of use where the
native part is not: in a process that only makes policies or reads results, and on every system but Linux.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def loader(package: str, places: Mapping[str, str]) -> Callable[[str], Any]:
    """The package's `__getattr__`. `places`: name -> module in the package."""

    def get(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{place}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
