"""What the supervisor of refused calls noted, as values, and a refused call as a Denial: its name and arguments in words, why,
and which field of the policy would permit it. Pure; refused_paths.py has those that a path is to blame for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sandbox_native import call_names, syscalls
from sandbox_native.call_names import flags_of, name_of
from sandbox_native.denials import Denial
from sandbox_native.syscall_checks import ALLOW

_ABSENT: Final = "its flags are in memory, where a filter cannot look: as on a kernel without it, programs take the older call"
_FOREIGN: Final = "made through another architecture's entry, which ends the program"
_UNKNOWN: Final = "no call that this version knows"
_SET_ID: Final = "set-user-ID and set-group-ID bits are refused: a host directory may be the caller's"
_INIT: Final = "process 1 is the box's init, and others are not the guest's to slow down"
_CHECKED: Final[Mapping[str, str]] = MappingProxyType(
    {
        "socket": "sockets are AF_UNIX, or TCP and UDP over AF_INET and AF_INET6",
        "socketpair": "sockets are AF_UNIX, or TCP and UDP over AF_INET and AF_INET6",
        "clone": "new namespaces come with capabilities, and most of the kernel within reach",
        "unshare": "new namespaces come with capabilities, and most of the kernel within reach",
        "ioctl": "types into a terminal that others read, or changes attributes of a file",
        "fcntl": "a lease makes whoever opens the file wait, and F_NOTIFY watches a directory",
        "personality": "only asking for it is permitted",
        "prctl": "an option that few programs need; answered as by a kernel without it",
        **dict.fromkeys(("open", "openat", "creat", "chmod", "fchmod", "fchmodat", "fchmodat2"), _SET_ID),
        **dict.fromkeys(
            ("mknod", "mknodat"), "only files, FIFOs and sockets can be made, without set-user-ID and set-group-ID bits"
        ),
        **dict.fromkeys(("prlimit64", "sched_setaffinity", "sched_setparam", "setpriority", "ioprio_set"), _INIT),
        "sched_setscheduler": "only SCHED_OTHER, SCHED_BATCH and SCHED_IDLE, of the guest's own processes",
    }
)
_BY_CALL: Final = {name: heading for heading, calls in syscalls.REFUSED.items() for name in calls}


@dataclass(frozen=True, kw_only=True, slots=True)
class Noted:
    """One struct sn_denial: equal calls, counted.

    `error`: the errno that they were answered with; below 0: they were let through, and by the look of their path got -error;
    None: the call ended the run. Arguments that do not matter are 0. `path` and `other` are absolute as the guest sees them, or a
    socket's address; `word` is a text that is no path.
    """

    name: str | None
    number: int
    error: int | None
    count: int
    arguments: tuple[int, ...]
    path: str = ""
    other: str = ""
    word: str = ""


def denial_of(noted: Noted, groups: Sequence[str]) -> Denial:
    """Of a call that the filter with these groups refused."""
    reason, allow = _why(noted, groups)
    words = _WORDS.get(noted.name or "", _paths)(noted)
    return Denial(
        kind="syscall",
        name=noted.name or f"call {noted.number}",
        arguments=words,
        reason=reason,
        count=noted.count,
        allow=allow,
    )


def _why(noted: Noted, groups: Sequence[str]) -> tuple[str, str | None]:
    if noted.error is None:
        return _FOREIGN, None
    if noted.name is None:
        return _UNKNOWN, None
    for group in syscalls.OPTIONAL:
        if group not in groups and syscalls.outcome(noted.name, noted.arguments, (*groups, group)) == ALLOW:
            return _reason(noted.name), field_text("syscalls", [group])
    return _reason(noted.name), None


def _reason(name: str) -> str:
    if name in syscalls.ABSENT:
        return _ABSENT
    return _CHECKED.get(name) or _BY_CALL.get(name) or "not on the list of what is permitted"


def field_text(field: str, value: object) -> str:
    """As a keyword argument of Policy.strict, and as a line of TOML."""
    return f"{field}={json.dumps(value, ensure_ascii=False)}"


# ---- arguments in words ----


def _paths(noted: Noted) -> str:
    return ", ".join(word for word in (noted.path, noted.other, noted.word) if word)


def _joined(*words: str) -> str:
    return ", ".join(word for word in words if word)


def _low(value: int) -> int:
    return value & 0xFFFFFFFF


def _one(names: Mapping[int, str], at: int = 0) -> Callable[[Noted], str]:
    return lambda noted: name_of(names, _low(noted.arguments[at]))


def _two(first: Mapping[int, str], second: Mapping[int, str]) -> Callable[[Noted], str]:
    return lambda noted: _joined(_one(first)(noted), _one(second, 1)(noted))


def _flags(names: Mapping[int, str], mask: int = 0xFFFFFFFFFFFFFFFF, at: int = 0) -> Callable[[Noted], str]:
    return lambda noted: flags_of(names, noted.arguments[at] & mask)


def _pid(noted: Noted) -> str:
    return f"process {_low(noted.arguments[0])}"


def _socket(noted: Noted) -> str:
    family, kind, protocol = (_low(value) for value in noted.arguments[:3])
    names = call_names.NETLINK if family == _AF_NETLINK else call_names.PROTOCOLS
    which = name_of(names, protocol) if protocol or family == _AF_NETLINK else ""
    return _joined(name_of(call_names.FAMILIES, family), name_of(call_names.SOCKET_TYPES, kind & 0xF), which)


def _mode(at: int) -> Callable[[Noted], str]:
    return lambda noted: _joined(noted.path, f"mode {noted.arguments[at] & 0o7777:04o}")


def _open(flags: int) -> Callable[[Noted], str]:
    return lambda noted: _joined(
        noted.path, open_flags(noted.arguments[flags]), f"mode {noted.arguments[flags + 1] & 0o7777:04o}"
    )


def open_flags(flags: int) -> str:
    return flags_of(call_names.OPEN, flags & sum(call_names.OPEN)) or "O_RDONLY"


def _node(at: int) -> Callable[[Noted], str]:
    def words(noted: Noted) -> str:
        kind = _KINDS.get(noted.arguments[at] & 0o170000, oct(noted.arguments[at] & 0o170000))
        return _joined(noted.path, kind, f"mode {noted.arguments[at] & 0o7777:04o}")

    return words


_AF_NETLINK: Final = 16
_KINDS: Final = {0: "file", 0o100000: "file", 0o20000: "character device", 0o60000: "block device", 0o40000: "directory"}
_WORDS: Final[Mapping[str, Callable[[Noted], str]]] = MappingProxyType(
    {
        "socket": _socket,
        "socketpair": _socket,
        "clone": _flags(call_names.CLONE, 0xFFFFFFFFFFFFFF00),  # its low byte is a signal
        "unshare": _flags(call_names.CLONE),
        "setns": _flags(call_names.CLONE, at=1),
        "personality": _flags(call_names.PERSONALITY, 0xFFFFFFFF),
        "prctl": _one(call_names.PRCTL),
        "ioctl": _one(call_names.IOCTLS, 1),
        "fcntl": _one(call_names.FCNTLS, 1),
        "ptrace": _one(call_names.PTRACE),
        "keyctl": _one(call_names.KEYCTL),
        "seccomp": _one(call_names.SECCOMP),
        "bpf": _one(call_names.BPF),
        "open": _open(1),
        "openat": _open(2),
        "creat": _mode(1),
        "chmod": _mode(1),
        "fchmod": _mode(1),
        "fchmodat": _mode(2),
        "fchmodat2": _mode(2),
        "mknod": _node(1),
        "mknodat": _node(2),
        "prlimit64": lambda noted: _joined(_pid(noted), _one(call_names.RESOURCES, 1)(noted)),
        "sched_setscheduler": lambda noted: _joined(_pid(noted), name_of(call_names.SCHEDULERS, noted.arguments[1] & 0x3FFFFFFF)),
        "setpriority": _two(call_names.PRIORITIES, {}),
        "ioprio_set": _two(call_names.IO_PRIORITIES, {}),
        **dict.fromkeys(
            ("process_vm_readv", "process_vm_writev", "move_pages", "migrate_pages", "sched_setaffinity", "sched_setparam"), _pid
        ),
    }
)
