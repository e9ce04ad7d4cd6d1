"""What each group of `Policy.syscalls` opens, by a guest that uses it, and that it stays within the box."""

from __future__ import annotations

import pytest
from bpf import built_numbers
from running import PYTHON

from sandbox_native import Limits, Policy, PolicyError, Sandbox, syscalls

NUMBERS = built_numbers()
EPERM, EINVAL, EAFNOSUPPORT, EPROTONOSUPPORT = 1, 22, 97, 93

pytestmark = pytest.mark.kernel

# `call(NAME, …)` is the errno of a raw call, 0 where it worked.
HEAD = f"""
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {NUMBERS!r}
def call(name, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(*(ctypes.c_long(value) if isinstance(value, int) else value for value in (NUMBERS[name], *arguments)))
    return ctypes.get_errno() if result == -1 else 0
def opened(family, kind, protocol):
    try:
        socket.socket(family, kind, protocol).close()
    except OSError as error:
        return error.errno
    return 0
word = ctypes.c_ulong()
byte = (ctypes.c_uint64 * 2)(ctypes.addressof(word), 1)  # struct iovec
"""
USES = {
    "aio": ("call('io_setup', 1, ctypes.byref(word))", EPERM),
    "netlink": ("opened(16, 3, 0)", EAFNOSUPPORT),
    "numa": ("call('get_mempolicy', None, None, 0, None, 0)", EPERM),
    "personality": ("call('personality', 0x40000)", EPERM),
    "ptrace": ("call('kcmp', os.getpid(), os.getpid(), 0, 0, 0)", EPERM),
    "seccomp": ("call('seccomp', 2, 0, ctypes.byref(ctypes.c_uint32(0x7FFF0000)))", EPERM),
    "sync": ("call('sync')", EPERM),
}


def said(groups: list[str], expression: str) -> str:
    with Sandbox(Policy.strict(syscalls=groups), Limits(wall_seconds=20)) as sandbox:
        result = sandbox.run([PYTHON, "-I", "-S", "-c", f"{HEAD}print({expression})"])
    assert result.ok, result.stderr
    return result.text.strip()


def test_every_group_is_used_here() -> None:
    assert set(USES) == set(syscalls.OPTIONAL)


@pytest.mark.parametrize("group", sorted(syscalls.OPTIONAL))
def test_a_group_opens_what_is_refused_without_it(group: str) -> None:
    expression, refused = USES[group]
    assert said([], expression) == str(refused)
    assert said([group], expression) == "0"


def test_netlink_shows_the_boxs_own_interfaces() -> None:
    assert said(["netlink"], "socket.if_nameindex()") == "[(1, 'lo')]"
    assert said(["netlink"], "[opened(16, 3, protocol) for protocol in (4, 9, 12, 15, 16)]") == str([EPROTONOSUPPORT] * 5)


TRACED = """
pid = os.fork()
if pid == 0:
    call('ptrace', 0, 0, 0, 0)
    os.kill(os.getpid(), 19)
    os._exit(0)
stopped = os.WIFSTOPPED(os.waitpid(pid, 0)[1])
print(stopped, call('ptrace', 7, pid, 0, 0), os.waitpid(pid, 0)[1])
"""


def test_ptrace_is_for_the_boxs_processes() -> None:
    with Sandbox(Policy.strict(syscalls=["ptrace"]), Limits(wall_seconds=20)) as sandbox:
        result = sandbox.run([PYTHON, "-I", "-S", "-c", HEAD + TRACED])
    assert (result.text, result.stderr) == ("True 0 0\n", b"")


def test_init_stays_out_of_reach_of_ptrace() -> None:
    attempts = (
        *("call('ptrace', 16, 1, 0, 0)", "call('ptrace', 0x4206, 1, 0, 0)"),  # attach, seize
        "call('process_vm_readv', 1, byte, 1, byte, 1, 0)",
        "call('process_vm_writev', 1, byte, 1, byte, 1, 0)",
        *("call('kcmp', 1, os.getpid(), 0, 0, 0)", "call('pidfd_getfd', os.pidfd_open(1), 0, 0)"),
        "call('get_robust_list', 1, ctypes.byref(word), ctypes.byref(word))",
    )
    assert said(["ptrace"], f"[{', '.join(attempts)}]") == str([EPERM] * len(attempts))
    assert said(["ptrace"], "call('process_vm_readv', os.getpid(), byte, 1, byte, 1, 0)") == "0"


def test_numa_moves_nobody_elses_pages() -> None:
    assert said(["numa"], "[call('move_pages', pid, 0, 0, 0, 0, 0) for pid in (0, 1, os.getpid())]") == f"[0, {EPERM}, {EPERM}]"
    assert said(["numa"], "call('migrate_pages', 1, 0, 0, 0)") == str(EPERM)


def test_personality_is_no_more_than_asked() -> None:
    told = said(["personality"], "[call('personality', flag) for flag in (0x40008, 0x400000, 0x100000)]")
    assert told == f"[0, {EPERM}, {EPERM}]"


def test_a_guests_own_filter_lies_on_top_of_ours() -> None:
    allow = "(ctypes.c_uint64 * 1)(6 | 0x7FFF0000 << 32)"
    install = f"call('seccomp', 1, 0, ctypes.byref((ctypes.c_uint64 * 2)(1, ctypes.addressof(keep := {allow}))))"
    assert said(["seccomp"], f"({install}, call('keyctl', 0, 0, 0, 0, 0))") == f"(0, {EPERM})"


def test_groups_add_up() -> None:
    wanted = [USES[group][0] for group in sorted(USES)]
    assert said(sorted(USES), f"[{', '.join(wanted)}]") == str([0] * len(USES))


@pytest.mark.parametrize("groups", [["bpf"], ["NETLINK"], "netlink", ["netlink", "netlink"]])
def test_a_name_that_is_no_group_is_refused(groups: object) -> None:
    with pytest.raises(PolicyError, match="syscalls"):
        Policy.strict(syscalls=groups)  # type: ignore[arg-type]
