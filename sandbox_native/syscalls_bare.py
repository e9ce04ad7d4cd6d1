"""The system calls of a guest on the rung without namespaces: where its filter differs from that of `Policy.strict`. Data only.

There the guest has the caller's own user and sees the caller's files, processes and sockets by name. Landlock keeps it from
opening, making and removing files and from signalling anybody outside its tree. What Landlock does not know of is closed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from sandbox_native.syscall_checks import (
    CHECKED,
    EAFNOSUPPORT,
    EINVAL,
    ENOSYS,
    ENOTTY,
    EPERM,
    ESOCKTNOSUPPORT,
    FILE_IOCTLS,
    INIT,
    PRCTL_OPTIONS,
    TERMINAL_INPUT,
    Step,
    unless,
)
from sandbox_native.syscalls import GROUPS

_EACCES: Final = 13
_EOPNOTSUPP: Final = 95
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET = 1, 1, 5
_SET_ID: Final = 0o6000


def _always(outcome: int) -> tuple[Step, ...]:
    return (Step(arg=0, values=frozenset(), outcome=outcome, unless=True),)


def _each(calls: str, outcome: int) -> dict[str, tuple[Step, ...]]:
    return dict.fromkeys(calls.split(), _always(outcome))


# Another process's figures: 0 is the caller itself. Threads that name themselves by number are refused with the rest.
_SELF: Final = unless(0, 0)
# What programs ask: terminals (0x54), descriptors of any kind, the entropy that there is; and of files what only reads.
_TERMINAL: Final = (
    *(*range(0x5401, 0x5412), 0x5413, 0x5414, 0x5415, 0x541A, 0x541B, 0x5420, 0x5422, 0x5424, 0x5425, 0x5429, 0x5441),
    *(0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D),  # TCGETS2, TCSETS2, …
    *(0x80045430, 0x40045431, 0x80045432, 0x80045438, 0x80045439),  # TIOCGPTN, TIOCSPTLCK, …
)
_DESCRIPTOR: Final = (0x5421, 0x5450, 0x5451, 0x5452, 0x5460, 2)  # FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC, FIOQSIZE, FIGETBSZ
_IOCTLS: Final = (*_TERMINAL, *_DESCRIPTOR, 0x80045200, *FILE_IOCTLS)
_ATTRIBUTES: Final = "getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat"
_ATTRIBUTES_SET: Final = "setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat"

BARE: Final[Mapping[str, tuple[Step, ...]]] = MappingProxyType(
    {
        # The host's network and its Unix sockets are there. A pair stays between the guest's own processes, unless its datagrams
        # may be given another address (sendmsg has it in memory): so streams only.
        **_each("socket", EAFNOSUPPORT),
        **_each("connect bind listen accept accept4", EPERM),
        "socketpair": (
            unless(0, _AF_UNIX, outcome=EAFNOSUPPORT),
            unless(1, _SOCK_STREAM, _SOCK_SEQPACKET, mask=0xF, outcome=ESOCKTNOSUPPORT),
        ),
        # Requests of sockets list the host's interfaces, and those of a file system change what is the caller's.
        "ioctl": (TERMINAL_INPUT, unless(1, *_IOCTLS, outcome=ENOTTY)),
        # Shared with the caller's other programs.
        **_each(" ".join(GROUPS["ipc"]), ENOSYS),
        # The caller's files outside: Landlock knows no right to change what a file's owner may always change, or to watch it.
        # Modes and times of what the guest may write are changed by init in its place.
        **_each("chown fchown lchown fchownat", EPERM),
        **_each(f"{_ATTRIBUTES} {_ATTRIBUTES_SET}", _EOPNOTSUPP),
        **_each("inotify_add_watch", _EACCES),
        "chmod": (unless(1, 0, mask=_SET_ID), *_always(INIT)),
        "fchmod": (unless(1, 0, mask=_SET_ID), *_always(INIT)),
        "fchmodat": (unless(2, 0, mask=_SET_ID), *_always(INIT)),
        "fchmodat2": (unless(2, 0, mask=_SET_ID), *_always(INIT)),
        **_each("utime utimes futimesat utimensat", INIT),
        # The caller's other processes.
        "prlimit64": (_SELF, *CHECKED["prlimit64"]),
        "sched_setaffinity": (_SELF,),
        "sched_setparam": (_SELF,),
        "sched_setscheduler": (_SELF, *CHECKED["sched_setscheduler"]),
        "setpriority": (unless(0, 0), unless(1, 0)),
        "ioprio_set": (unless(0, 1), unless(1, 0)),
        # A guest that cannot be looked into could hide what it uses where /proc is mounted with hidepid.
        "prctl": (unless(0, *(set(PRCTL_OPTIONS.values()) - {PRCTL_OPTIONS["PR_SET_DUMPABLE"]}), outcome=EINVAL),),
    }
)
"""Name -> what is tested instead of what `syscalls` has for it."""
