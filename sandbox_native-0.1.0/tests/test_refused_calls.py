"""Refused calls in words (sandbox_native/refused_calls.py): their arguments, why, and the field that would permit them."""

from __future__ import annotations

import pytest

from sandbox_native import Denial, seccomp, syscalls
from sandbox_native.refused_calls import Noted, denial_of, field_text, open_flags

EPERM, ENOSYS, EAFNOSUPPORT = 1, 38, 97
CREATES_SET_ID = (0, 0, 0o101, 0o4755, 0, 0)


def noted(name: str | None, *arguments: int, error: int | None = EPERM, path: str = "", other: str = "", word: str = "") -> Noted:
    values = (*arguments, *[0] * (6 - len(arguments)))
    return Noted(name=name, number=9, error=error, count=3, arguments=values, path=path, other=other, word=word)


@pytest.mark.parametrize(
    "call,words",
    [
        (noted("socket", 16, 3 | 0o2000000, 0), "AF_NETLINK, SOCK_RAW, NETLINK_ROUTE"),
        (noted("socket", 16, 2, 16), "AF_NETLINK, SOCK_DGRAM, NETLINK_GENERIC"),
        (noted("socket", 17 | 1 << 32, 3, 0x300), "AF_PACKET, SOCK_RAW, 0x300"),
        (noted("socket", 2, 1, 132), "AF_INET, SOCK_STREAM, IPPROTO_SCTP"),
        (noted("socketpair", 99, 1, 0), "0x63, SOCK_STREAM"),
        (noted("clone", 0x10000000 | 0x20000 | 17), "CLONE_NEWNS|CLONE_NEWUSER"),
        (noted("unshare", 0x40000000 | 1 << 40), "CLONE_NEWNET|0x10000000000"),
        (noted("unshare", 0x80), "CLONE_NEWTIME"),
        (noted("prctl", 22), "PR_SET_SECCOMP"),
        (noted("prctl", 12345), "0x3039"),
        (noted("ioctl", 0, 0x5412), "TIOCSTI"),
        (noted("ptrace", 0), "PTRACE_TRACEME"),
        (noted("ptrace", 0x4206), "PTRACE_SEIZE"),
        (noted("keyctl", 11), "KEYCTL_READ"),
        (noted("seccomp", 1), "SECCOMP_SET_MODE_FILTER"),
        (noted("bpf", 5), "BPF_PROG_LOAD"),
        (noted("personality", 0x40000), "ADDR_NO_RANDOMIZE"),
        (noted("openat", *CREATES_SET_ID, path="/tmp/x"), "/tmp/x, O_WRONLY|O_CREAT, mode 4755"),
        (noted("chmod", 0, 0o2755, path="/tmp/x"), "/tmp/x, mode 2755"),
        (noted("fchmod", 5, 0o4755), "mode 4755"),
        (noted("mknod", 0, 0o20666, path="/tmp/n"), "/tmp/n, character device, mode 0666"),
        (noted("mount", path="/mnt", other="none", word="tmpfs"), "/mnt, none, tmpfs"),
        (noted("chroot", path="/tmp"), "/tmp"),
        (noted("fsopen", word="ext4"), "ext4"),
        (noted("prlimit64", 1, 7), "process 1, RLIMIT_NOFILE"),
        (noted("sched_setscheduler", 0, 0x40000001), "process 0, SCHED_FIFO"),
        (noted("setpriority", 2, 1000), "PRIO_USER, 0x3e8"),
        (noted("process_vm_readv", 1), "process 1"),
        (noted("reboot", 1, 2, 3), ""),
        (noted(None), ""),
    ],
)
def test_arguments_have_names(call: Noted, words: str) -> None:
    assert denial_of(call, ()).arguments == words


@pytest.mark.parametrize(
    "call,allow",
    [
        (noted("socket", 16, 3, 0, error=EAFNOSUPPORT), 'syscalls=["netlink"]'),
        (noted("socket", 16, 3, 9, error=EAFNOSUPPORT), None),
        (noted("socket", 17, 3, 0, error=EAFNOSUPPORT), None),
        (noted("ptrace", 16, 1), 'syscalls=["ptrace"]'),
        (noted("process_vm_readv", 1), 'syscalls=["ptrace"]'),
        (noted("prctl", 22, error=22), 'syscalls=["seccomp"]'),
        (noted("prctl", 0x59616D61, error=22), 'syscalls=["ptrace"]'),
        (noted("prctl", 35, error=22), None),
        (noted("move_pages", 0), 'syscalls=["numa"]'),
        (noted("move_pages", 1), None),
        (noted("personality", 0x40000), 'syscalls=["personality"]'),
        (noted("personality", 0x400000), None),
        (noted("sync"), 'syscalls=["sync"]'),
        (noted("io_setup"), 'syscalls=["aio"]'),
        (noted("io_uring_setup"), None),
        (noted("unshare", 0x10000000), None),
        (noted("keyctl", 0), None),
        (noted("clone3", error=ENOSYS), None),
        (noted(None, error=ENOSYS), None),
    ],
)
def test_the_field_that_would_permit_it_is_named(call: Noted, allow: str | None) -> None:
    assert denial_of(call, ()).allow == allow


def test_a_group_that_the_policy_has_is_not_named_again() -> None:
    assert denial_of(noted("socket", 16, 3, 9, error=93), ("netlink",)).allow is None


@pytest.mark.parametrize(
    "call,reason",
    [
        (noted("keyctl", 0), "keyrings, which are not in a namespace"),
        (noted("clone3", error=ENOSYS), "its flags are in memory"),
        (noted("getpid", error=None), "another architecture's entry"),
        (noted(None, error=ENOSYS), "no call that this version knows"),
        (noted("socket", 16), "sockets are AF_UNIX"),
        (noted("a_call_of_the_headers_alone"), "not on the list"),
    ],
)
def test_each_has_its_reason(call: Noted, reason: str) -> None:
    assert reason in denial_of(call, ()).reason


def test_every_refusal_of_the_filter_has_a_reason_of_its_own() -> None:
    for name in (*syscalls.CHECKED, *(name for calls in syscalls.REFUSED.values() for name in calls)):
        if name != "setrlimit":  # which is never refused
            assert "not on the list" not in denial_of(noted(name), ()).reason, name


def test_a_denial_is_a_plain_value() -> None:
    found = denial_of(noted("socket", 16, 3, 0, error=EAFNOSUPPORT), ())
    assert found == Denial(
        kind="syscall",
        name="socket",
        arguments="AF_NETLINK, SOCK_RAW, NETLINK_ROUTE",
        reason="sockets are AF_UNIX, or TCP and UDP over AF_INET and AF_INET6",
        count=3,
        allow='syscalls=["netlink"]',
    )
    assert denial_of(noted(None), ()).name == "call 9"


def test_open_flags_read_as_they_are_written() -> None:
    assert open_flags(0) == "O_RDONLY"
    assert open_flags(0o2000000 | 0o100000) == "O_RDONLY"  # O_CLOEXEC, O_LARGEFILE say nothing here
    assert open_flags(0o2 | 0o100 | 0o1000) == "O_RDWR|O_CREAT|O_TRUNC"


def test_a_field_reads_as_python_and_as_toml() -> None:
    import tomllib

    text = field_text("readable", ["/a b/ü", ["/x", "/y"]])
    assert tomllib.loads(text) == {"readable": ["/a b/ü", ["/x", "/y"]]}
    assert eval(f"dict({text})") == tomllib.loads(text)


def test_the_names_are_those_of_the_filters_tables() -> None:
    assert seccomp.name_of({"ptrace": 101}, 101) == "ptrace" and "ptrace" in syscalls.OPTIONAL["ptrace"].calls
