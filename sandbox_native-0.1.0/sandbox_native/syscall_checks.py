"""The calls that are permitted by their arguments, as data: steps that a filter takes one after the other. See syscalls.py.

Numbers are Linux's own, written out: this module is imported on other systems too, where `errno` and `socket` differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from sandbox_native import call_names

EPERM: Final = 1
EINVAL: Final = 22
ENOTTY: Final = 25
ENOSYS: Final = 38
EPROTONOSUPPORT: Final = 93
ESOCKTNOSUPPORT: Final = 94
EAFNOSUPPORT: Final = 97
# A step's outcomes that are no errno.
ALLOW: Final = 0
IGNORE: Final = -1  # the caller is told that it worked, and nothing is done
INIT: Final = -2  # init is asked, by its listener


@dataclass(frozen=True, kw_only=True)
class Step:
    """One test of an argument; `outcome` (ALLOW, IGNORE or an errno) ends the check when it applies.

    It applies when the argument's low 32 bits (with `high` the upper 32 bits), and-ed with `mask`, are in `values`
    (with `unless`: are not). The half is chosen by what the kernel reads: an int parameter is its low half,
    whatever the guest put above. Where `then` has steps, these decide instead of `outcome`.
    """

    arg: int
    values: frozenset[int]
    outcome: int
    mask: int = 0xFFFFFFFF
    high: bool = False
    unless: bool = False
    then: tuple[Step, ...] = ()

    def applies(self, arguments: Sequence[int]) -> bool:
        half = arguments[self.arg] >> 32 if self.high else arguments[self.arg]
        return (half & self.mask & 0xFFFFFFFF in self.values) is not self.unless


def among(arg: int, *values: int, outcome: int = EPERM, mask: int = 0xFFFFFFFF, then: tuple[Step, ...] = ()) -> Step:
    return Step(arg=arg, values=frozenset(values), outcome=outcome, mask=mask, then=then)


def unless(arg: int, *values: int, outcome: int = EPERM, mask: int = 0xFFFFFFFF, high: bool = False) -> Step:
    return Step(arg=arg, values=frozenset(values), outcome=outcome, mask=mask, high=high, unless=True)


# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_NAMESPACE: Final = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
_UNSHARE: Final = 0x200 | 0x400 | 0x40000  # CLONE_FS, CLONE_FILES, CLONE_SYSVSEM

_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_RAW, _SOCK_PACKET = 1, 2, 3, 10
# TCP and UDP only: another protocol would load its module (SCTP, DCCP, MPTCP, SMC, …). AF_INET with SOCK_PACKET is an
# AF_PACKET socket in disguise. The answers are those of a kernel that has not got it.
_SOCKET: Final = (
    among(0, _AF_UNIX, outcome=ALLOW),
    unless(0, _AF_INET, _AF_INET6, outcome=EAFNOSUPPORT),
    among(1, _SOCK_RAW, _SOCK_PACKET, mask=0xF),
    unless(1, _SOCK_STREAM, _SOCK_DGRAM, mask=0xF, outcome=ESOCKTNOSUPPORT),
    unless(2, 0, 6, 17, outcome=EPROTONOSUPPORT),
)

# A file in a host workspace belongs to the caller on disk, who may be root: it must not become set-user-ID or set-group-ID.
_SET_ID: Final = 0o6000
_CREATES: Final = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE: without them the mode is whatever the register held


def _no_set_id(mode: int) -> Step:
    return unless(mode, 0, mask=_SET_ID)


def _open(flags: int) -> tuple[Step, ...]:
    return among(flags, 0, mask=_CREATES, outcome=ALLOW), _no_set_id(flags + 1)


def _make_node(mode: int) -> tuple[Step, ...]:
    # Regular (0 too), FIFO, socket. A character device 0:0 needs no privilege and is a whiteout to overlayfs.
    return unless(mode, 0, 0o100000, 0o010000, 0o140000, mask=0o170000), _no_set_id(mode)


# What is on disk is the caller's own: attributes of its files (flags, project, version, encryption, verity, a subvolume's) take
# no more than to own the file, and read access. Each file system has its own spellings, so only what is listed here may be
# asked; the answer is that of a file system without attributes.
_FILE_READING: Final = (
    0x80086601,  # FS_IOC_GETFLAGS
    0x80046601,  # FS_IOC32_GETFLAGS
    0x80087601,  # FS_IOC_GETVERSION
    0x80047601,  # FS_IOC32_GETVERSION
    0x801C581F,  # FS_IOC_FSGETXATTR
    0xC020660B,  # FS_IOC_FIEMAP
    0xC0606610,  # PAGEMAP_SCAN
    0xC0686611,  # PROCMAP_QUERY
)
_FICLONE, _FICLONERANGE, _FIDEDUPERANGE = 0x40049409, 0x4020940D, 0xC0189436
FILE_IOCTLS: Final = (*_FILE_READING, _FICLONE, _FICLONERANGE)
_FILE_FAMILIES: Final = (0x6600, 0x7600, 0x5800, 0x9400, 0xF500)  # 'f', 'v', 'X' (XFS and shared), btrfs, f2fs
_FILE_ATTRIBUTES: Final = (
    among(1, *FILE_IOCTLS, _FIDEDUPERANGE, outcome=ALLOW),
    among(1, *_FILE_FAMILIES, mask=0xFF00, outcome=ENOTTY),
)
TERMINAL_INPUT: Final = among(1, 0x5412, 0x541C)  # TIOCSTI, TIOCLINUX

# A lease makes whoever opens the file wait for its holder, a delegation too; F_NOTIFY watches a directory with no more than read
# access. Answered as for a file that has none.
_F_SETLEASE, _F_NOTIFY, _F_SETDELEG = 1024, 1026, 1040

# Init is process 1 and has the guest's uid, so these would reach it (the deadline that init keeps could be starved, or its
# limits lowered until it dies). 0 is the caller itself.
_NOT_INIT: Final = among(0, 1)
# With RLIMIT_CORE at 1 no crash starts a helper of the host's (request.py says why); with another value it would. Programs that
# lower it to 0 (ssh-agent, gpg, sudo) give up when they may not, so they are told that they did.
_RLIMIT_CORE: Final = 4
_SCHED_RESET_ON_FORK: Final = 0x40000000
_ORDINARY: Final = (0, 3, 5)  # SCHED_OTHER, SCHED_BATCH, SCHED_IDLE: the caller's RLIMIT_RTPRIO may permit more

# prctl: what programs ask for. Anything else is answered with EINVAL, as by a kernel that does not have it, so that callers
# fall back: SET_SECCOMP (a guest's filter is code for the kernel's JIT), PTRACER, MM, TSC, IO_FLUSHER, SYSCALL_USER_DISPATCH,
# SCHED_CORE, SPECULATION_CTRL (set), TASK_PERF_EVENTS, MCE_KILL, SECUREBITS (set).
_PRCTL: Final = """
    PR_SET_PDEATHSIG PR_GET_PDEATHSIG PR_GET_DUMPABLE PR_SET_DUMPABLE PR_GET_KEEPCAPS PR_SET_KEEPCAPS PR_SET_NAME PR_GET_NAME
    PR_GET_SECCOMP PR_CAPBSET_READ PR_CAPBSET_DROP PR_GET_SECUREBITS PR_SET_TIMERSLACK PR_GET_TIMERSLACK PR_SET_CHILD_SUBREAPER
    PR_GET_CHILD_SUBREAPER PR_SET_NO_NEW_PRIVS PR_GET_NO_NEW_PRIVS PR_GET_TID_ADDRESS PR_SET_THP_DISABLE PR_GET_THP_DISABLE
    PR_CAP_AMBIENT PR_SVE_SET_VL PR_SVE_GET_VL PR_GET_SPECULATION_CTRL PR_PAC_RESET_KEYS PR_SET_TAGGED_ADDR_CTRL
    PR_GET_TAGGED_ADDR_CTRL PR_PAC_SET_ENABLED_KEYS PR_PAC_GET_ENABLED_KEYS PR_SME_SET_VL PR_SME_GET_VL PR_SET_MDWE PR_GET_MDWE
    PR_GET_AUXV PR_SET_VMA"""
PRCTL_OPTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {name: number for number, name in call_names.PRCTL.items() if name in _PRCTL.split()}
)

CHECKED: Final[Mapping[str, tuple[Step, ...]]] = MappingProxyType(
    {
        # Flags are longs here; no bit of the upper half has a meaning yet. clone's low byte is a signal, none of which is 0x80.
        "clone": (unless(0, 0, high=True), unless(0, 0, mask=NEW_NAMESPACE)),
        "unshare": (unless(0, 0, high=True), unless(0, 0, mask=~_UNSHARE & 0xFFFFFFFF)),
        "ioctl": (TERMINAL_INPUT, *_FILE_ATTRIBUTES),
        "fcntl": (among(1, _F_SETLEASE, _F_NOTIFY, _F_SETDELEG, outcome=EINVAL),),
        "socket": _SOCKET,
        "socketpair": _SOCKET,
        "personality": (unless(0, 0xFFFFFFFF),),
        "prctl": (unless(0, *PRCTL_OPTIONS.values(), outcome=EINVAL),),
        "open": _open(1),
        "openat": _open(2),
        "creat": (_no_set_id(1),),
        "chmod": (_no_set_id(1),),
        "fchmod": (_no_set_id(1),),
        "fchmodat": (_no_set_id(2),),
        "fchmodat2": (_no_set_id(2),),
        "mknod": _make_node(1),
        "mknodat": _make_node(2),
        "setrlimit": (among(0, _RLIMIT_CORE, outcome=IGNORE),),
        "prlimit64": (
            _NOT_INIT,
            unless(1, _RLIMIT_CORE, outcome=ALLOW),
            unless(2, 0, outcome=IGNORE),  # a new value; without one it is read
            unless(2, 0, outcome=IGNORE, high=True),
        ),
        "sched_setaffinity": (_NOT_INIT,),
        "sched_setparam": (_NOT_INIT,),
        "sched_setscheduler": (_NOT_INIT, unless(1, *_ORDINARY, mask=~_SCHED_RESET_ON_FORK & 0xFFFFFFFF)),
        # PRIO_USER and IOPRIO_WHO_USER mean everybody with the guest's uid, init included.
        "setpriority": (among(0, 2), among(1, 1)),
        "ioprio_set": (among(0, 3), among(1, 1)),
    }
)
