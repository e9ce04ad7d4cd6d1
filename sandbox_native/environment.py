"""The guest's environment: a clean base, and what the caller adds. Pure.

Nothing of the host's environment is passed on: it holds tokens, proxies and library paths that the guest must not see.
LANG=C.UTF-8 makes every run-time use UTF-8 (Python included, so PYTHONUTF8 would add nothing and would
override a caller's own LANG).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sandbox_native.errors import PolicyError

USER: Final = "guest"
HOME: Final = "/home/guest"
WORKSPACE: Final = "/workspace"

BASE: Final[Mapping[str, str]] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
    "HOME": HOME,
    "USER": USER,
    "LOGNAME": USER,
    "LANG": "C.UTF-8",
    "TMPDIR": "/tmp",
}


def guest_environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """The base with the caller's names on top; PolicyError for a name or value that no environment can hold."""
    merged = dict(BASE)
    if env:
        for name, value in env.items():
            _check(name, value)
            merged[name] = value
    return merged


def _check(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise PolicyError(f"env: names and values are str, not {name!r}: {value!r}")
    if not name:
        raise PolicyError("env: a name is empty")
    if "=" in name:
        raise PolicyError(f"env: the name {name!r} has '=' in it")
    if "\0" in name or "\0" in value:
        raise PolicyError(f"env: a NUL byte in {name!r}")
