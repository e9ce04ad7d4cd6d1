"""Why a call with a path was refused, by the rules of the policy and what the host has there: a Denial, or None where the policy
has nothing to do with it. Pure: the host is asked through a function.

The paths are what the guest wrote: a link in them is not followed here, so a denial may be missed; none is made up.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sandbox_native.denials import Denial
from sandbox_native.home import OF_THE_HOST
from sandbox_native.paths import contains
from sandbox_native.policy import Deletion, Policy
from sandbox_native.refused_calls import Noted, field_text, open_flags
from sandbox_native.rules import OWN, SYSTEM, Access, Rule, deciding, declared
from sandbox_native.shown import Shown

Kind = Literal["file", "directory", "socket", "other"]
Host = Callable[[str], Kind | None]
"""What a path of the host is; None where there is nothing."""

_NO_NETWORK: Final = "the box has a network of its own, with nothing but lo in it"
_MODE: Final = "its mode, or that of a directory above it, does not let the guest in, who is another user than the owner"
_SOCKET: Final = "a socket of the host's, which nobody answers in what is shown read-only"
_KEPT: Final = "nothing can be removed or renamed there (Policy.deletion)"
_NOT_SENSIBLE: Final = "; nothing sensible allows it"
_NEVER_WRITTEN: Final = (*SYSTEM, "/etc", "/boot", "/var/lib", "/var/spool", "/var/cache", "/var/log")
# Where these are on the host says nothing: the box has its own.
_BOXES_OWN: Final = ("/proc", "/dev/fd", "/dev/stdin", "/dev/stdout", "/dev/stderr")
_FLAGS_AT: Final[Mapping[str, int]] = {"open": 1, "openat": 2}
_MODE_AT: Final[Mapping[str, int]] = {"access": 1, "faccessat": 2, "faccessat2": 2}
_READS: Final = frozenset(
    (*("stat", "lstat", "newfstatat", "statx", "statfs", "readlink", "readlinkat", "chdir"), *("execve", "execveat", "connect"))
)
_REMOVES: Final = frozenset(("unlink", "unlinkat", "rmdir", "rename", "renameat", "renameat2"))
_O_WRITES: Final = 0o3 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
_W_OK: Final = 2


@dataclass(frozen=True, slots=True)
class _Why:
    reason: str
    allow: str | None = None


class PathRules:
    """The rules of one policy on this machine."""

    def __init__(self, policy: Policy, shown: Iterable[Shown], host: Host, secrets: Iterable[str] = OF_THE_HOST) -> None:
        """`secrets`: paths of the host that nobody is advised to show, be they there or not."""
        self._policy, self._host, self._secrets = policy, host, tuple(secrets)
        self._rules = [*declared(policy), *_found(shown)]

    def denial_of(self, noted: Noted) -> Denial | None:
        """Of a call that was let through and got -noted.error by the look of its path."""
        error = -(noted.error or 0)
        if error == errno.ENETUNREACH:
            return Denial(kind="syscall", name="connect", arguments=noted.path, reason=_NO_NETWORK, count=noted.count)
        for path in (noted.path, noted.other):
            path = os.path.normpath(path) if path.startswith("/") else ""
            why = self._why(error, path, noted) if path else None
            if why is not None:
                words = _words(noted)
                return Denial(kind="path", name=path, arguments=words, reason=why.reason, count=noted.count, allow=why.allow)
        return None

    def _why(self, error: int, path: str, noted: Noted) -> _Why | None:
        rule = deciding(self._rules, path)
        if any(contains(place, path) for place in _BOXES_OWN):
            return None
        if rule is not None and rule.access is Access.HIDDEN:
            return _Why(f"{path} is hidden{_by(rule)}") if self._host(self._on_host(path)) else None
        if error in (errno.ENOENT, errno.ENOTDIR):
            return self._not_there(rule, path, _writes(noted))
        if error == errno.EBUSY:
            names = " or ".join(name for name in (noted.path, noted.other) if name)
            return _Why(f"{names} stays where it is: it, or something in it, is protected or hidden, or a root of its own")
        if error == errno.EROFS:
            return self._read_only(rule, path)
        if error == errno.EACCES and noted.name in _REMOVES and self._policy.deletion is Deletion.DENY:
            return _Why(_KEPT, field_text("deletion", Deletion.ALLOW.value))
        if error == errno.EACCES and any(self._host(self._on_host(name)) for name in (path, os.path.dirname(path))):
            return _Why(_MODE)
        if error == errno.ECONNREFUSED and self._host(self._on_host(path)) == "socket":
            return _Why(_SOCKET, field_text("host_sockets", "show"))
        return None

    def _not_there(self, rule: Rule | None, path: str, writes: bool) -> _Why | None:
        if rule is not None and (rule.field or rule.inside in SYSTEM):
            return None  # what is missing in what is shown is missing on the host too
        field, kind = "writable" if writes else "readable", self._host(path)
        if kind is not None:
            own = f" ({rule.inside} is the box's own)" if rule is not None else ""
            return self._shown_by(f"{path} exists on the host, not in the view{own}", field, path, kind)
        above = os.path.dirname(path)
        kind = self._host(above) if writes and above not in ("/", *OWN) else None
        if kind != "directory":
            return None
        return self._shown_by(f"{above} exists on the host, not in the view", field, above, kind)

    def _read_only(self, rule: Rule | None, path: str) -> _Why:
        if rule is None:
            return self._shown_by("the box's root cannot be written: /workspace and /tmp can", "writable", path, self._host(path))
        if rule.access is not Access.READABLE:  # in what can be written only what is guarded is read-only
            return _Why(f"{path} is protected{_by(rule) if rule.access is Access.PROTECTED else ''}")
        if rule.inside in SYSTEM or not rule.field:
            return _Why(f"{rule.inside} is read-only in every box")
        pair = next((pair for pair in self._policy.readable if pair[1] == rule.inside), None)
        if pair is None:
            return self._shown_by(f"{path} is shown read-only{_by(rule)}", "writable", path, self._host(path) or "file")
        return self._shown_by(f"{path} is shown read-only{_by(rule)}", "writable", pair[0], "directory", pair[1])

    def _shown_by(self, reason: str, field: str, host: str, kind: Kind | None, inside: str = "") -> _Why:
        """With the field that would show it, where that makes sense. Devices are the box's own, a socket or FIFO cannot be shown,
        and what /sys tells of the machine programs do without."""
        if kind not in ("file", "directory") or any(contains(place, host) for place in ("/dev", "/sys")):
            return _Why(reason)
        if self._is_secret(host) or (field == "writable" and any(_meet(place, host) for place in _NEVER_WRITTEN)):
            return _Why(reason + _NOT_SENSIBLE)
        return _Why(reason, field_text(field, [[host, inside] if inside and inside != host else host]))

    def _is_secret(self, path: str) -> bool:
        """Whether it is one, lies in one, or holds one."""
        return any(contains(one, path) or (contains(path, one) and self._host(one) is not None) for one in self._secrets)

    def _on_host(self, path: str) -> str:
        """What a path of the guest's is on the host."""
        pairs = [pair for pair in (*self._policy.readable, *self._policy.writable) if contains(pair[1], path)]
        host, inside = max(pairs, key=lambda pair: len(pair[1]), default=("/", "/"))
        return os.path.normpath(os.path.join(host, os.path.relpath(path, inside)))


def _found(shown: Iterable[Shown]) -> Iterable[Rule]:
    """The rules that depend on what is on the disk: mandatory denies, and what HOST hides."""
    for one in shown:
        if one.kind == "mask":
            yield Rule(inside=one.inside, access=Access.HIDDEN, field=one.field)
        elif one.kind == "guard" and one.access is Access.PROTECTED:
            yield Rule(inside=one.inside, access=Access.PROTECTED, mandatory=True, field=one.field)


def _by(rule: Rule) -> str:
    return f" ({rule.field})" if rule.field else ""


def _meet(one: str, other: str) -> bool:
    return contains(one, other) or contains(other, one)


def _writes(noted: Noted) -> bool:
    name = noted.name or ""
    if name in _FLAGS_AT:
        return bool(noted.arguments[_FLAGS_AT[name]] & _O_WRITES)
    if name in _MODE_AT:
        return bool(noted.arguments[_MODE_AT[name]] & _W_OK)
    return name not in _READS


def _words(noted: Noted) -> str:
    name = noted.name or ""
    return f"{name} {open_flags(noted.arguments[_FLAGS_AT[name]])}" if name in _FLAGS_AT else name
