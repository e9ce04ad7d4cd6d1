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
        raise PolicyError("not text", field="env", value={name: value}, remedy="give {'NAME': 'value'}")
    if not name:
        raise PolicyError("empty", field="env name", value=name, remedy="give it a name, or leave it out")
    if "=" in name:
        raise PolicyError("holds '='", field="env name", value=name, remedy="what comes after it belongs into the value")
    if "\0" in name:
        raise PolicyError("holds a NUL byte", field="env name", value=name, remedy="no name can: leave it out")
    if "\0" in value:
        raise PolicyError("holds a NUL byte", field=f"env[{name!r}]", value=value, remedy="pass such data by stdin= or files=")
