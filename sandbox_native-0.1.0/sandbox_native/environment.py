"""The guest's environment: what we set, what a policy takes over from the host, what the caller adds. Pure.

Nothing else of the host's environment is passed on: it holds tokens, proxies and library paths that the guest must not see.
LANG=C.UTF-8 makes every run-time use UTF-8 (Python included, so PYTHONUTF8 would add nothing and would
override a caller's own LC_ALL).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.injection import is_injection

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
DETERMINISTIC: Final[Mapping[str, str]] = {"PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}

_INSTEAD: Final[Mapping[str, str]] = {
    "PATH": "Policy.path gives directories that come first in it",
    "HOME": "what belongs elsewhere has names of its own, such as XDG_CONFIG_HOME",
    "USER": f"the guest is {USER!r} in every box",
    "LOGNAME": f"the guest is {USER!r} in every box",
    "LANG": "LC_ALL chooses another locale",
    "TMPDIR": "/tmp is private to the run, and Limits.tmp_bytes bounds it",
    **dict.fromkeys(DETERMINISTIC, "Policy.deterministic fixes it: leave one of the two out"),
}
_LONGEST: Final = 4096  # bytes of a value taken over from the host
HIDDEN: Final = "<hidden>"
"""Stands for a secret in messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the guests of one policy have; the fields are those of the policy."""

    path: tuple[str, ...] = ()
    inherit: tuple[str, ...] = ()
    inherit_unsafe: bool = False
    deterministic: bool = False

    @property
    def search(self) -> str:
        """The guest's PATH."""
        return ":".join((*self.path, BASE["PATH"]))

    def inherited(self, host: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """What the policy takes over of a host's environment: names that are set there and have a clean value.

        A value is left out whole when it is longer than 4096 bytes, holds a control character, or is a shell function.
        """
        found = {}
        for wanted in self.inherit:
            names = sorted(name for name in host if name.startswith(wanted[:-1])) if wanted.endswith("*") else (wanted,)
            for name in names:
                value = host.get(name)
                if value is not None and self._may_inherit(name) and _is_clean(value):
                    found[name] = value
        return tuple(found.items())

    def of(self, env: Mapping[str, str] | None, inherited: Iterable[tuple[str, str]] = ()) -> dict[str, str]:
        """Everything but the secrets. `env` beats what is inherited; PolicyError for what cannot be set, or not so."""
        ours = self._ours()
        merged = {**ours, **dict(inherited)}
        for name, value in (env or {}).items():
            _check("env", name, value)
            _check_ours(ours, "env", name, value, value)
            merged[name] = value
        return merged

    def secrets(self, secrets: Mapping[str, str], env: Mapping[str, str] | None) -> list[str]:
        """Entries for the environment; no message holds a value."""
        if not isinstance(secrets, Mapping):
            raise PolicyError("not a mapping", field="secrets", value=HIDDEN, remedy="give {'NAME': 'value'}")
        ours = self._ours()
        for name, value in secrets.items():
            _check("secrets", name, value, shown=HIDDEN)
            _check_ours(ours, "secrets", name, value, HIDDEN)
            if env is not None and name in env:
                raise PolicyError(
                    "is in env= as well", field=f"secrets[{name!r}]", value=HIDDEN, remedy="leave it out of env, which is shown"
                )
        return [f"{name}={value}" for name, value in secrets.items()]

    def _ours(self) -> dict[str, str]:
        return {**BASE, "PATH": self.search, **(DETERMINISTIC if self.deterministic else {})}

    def _may_inherit(self, name: str) -> bool:
        """Of a name that a pattern matched."""
        if name in BASE or (self.deterministic and name in DETERMINISTIC):
            return False
        return self.inherit_unsafe or not is_injection(name)


def candidates(program: str, path: str) -> list[str]:
    """What is tried for argv[0], by a PATH: a name with a slash is itself, any other is sought in each directory."""
    return [program] if "/" in program else [f"{directory}/{program}" for directory in path.split(":")]


def check_inherit(names: tuple[str, ...], *, unsafe: bool, deterministic: bool) -> None:
    """PolicyError for what `Policy.inherit` may not hold."""
    for at, name in enumerate(names):
        field, stem = f"Policy.inherit[{at}]", name.removesuffix("*")
        if not stem:
            raise PolicyError("takes everything", field=field, value=name, remedy="name what is needed, such as 'LC_*'")
        if any(character in stem for character in "=*?[\0"):
            remedy = "give a name, or its beginning and one '*' at the end"
            raise PolicyError("not the name of a variable", field=field, value=name, remedy=remedy)
        if name in BASE:
            raise PolicyError("is set by us", field=field, value=name, remedy=_INSTEAD[name])
        if deterministic and name in DETERMINISTIC:
            raise PolicyError("is fixed", field=field, value=name, remedy=_INSTEAD[name])
        if not unsafe and is_injection(name):
            raise PolicyError(
                "can make a loader or an interpreter run other code",
                field=field,
                value=name,
                remedy="give a value of your own in env=, or say Policy.inherit_unsafe=True",
            )


def _is_clean(value: str) -> bool:
    size = len(value.encode("utf-8", "surrogateescape"))
    control = any(ord(character) < 0x20 or 0x7F <= ord(character) < 0xA0 for character in value)
    return size <= _LONGEST and not control and not value.startswith("()")


def _check_ours(ours: Mapping[str, str], field: str, name: str, value: str, shown: str) -> None:
    if ours.get(name, value) != value:
        reason = f"{name} is set by us and cannot be overridden"
        raise PolicyError(reason, field=f"{field}[{name!r}]", value=shown, remedy=_INSTEAD[name])


def _check(field: str, name: object, value: object, *, shown: object = None) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise PolicyError("not text", field=field, value=shown or {name: value}, remedy="give {'NAME': 'value'}")
    if not name:
        raise PolicyError("empty", field=f"{field} name", value=name, remedy="give it a name, or leave it out")
    if "=" in name:
        value = shown or name
        raise PolicyError("holds '='", field=f"{field} name", value=value, remedy="what comes after it belongs into the value")
    if "\0" in name:
        raise PolicyError("holds a NUL byte", field=f"{field} name", value=name, remedy="no name can: leave it out")
    if "\0" in value:
        remedy = "pass such data by stdin= or files="
        raise PolicyError("holds a NUL byte", field=f"{field}[{name!r}]", value=shown or value, remedy=remedy)
