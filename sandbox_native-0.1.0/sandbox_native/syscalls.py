"""The system calls that a guest may make under `Policy.strict`, as data.

seccomp.py compiles this into the filter; nothing here touches the operating system. A name counts on every
architecture that has it; the numbers come from the build's headers. What is in no table here is known to the headers and
refused (EPERM), or unknown to them and absent (ENOSYS), so a call of a later kernel is closed until it gets a line here.

What depends on arguments is in syscall_checks.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from sandbox_native.syscall_checks import ALLOW, ENOSYS, EPERM, EPROTONOSUPPORT, Step, among, unless
from sandbox_native.syscall_checks import CHECKED as CHECKED
from sandbox_native.syscall_checks import PRCTL_OPTIONS as PRCTL_OPTIONS

GROUPS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        name: tuple(calls.split())
        for name, calls in {
            "descriptors": """
                read write readv writev pread64 pwrite64 preadv pwritev preadv2 pwritev2 lseek close close_range
                dup dup2 dup3 flock pipe pipe2 sendfile splice tee copy_file_range
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

# Permitted calls with paths. Where refused calls are explained these are looked at too, since the kernel may refuse what the path
# leads to; the steps say when there is none: AT_EMPTY_PATH, for the descriptor itself.
_AT_EMPTY_PATH: Final = 0x1000


_WITH_PATHS: Final = """
    open openat creat stat lstat access faccessat readlink readlinkat chdir statfs truncate
    mkdir mkdirat rmdir unlink unlinkat rename renameat renameat2 link linkat symlink symlinkat mknod mknodat
    chmod fchmodat fchmodat2 chown lchown utimensat execve execveat connect bind"""


def _on_descriptor(flags: int) -> tuple[Step, ...]:
    return (unless(flags, 0, mask=_AT_EMPTY_PATH, outcome=ALLOW),)


WITH_PATHS: Final[Mapping[str, tuple[Step, ...]]] = MappingProxyType(
    {
        **dict.fromkeys(_WITH_PATHS.split(), ()),
        "newfstatat": _on_descriptor(3),
        "statx": _on_descriptor(2),
        "faccessat2": _on_descriptor(3),
        "fchownat": _on_descriptor(4),
    }
)

ALLOWED: Final = frozenset(name for calls in GROUPS.values() for name in calls)


# ---- what a policy may permit in addition ----


@dataclass(frozen=True, kw_only=True)
class Group:
    """`opens` says what it costs in safety; `calls` are permitted, `checked` are steps that come before those of CHECKED."""

    opens: str
    calls: tuple[str, ...] = ()
    checked: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)


_AF_NETLINK, _NETLINK_ROUTE = 16, 0
_PR_SET_SECCOMP, _PR_SET_PTRACER = 22, 0x59616D61
_ADDR_NO_RANDOMIZE, _PER_LINUX32 = 0x40000, 8

# Decided against, whatever a policy says: io_uring (its operations pass by every filter), new user namespaces (with their
# capabilities most of the kernel is in reach), bpf, perf_event_open, userfaultfd (large surfaces), keys (shared by all runs),
# raw and packet sockets (they need a capability), real-time scheduling (could starve init).
OPTIONAL: Final[Mapping[str, Group]] = MappingProxyType(
    {
        "aio": Group(
            opens="libaio's asynchronous files; what they take is counted for the whole host (fs.aio-max-nr)",
            calls=("io_setup", "io_destroy", "io_submit", "io_cancel", "io_getevents", "io_pgetevents"),
        ),
        "netlink": Group(
            opens="NETLINK_ROUTE sockets, to ask for the box's own interfaces and addresses (getifaddrs, ip, node)",
            checked={"socket": (among(0, _AF_NETLINK, then=(unless(2, _NETLINK_ROUTE, outcome=EPROTONOSUPPORT),)),)},
        ),
        "numa": Group(
            opens="placing its own memory on NUMA nodes, which can fill one that others need",
            calls=("mbind", "get_mempolicy", "set_mempolicy", "set_mempolicy_home_node"),
            checked={"move_pages": (unless(0, 0),), "migrate_pages": (unless(0, 0),)},  # only the caller's own
        ),
        "personality": Group(
            opens="addresses that are not random, and uname of a 32-bit machine (setarch, gdb, the thread sanitizer)",
            checked={
                "personality": (among(0, *(a | b for a in (0, _ADDR_NO_RANDOMIZE) for b in (0, _PER_LINUX32)), outcome=ALLOW),)
            },
        ),
        "ptrace": Group(
            opens="debuggers, strace and the leak sanitizer: the box's processes may trace and read one another, but not init",
            calls=("ptrace", "process_vm_readv", "process_vm_writev", "kcmp", "pidfd_getfd", "get_robust_list"),
            checked={"prctl": (among(0, _PR_SET_PTRACER, outcome=ALLOW),)},
        ),
        "seccomp": Group(
            opens="filters of its own on top of ours (browsers, OpenSSH, file): code of the guest's for the kernel's compiler",
            calls=("seccomp",),
            checked={"prctl": (among(0, _PR_SET_SECCOMP, outcome=ALLOW),)},
        ),
        "sync": Group(opens="flushing all of the host's disks, which everybody on it waits for", calls=("sync", "syncfs")),
    }
)


def permitted(groups: Iterable[str] = ()) -> frozenset[str]:
    """The calls that need no check. KeyError for a name that is no group's."""
    return ALLOWED.union(*(OPTIONAL[name].calls for name in groups))


def checks(groups: Iterable[str] = ()) -> Mapping[str, tuple[Step, ...]]:
    """The steps of each call that is checked. KeyError for a name that is no group's."""
    found = dict(CHECKED)
    for name in groups:
        for call, steps in OPTIONAL[name].checked.items():
            found[call] = (*steps, *found.get(call, ()))
    return found


def outcome(name: str | None, arguments: Sequence[int], groups: Iterable[str] = ()) -> int:
    """What a call is answered with: ALLOW, IGNORE or an errno. None: one that the headers do not know."""
    groups = tuple(groups)
    steps = checks(groups).get(name or "")
    if steps is not None:
        return _first(steps, arguments)
    if name in permitted(groups):
        return ALLOW
    return ENOSYS if name is None or name in ABSENT else EPERM


def _first(steps: Sequence[Step], arguments: Sequence[int]) -> int:
    for step in steps:
        if step.applies(arguments):
            return _first(step.then, arguments) if step.then else step.outcome
    return ALLOW
