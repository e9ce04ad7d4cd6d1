"""The tables of sandbox_native/syscalls.py: that they agree with each other and say what was decided."""

from __future__ import annotations

from collections import Counter

import bpf

from sandbox_native import seccomp, syscall_checks, syscalls
from sandbox_native._native import lib

NAMED = Counter([name for calls in syscalls.GROUPS.values() for name in calls] + list(syscalls.CHECKED) + list(syscalls.ABSENT))
REFUSED = Counter(name for calls in syscalls.REFUSED.values() for name in calls)

# Between the filter's installation and exec in the guest, and what glibc, musl, Go, the JVM and node cannot start without.
INDISPENSABLE = """
    unshare close_range dup3 fcntl close rt_sigprocmask chdir execve execveat exit_group
    brk mmap munmap mprotect mremap madvise futex rseq set_robust_list set_tid_address arch_prctl prlimit64 getrandom clone
    rt_sigaction rt_sigreturn sigaltstack sched_getaffinity sched_yield gettid tgkill epoll_create1 epoll_ctl epoll_pwait
    eventfd2 pipe2 nanosleep clock_gettime membarrier wait4 waitid statx newfstatat faccessat2 readlinkat pidfd_open"""

DANGEROUS = """
    io_uring_setup bpf userfaultfd perf_event_open keyctl add_key request_key mount umount2 fsopen move_mount open_tree
    mount_setattr ptrace process_vm_readv process_vm_writev init_module finit_module kexec_load clock_settime settimeofday
    adjtimex swapon quotactl iopl ioperm setns pivot_root chroot seccomp name_to_handle_at open_by_handle_at acct vhangup syslog
    nfsservctl lookup_dcookie kcmp pidfd_getfd memfd_secret fanotify_init reboot"""

# Calls of kernels that this machine's headers may not know yet.
LATER = """
    cachestat fchmodat2 map_shadow_stack futex_wake futex_wait futex_requeue statmount listmount mseal setxattrat getxattrat
    listxattrat removexattrat open_tree_attr uretprobe uprobe listns rseq_slice_yield"""


def test_each_name_has_one_place() -> None:
    assert {name: count for name, count in (NAMED + REFUSED).items() if count > 1} == {}


def test_what_programs_need_is_there() -> None:
    assert set(INDISPENSABLE.split()) - syscalls.ALLOWED - set(syscalls.CHECKED) == set()


def test_every_name_is_a_call_of_the_headers_or_of_a_later_kernel() -> None:
    known = set(bpf.header_numbers()) | set(bpf.header_numbers("asm-generic/unistd.h")) | set(LATER.split())
    assert set(NAMED + REFUSED) - known == set()


def test_what_the_threat_model_excludes_is_refused() -> None:
    assert set(DANGEROUS.split()) - set(REFUSED) == set()
    assert set(DANGEROUS.split()) & set(NAMED) == set()


def test_steps_look_at_arguments_that_exist_and_values_within_their_mask() -> None:
    for name, steps in syscalls.CHECKED.items():
        for step in steps:
            assert 0 <= step.arg < 6 and step.values, name
            assert all(value & ~step.mask == 0 for value in step.values), name
            assert 0 <= step.outcome < 4096 or step.outcome == syscall_checks.IGNORE, name


def test_a_new_namespace_is_any_of_the_eight_flags() -> None:
    assert syscall_checks.NEW_NAMESPACE.bit_count() == 8


# ---- groups that a policy may add, and calls with paths ----


def test_each_group_says_what_it_opens() -> None:
    for name, group in syscalls.OPTIONAL.items():
        assert group.opens and (group.calls or group.checked), name
        assert set(group.calls) <= set(REFUSED), name
        assert not set(group.calls) & set(group.checked), name


def test_what_is_decided_against_is_in_no_group() -> None:
    offered = {call for group in syscalls.OPTIONAL.values() for call in (*group.calls, *group.checked)}
    assert not offered & {
        "io_uring_setup",
        "bpf",
        "userfaultfd",
        "perf_event_open",
        "mount",
        "setns",
        "keyctl",
        "clone",
        "unshare",
    }


def test_calls_with_paths_are_permitted_ones() -> None:
    assert set(syscalls.WITH_PATHS) <= syscalls.ALLOWED | set(syscalls.CHECKED)


def test_the_outcome_is_the_filters_answer() -> None:
    for groups in ((), tuple(syscalls.OPTIONAL)):
        decoded = bpf.instructions(seccomp.filter_bytes(bpf.built_numbers(), lib.sn_audit_arch(), groups=groups))
        for name, number in bpf.built_numbers().items():
            for value in (0, 1, 2, 16, 22, 0x40000, 0o4755, 0xFFFFFFFF, 1 << 32):
                action = bpf.run(decoded, number, lib.sn_audit_arch(), (value,) * 6).action
                outcome = syscalls.outcome(name, (value,) * 6, groups)
                expected = {syscall_checks.ALLOW: seccomp.RET_ALLOW, syscall_checks.IGNORE: seccomp.RET_ERRNO}
                assert action == expected.get(outcome, seccomp.RET_ERRNO | outcome), (name, value)
    assert syscalls.outcome(None, (0,) * 6) == syscall_checks.ENOSYS
