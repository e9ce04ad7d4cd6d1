"""The system calls that a guest may make under `Policy.strict`, as data.

seccomp.py compiles this into the filter; nothing here touches the operating system. A name counts on every
architecture that has it; the numbers come from the build's headers. What is in no table here is known to the headers and
refused (EPERM), or unknown to them and absent (ENOSYS), so a call of a later kernel is closed until it gets a line here.

Numbers are Linux's own, written out: this module is imported on other systems too, where `errno` and `socket` differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

EPERM: Final = 1
EINVAL: Final = 22
ENOSYS: Final = 38
EPROTONOSUPPORT: Final = 93
ESOCKTNOSUPPORT: Final = 94
EAFNOSUPPORT: Final = 97
# A step's outcomes that are no errno.
ALLOW: Final = 0
IGNORE: Final = -1  # the caller is told that it worked, and nothing is done

GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: tuple(calls.split())
        for name, calls in {
            "descriptors": """
                read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range
                dup dup2 dup3 fcntl flock pipe pipe2 sendfile splice tee copy_file_range
                poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
                eventfd eventfd2 signalfd signalfd4 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch
                memfd_create""",
            "files": """
                stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 readlink readlinkat
                getdents getdents64 getcwd chdir fchdir umask truncate ftruncate fallocate fadvise64 readahead cachestat
                fsync fdatasync sync_file_range rename renameat renameat2 link linkat symlink symlinkat unlink unlinkat
                mkdir mkdirat rmdir chown fchown lchown fchownat utime utimes futimesat utimensat
                getxattr lgetxattr fgetxattr getxattrat listxattr llistxattr flistxattr listxattrat
                setxattr lsetxattr fsetxattr setxattrat removexattr lremovexattr fremovexattr removexattrat""",
            "memory": """
                brk mmap munmap mremap mprotect msync madvise mincore mlock mlock2 munlock mlockall munlockall mseal
                pkey_alloc pkey_free pkey_mprotect map_shadow_stack membarrier""",
            "processes": """
                fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp setpgid
                getsid setsid getrusage times getpriority ioprio_get getrlimit arch_prctl set_tid_address
                set_robust_list rseq rseq_slice_yield pidfd_open pidfd_send_signal""",
            "scheduling": """
                sched_yield sched_getaffinity sched_getparam sched_getscheduler sched_getattr sched_rr_get_interval
                sched_get_priority_max sched_get_priority_min getcpu""",
            "locks": "futex futex_waitv futex_wait futex_wake futex_requeue",
            "signals": """
                kill tkill tgkill rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigsuspend rt_sigqueueinfo
                rt_tgsigqueueinfo rt_sigreturn restart_syscall sigaltstack pause""",
            "clocks": """
                time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer
                timer_create timer_settime timer_gettime timer_getoverrun timer_delete
                timerfd_create timerfd_settime timerfd_gettime""",
            # The kernel checks each against an empty capability set and a map of one uid.
            "identity": """
                getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid
                setresgid setgroups setfsuid setfsgid capget capset""",
            "machine": "uname sysinfo getrandom",
            "sockets": """
                bind listen accept accept4 connect shutdown getsockname getpeername getsockopt setsockopt
                sendto recvfrom sendmsg recvmsg sendmmsg recvmmsg""",
            "ipc": """
                shmget shmat shmctl shmdt semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
                mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr""",
            # Only narrow the caller, by tables: no code of the guest's enters the kernel as it does with seccomp(2).
            "landlock": "landlock_create_ruleset landlock_add_rule landlock_restrict_self",
            # Trampolines that the kernel plants in a process under observation; answered with a signal elsewhere.
            "probes": "uretprobe uprobe",
        }.items()
    }
)

# Their flags are in memory, where a filter cannot look. ENOSYS makes every caller take the older call.
ABSENT: Final = frozenset({"clone3", "openat2"})


@dataclass(frozen=True, kw_only=True)
class Step:
    """One test of an argument; `outcome` (ALLOW, IGNORE or an errno) ends the check when it applies.

    It applies when the argument's low 32 bits (with `high` the upper 32 bits), and-ed with `mask`, are in `values`
    (with `unless`: are not). The half is chosen by what the kernel reads: an int parameter is its low half,
    whatever the guest put above.
    """

    arg: int
    values: frozenset[int]
    outcome: int
    mask: int = 0xFFFFFFFF
    high: bool = False
    unless: bool = False


def _among(arg: int, *values: int, outcome: int = EPERM, mask: int = 0xFFFFFFFF) -> Step:
    return Step(arg=arg, values=frozenset(values), outcome=outcome, mask=mask)


def _unless(arg: int, *values: int, outcome: int = EPERM, mask: int = 0xFFFFFFFF, high: bool = False) -> Step:
    return Step(arg=arg, values=frozenset(values), outcome=outcome, mask=mask, high=high, unless=True)


# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_NAMESPACE: Final = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000
_UNSHARE: Final = 0x200 | 0x400 | 0x40000  # CLONE_FS, CLONE_FILES, CLONE_SYSVSEM

_AF_UNIX, _AF_INET, _AF_INET6 = 1, 2, 10
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_RAW, _SOCK_PACKET = 1, 2, 3, 10
# TCP and UDP only: another protocol would load its module (SCTP, DCCP, MPTCP, SMC, …). AF_INET with SOCK_PACKET is an
# AF_PACKET socket in disguise. The answers are those of a kernel that has not got it.
_SOCKET: Final = (
    _among(0, _AF_UNIX, outcome=ALLOW),
    _unless(0, _AF_INET, _AF_INET6, outcome=EAFNOSUPPORT),
    _among(1, _SOCK_RAW, _SOCK_PACKET, mask=0xF),
    _unless(1, _SOCK_STREAM, _SOCK_DGRAM, mask=0xF, outcome=ESOCKTNOSUPPORT),
    _unless(2, 0, 6, 17, outcome=EPROTONOSUPPORT),
)

# A file in a host workspace belongs to the caller on disk, who may be root: it must not become set-user-ID or set-group-ID.
_SET_ID: Final = 0o6000
_CREATES: Final = 0o100 | 0o20000000  # O_CREAT, __O_TMPFILE: without them the mode is whatever the register held


def _no_set_id(mode: int) -> Step:
    return _unless(mode, 0, mask=_SET_ID)


def _open(flags: int) -> tuple[Step, ...]:
    return _among(flags, 0, mask=_CREATES, outcome=ALLOW), _no_set_id(flags + 1)


def _make_node(mode: int) -> tuple[Step, ...]:
    # Regular (0 too), FIFO, socket. A character device 0:0 needs no privilege and is a whiteout to overlayfs.
    return _unless(mode, 0, 0o100000, 0o010000, 0o140000, mask=0o170000), _no_set_id(mode)


# Init is process 1 and has the guest's uid, so these would reach it (the deadline that init keeps could be starved, or its
# limits lowered until it dies). 0 is the caller itself.
_NOT_INIT: Final = _among(0, 1)
# With RLIMIT_CORE at 1 no crash starts a helper of the host's (request.py says why); with another value it would. Programs that
# lower it to 0 (ssh-agent, gpg, sudo) give up when they may not, so they are told that they did.
_RLIMIT_CORE: Final = 4
_SCHED_RESET_ON_FORK: Final = 0x40000000
_ORDINARY: Final = (0, 3, 5)  # SCHED_OTHER, SCHED_BATCH, SCHED_IDLE: the caller's RLIMIT_RTPRIO may permit more

# prctl: what programs ask for. Anything else is answered with EINVAL, as by a kernel that does not have it, so that callers
# fall back: SET_SECCOMP (a guest's filter is code for the kernel's JIT), PTRACER, MM, TSC, IO_FLUSHER, SYSCALL_USER_DISPATCH,
# SCHED_CORE, SPECULATION_CTRL (set), TASK_PERF_EVENTS, MCE_KILL, SECUREBITS (set).
PRCTL_OPTIONS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "PR_SET_PDEATHSIG": 1,
        "PR_GET_PDEATHSIG": 2,
        "PR_GET_DUMPABLE": 3,
        "PR_SET_DUMPABLE": 4,
        "PR_GET_KEEPCAPS": 7,
        "PR_SET_KEEPCAPS": 8,
        "PR_SET_NAME": 15,
        "PR_GET_NAME": 16,
        "PR_GET_SECCOMP": 21,
        "PR_CAPBSET_READ": 23,
        "PR_CAPBSET_DROP": 24,
        "PR_GET_SECUREBITS": 27,
        "PR_SET_TIMERSLACK": 29,
        "PR_GET_TIMERSLACK": 30,
        "PR_SET_CHILD_SUBREAPER": 36,
        "PR_GET_CHILD_SUBREAPER": 37,
        "PR_SET_NO_NEW_PRIVS": 38,
        "PR_GET_NO_NEW_PRIVS": 39,
        "PR_GET_TID_ADDRESS": 40,
        "PR_SET_THP_DISABLE": 41,
        "PR_GET_THP_DISABLE": 42,
        "PR_CAP_AMBIENT": 47,
        "PR_SVE_SET_VL": 50,
        "PR_SVE_GET_VL": 51,
        "PR_GET_SPECULATION_CTRL": 52,
        "PR_PAC_RESET_KEYS": 54,
        "PR_SET_TAGGED_ADDR_CTRL": 55,
        "PR_GET_TAGGED_ADDR_CTRL": 56,
        "PR_PAC_SET_ENABLED_KEYS": 60,
        "PR_PAC_GET_ENABLED_KEYS": 61,
        "PR_SME_SET_VL": 63,
        "PR_SME_GET_VL": 64,
        "PR_SET_MDWE": 65,
        "PR_GET_MDWE": 66,
        "PR_GET_AUXV": 0x41555856,
        "PR_SET_VMA": 0x53564D41,
    }
)

CHECKED: Final[Mapping[str, tuple[Step, ...]]] = MappingProxyType(
    {
        # Flags are longs here; no bit of the upper half has a meaning yet. clone's low byte is a signal, none of which is 0x80.
        "clone": (_unless(0, 0, high=True), _unless(0, 0, mask=NEW_NAMESPACE)),
        "unshare": (_unless(0, 0, high=True), _unless(0, 0, mask=~_UNSHARE & 0xFFFFFFFF)),
        "ioctl": (_among(1, 0x5412, 0x541C),),  # TIOCSTI, TIOCLINUX
        "socket": _SOCKET,
        "socketpair": _SOCKET,
        "personality": (_unless(0, 0xFFFFFFFF),),
        "prctl": (_unless(0, *PRCTL_OPTIONS.values(), outcome=EINVAL),),
        "open": _open(1),
        "openat": _open(2),
        "creat": (_no_set_id(1),),
        "chmod": (_no_set_id(1),),
        "fchmod": (_no_set_id(1),),
        "fchmodat": (_no_set_id(2),),
        "fchmodat2": (_no_set_id(2),),
        "mknod": _make_node(1),
        "mknodat": _make_node(2),
        "setrlimit": (_among(0, _RLIMIT_CORE, outcome=IGNORE),),
        "prlimit64": (
            _NOT_INIT,
            _unless(1, _RLIMIT_CORE, outcome=ALLOW),
            _unless(2, 0, outcome=IGNORE),  # a new value; without one it is read
            _unless(2, 0, outcome=IGNORE, high=True),
        ),
        "sched_setaffinity": (_NOT_INIT,),
        "sched_setparam": (_NOT_INIT,),
        "sched_setscheduler": (_NOT_INIT, _unless(1, *_ORDINARY, mask=~_SCHED_RESET_ON_FORK & 0xFFFFFFFF)),
        # PRIO_USER and IOPRIO_WHO_USER mean everybody with the guest's uid, init included.
        "setpriority": (_among(0, 2), _among(1, 1)),
        "ioprio_set": (_among(0, 3), _among(1, 1)),
    }
)

# Decided against, by reason. The filter does not need this table (a name that is nowhere is refused); tests and readers do.
REFUSED: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: tuple(calls.split())
        for name, calls in {
            "the mount family, old and new": """
                mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
                mount_setattr statmount listmount setns listns""",
            "large kernel surfaces that few programs need": """
                io_uring_setup io_uring_enter io_uring_register io_setup io_destroy io_submit io_cancel io_getevents
                io_pgetevents bpf userfaultfd perf_event_open seccomp fanotify_init fanotify_mark vmsplice
                remap_file_pages modify_ldt memfd_secret""",
            "other processes' memory, descriptors and state": """
                ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp
                get_robust_list""",
            "keyrings, which are not in a namespace": "keyctl add_key request_key",
            "the machine: modules, clocks, swap, quota, ports, logs, names, power": """
                init_module finit_module delete_module create_module query_module get_kernel_syms kexec_load
                kexec_file_load settimeofday clock_settime clock_adjtime adjtimex swapon swapoff quotactl quotactl_fd
                iopl ioperm acct syslog vhangup reboot sethostname setdomainname lookup_dcookie nfsservctl""",
            "file handles pass by the tree that the guest was given": "name_to_handle_at open_by_handle_at",
            "flush the host's disks, also those only shown read-only": "sync syncfs",
            # All of it, so that libnuma finds no NUMA and turns itself off; OpenBLAS and the JVM ignore the answer.
            "NUMA placement": """
                mbind get_mempolicy set_mempolicy set_mempolicy_home_node migrate_pages move_pages""",
            "real-time scheduling; its policy is in memory": "sched_setattr",
            "obsolete": "uselib ustat sysfs _sysctl",
        }.items()
    }
)

ALLOWED: Final = frozenset(name for calls in GROUPS.values() for name in calls)
