"""The filter of sandbox_native/seccomp.py: every answer, by the interpreter of bpf.py. test_seccomp_kernel.py has the kernel's.

The expected answers are written here a second time, from what each call means, and not taken from the tables.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import bpf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native import seccomp, syscalls
from sandbox_native._native import lib
from sandbox_native.seccomp import AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64, RET_ALLOW, RET_KILL_PROCESS, RET_USER_NOTIF

I386, ARM = 0x40000003, 0x40000028
EPERM, EINVAL, ENOTTY, ENOSYS, EPROTO, ESOCKT, EAF = (0x50000 | number for number in (1, 22, 25, 38, 93, 94, 97))
IGNORED = 0x50000
X32 = 0x40000000

NATIVE = lib.sn_audit_arch()
NUMBERS = bpf.built_numbers()
GENERIC = bpf.header_numbers("asm-generic/unistd.h")  # what aarch64 has
FILTER = seccomp.filter_bytes(NUMBERS, NATIVE)
DECODED = bpf.instructions(FILTER)
LISTENED = bpf.instructions(seccomp.filter_bytes(NUMBERS, NATIVE, end_action=RET_USER_NOTIF))

KILL_OR_ASK = pytest.mark.parametrize(
    "decoded,action", [(DECODED, RET_KILL_PROCESS), (LISTENED, RET_USER_NOTIF)], ids=["kill", "listener"]
)
Decoded = list[tuple[int, int, int, int]]


def low(value: int) -> int:
    return value & 0xFFFFFFFF


def unless(refused: bool, answer: int = EPERM) -> int:
    return answer if refused else RET_ALLOW


def socket(domain: int, kind: int, protocol: int) -> int:
    domain, kind, protocol = low(domain), kind & 15, low(protocol)
    if domain == 1:
        return RET_ALLOW
    if domain not in (2, 10):
        return EAF
    if kind not in (1, 2):
        return EPERM if kind in (3, 10) else ESOCKT
    return unless(protocol not in (0, 6, 17), EPROTO)


def node(mode: int) -> int:
    return unless((mode & 0o170000) not in (0, 0o100000, 0o10000, 0o140000) or mode & 0o6000 != 0)


def opening(flags: int, mode: int) -> int:
    return unless(bool(flags & (os.O_CREAT | 0o20000000)) and mode & 0o6000 != 0)


def namespaces(flags: int) -> int:
    return unless(flags >> 32 != 0 or flags & 0x7E020080 != 0)


def prlimit(pid: int, resource: int, new: int) -> int:
    return EPERM if pid == 1 else unless(resource == 4 and new != 0, IGNORED)


READS_OR_CLONES = (
    *(0x80086601, 0x80046601, 0x80087601, 0x80047601, 0x801C581F, 0xC020660B, 0xC0606610, 0xC0686611),
    *(0x40049409, 0x4020940D, 0xC0189436),
)


def asked(request: int) -> int:
    if request >> 8 & 0xFF in (*b"fvX", 0x94, 0xF5) and request not in READS_OR_CLONES:
        return ENOTTY
    return unless(request in (0x5412, 0x541C))


EXPECTED: dict[str, Callable[..., int]] = {
    "clone": lambda flags, *_: namespaces(flags),
    "unshare": lambda flags, *_: unless(flags & ~0x40600 != 0),
    "ioctl": lambda _, command, *__: asked(low(command)),
    "fcntl": lambda _, command, *__: unless(low(command) in (1024, 1026, 1040), EINVAL),
    "socket": lambda *arguments: socket(*arguments[:3]),
    "socketpair": lambda *arguments: socket(*arguments[:3]),
    "personality": lambda persona, *_: unless(low(persona) != 0xFFFFFFFF),
    "prctl": lambda option, *_: unless(low(option) not in syscalls.PRCTL_OPTIONS.values(), EINVAL),
    "open": lambda _, flags, mode, *__: opening(flags, mode),
    "openat": lambda _, __, flags, mode, *___: opening(flags, mode),
    "creat": lambda _, mode, *__: unless(mode & 0o6000 != 0),
    "chmod": lambda _, mode, *__: unless(mode & 0o6000 != 0),
    "fchmod": lambda _, mode, *__: unless(mode & 0o6000 != 0),
    "fchmodat": lambda _, __, mode, *___: unless(mode & 0o6000 != 0),
    "fchmodat2": lambda _, __, mode, *___: unless(mode & 0o6000 != 0),
    "mknod": lambda _, mode, *__: node(mode),
    "mknodat": lambda _, __, mode, *___: node(mode),
    "sched_setscheduler": lambda pid, policy, *_: unless(low(pid) == 1 or low(policy) & ~X32 not in (0, 3, 5)),
    "setpriority": lambda which, who, *_: unless(low(which) == 2 or low(who) == 1),
    "ioprio_set": lambda which, who, *_: unless(low(which) == 3 or low(who) == 1),
    **{name: lambda pid, *_: unless(low(pid) == 1) for name in ("sched_setaffinity", "sched_setparam")},
    "setrlimit": lambda resource, *_: unless(low(resource) == 4, IGNORED),
    "prlimit64": lambda pid, resource, new, *_: prlimit(low(pid), low(resource), new),
}


def expected(numbers: dict[str, int], number: int, arguments: tuple[int, ...]) -> int:
    name = seccomp.name_of(numbers, number)
    if name in EXPECTED:
        return EXPECTED[name](*arguments)
    if name is None or name in ("clone3", "openat2"):
        return ENOSYS
    return RET_ALLOW if any(name in calls for calls in syscalls.GROUPS.values()) else EPERM


def test_every_checked_call_has_an_expected_answer_here() -> None:
    assert set(EXPECTED) == set(syscalls.CHECKED)


def test_each_number_has_its_answer() -> None:
    for number in [-1, -2, *range(1025), 0x3FFFFFFF, 0x80000000, 0xBFFFFFFF]:
        for filler in (0, 1, 2, 0xFFFFFFFF, 0x1FFFFFFFF, 0xFFFFFFFFFFFFFFFF):
            arguments = (filler,) * 6
            assert bpf.run(DECODED, number, NATIVE, arguments).action == expected_on(number, arguments), (number, filler)


def expected_on(number: int, arguments: tuple[int, ...]) -> int:
    if NATIVE == AUDIT_ARCH_X86_64 and number & X32 and low(number) != 0xFFFFFFFF:
        return RET_KILL_PROCESS
    return expected(NUMBERS, number, arguments)


@pytest.mark.parametrize("name", sorted(set(EXPECTED) & set(NUMBERS)))
@given(data=st.data())
def test_arguments_decide_by_the_halves_that_the_kernel_reads(name: str, data: st.DataObject) -> None:
    constants = sorted({value for step in syscalls.CHECKED[name] for value in (*step.values, step.mask)})
    bits = [1 << bit for bit in range(32)]
    words = st.one_of(st.sampled_from([*constants, 0, 1, 2, 5, 6]), st.sampled_from(bits), st.integers(0, 0xFFFFFFFF))
    halves = st.builds(lambda high, lower: high << 32 | lower, st.sampled_from([0, 0, 1, 0x80000000, 0xFFFFFFFF]), words)
    arguments = data.draw(st.tuples(*[halves] * 6))
    assert bpf.run(DECODED, NUMBERS[name], NATIVE, arguments).action == EXPECTED[name](*arguments)


@pytest.mark.parametrize("bit", [7, 17, *range(25, 31)])
def test_no_namespace_flag_passes_with_any_others(bit: int) -> None:
    for others in (0, 17, 0x3D0F00, 0x7C0FF00, 0xFFFFFFFF):
        for call in ("clone", "unshare"):
            assert bpf.run(DECODED, NUMBERS[call], NATIVE, (1 << bit | others,)).action == EPERM


def test_no_other_socket_family_passes() -> None:
    for family in set(range(64)) - {1, 2, 10}:
        for value in (family, family | 1 << 32, family | 1 << 63):
            assert bpf.run(DECODED, NUMBERS["socket"], NATIVE, (value, 1, 0)).action == EAF, family


@KILL_OR_ASK
def test_a_foreign_architecture_ends_the_guest(decoded: Decoded, action: int) -> None:
    other_of_ours = AUDIT_ARCH_AARCH64 if NATIVE == AUDIT_ARCH_X86_64 else AUDIT_ARCH_X86_64
    for arch in (I386, ARM, 0, 0xFFFFFFFF, other_of_ours):
        for number in [*range(1025), -1, 0x40000000, 0x40000001]:
            assert bpf.run(decoded, number, arch).action == action


@pytest.mark.needs("x86_64")
@KILL_OR_ASK
def test_x32_ends_the_guest_and_minus_one_does_not(decoded: Decoded, action: int) -> None:
    for number in (*range(1025), 0x3FFFFFFF, 0x80000000, 0xBFFFFFFE):
        assert bpf.run(decoded, number | X32, NATIVE).action == action
    assert bpf.run(decoded, -1, NATIVE).action == ENOSYS
    assert bpf.run(decoded, 0x80000000, NATIVE).action == ENOSYS


@pytest.mark.parametrize("name", ["read", "write", "futex", "close", "mmap", "epoll_pwait", "newfstatat"])
def test_frequent_calls_take_few_instructions(name: str) -> None:
    assert bpf.run(DECODED, NUMBERS[name], NATIVE).steps <= 12


def test_the_filter_is_small_and_always_the_same() -> None:
    assert len(DECODED) < 300
    assert seccomp.filter_bytes(dict(reversed(NUMBERS.items())), NATIVE) == FILTER


def test_aarch64_has_the_same_answers_with_its_own_numbers() -> None:
    decoded = bpf.instructions(seccomp.filter_bytes(GENERIC, AUDIT_ARCH_AARCH64))
    for number in [-1, *range(1025), X32, X32 | 1, 0x7FFFFFFF]:
        for filler in (0, 1, 2, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
            arguments = (filler,) * 6
            answer = bpf.run(decoded, number, AUDIT_ARCH_AARCH64, arguments).action
            assert answer == expected(GENERIC, number, arguments), number


@pytest.mark.parametrize("size", [1, 2, 3, 40, 400, 1500])
def test_jumps_beyond_255_instructions_arrive(size: int) -> None:
    # Alternating answers cannot be merged, so the tree is as large as it gets.
    names = [("read", "mount", "ioctl", "openat", "socket", "prctl", "clone")[at % 7] for at in range(size)]
    ranges = [(at, seccomp._Answers().of(name)) for at, name in enumerate(names)]
    decoded = bpf.instructions(seccomp._Layout().program(seccomp._Change(0x20, 0, seccomp._halve(ranges))))
    for at, name in enumerate(names):
        wanted = EXPECTED[name](*[0] * 6) if name in EXPECTED else (RET_ALLOW if name == "read" else EPERM)
        assert bpf.run(decoded, at, NATIVE).action == wanted


def test_a_number_finds_its_name() -> None:
    assert seccomp.name_of({"read": 0, "mount": 165, "syscalls": 451}, 165) == "mount"
    assert seccomp.name_of({"read": 0, "syscalls": 451}, 451) is None
    assert seccomp.name_of({}, -1) is None


# ---- groups, and the filter that explains ----


def answers(program: bytes) -> dict[tuple[int, int], int]:
    decoded = bpf.instructions(program)
    numbers = [-1, *range(600), X32, 0x80000000]
    return {
        (number, filler): bpf.run(decoded, number, NATIVE, (filler,) * 6).action
        for number in numbers
        for filler in (0, 1, 16, 22, 0x40000, 0x59616D61, 0x1000, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF)
    }


@pytest.mark.parametrize("group", sorted(syscalls.OPTIONAL))
def test_a_group_opens_its_own_calls_and_nothing_else(group: str) -> None:
    before, after = answers(FILTER), answers(seccomp.filter_bytes(NUMBERS, NATIVE, groups=(group,)))
    changed = {seccomp.name_of(NUMBERS, number) for number, filler in before if before[number, filler] != after[number, filler]}
    opened = syscalls.OPTIONAL[group]
    assert changed == {*opened.calls, *opened.checked}
    assert all(after[call] == RET_ALLOW for call in before if before[call] != after[call] and call[1] != 16)


def test_netlink_is_route_alone() -> None:
    decoded = bpf.instructions(seccomp.filter_bytes(NUMBERS, NATIVE, groups=("netlink",)))
    for protocol in range(32):
        for kind in (2, 3, 3 | 0o2000000):
            action = bpf.run(decoded, NUMBERS["socket"], NATIVE, (16, kind, protocol)).action
            assert action == (EPROTO if protocol else RET_ALLOW)
    assert bpf.run(decoded, NUMBERS["socket"], NATIVE, (17, 3, 0)).action == EAF
    assert bpf.run(decoded, NUMBERS["socket"], NATIVE, (2, 3, 1)).action == EPERM


def test_an_unknown_group_is_refused() -> None:
    with pytest.raises(KeyError):
        seccomp.filter_bytes(NUMBERS, NATIVE, groups=("bpf",))


@pytest.mark.parametrize("groups", [(), ("netlink", "ptrace"), tuple(syscalls.OPTIONAL)])
def test_the_filter_that_explains_asks_where_the_other_refuses(groups: tuple[str, ...]) -> None:
    strict = answers(seccomp.filter_bytes(NUMBERS, NATIVE, groups=groups))
    for (number, filler), action in answers(seccomp.asking_bytes(NUMBERS, NATIVE, groups=groups)).items():
        name = seccomp.name_of(NUMBERS, number)
        if strict[number, filler] == IGNORED:
            assert action == IGNORED
        elif strict[number, filler] != RET_ALLOW:
            assert action == RET_USER_NOTIF, (name, filler)
        elif name in syscalls.WITH_PATHS:
            assert action == (RET_ALLOW if syscalls.WITH_PATHS[name] and filler & 0x1000 else RET_USER_NOTIF), (name, filler)
        else:
            assert action == RET_ALLOW, (name, filler)


def test_what_lies_between_the_filter_and_exec_is_not_asked_about() -> None:
    """The guest's first steps, while nobody may be there to answer."""
    decoded = bpf.instructions(seccomp.asking_bytes(NUMBERS, NATIVE))
    for name, arguments in (
        ("sendmsg", ()),
        ("close", ()),
        ("unshare", (0x400,)),
        ("dup3", ()),
        ("close_range", ()),
        ("prlimit64", (0, 7, 1)),
        ("rt_sigprocmask", ()),
        ("exit_group", ()),
    ):
        assert bpf.run(decoded, NUMBERS[name], NATIVE, arguments).action == RET_ALLOW, name


def test_without_a_filter_of_its_own_only_paths_are_asked_about() -> None:
    for (number, filler), action in answers(seccomp.asking_bytes(NUMBERS, NATIVE, refuses=False)).items():
        steps = syscalls.WITH_PATHS.get(seccomp.name_of(NUMBERS, number) or "")
        asks = steps is not None and not (steps and filler & 0x1000)
        assert action == (RET_USER_NOTIF if asks else RET_ALLOW)
    assert bpf.run(bpf.instructions(seccomp.allowing_bytes()), 0, I386).action == RET_ALLOW


@pytest.mark.parametrize(
    "numbers,arch,end",
    [
        ({}, NATIVE, RET_KILL_PROCESS),
        ({"read": -1}, NATIVE, RET_KILL_PROCESS),
        ({"read": X32}, NATIVE, RET_KILL_PROCESS),
        (NUMBERS, I386, RET_KILL_PROCESS),
        (NUMBERS, NATIVE, RET_ALLOW),
    ],
)
def test_nonsense_is_refused(numbers: dict[str, int], arch: int, end: int) -> None:
    with pytest.raises(ValueError):
        seccomp.filter_bytes(numbers, arch, end_action=end)
