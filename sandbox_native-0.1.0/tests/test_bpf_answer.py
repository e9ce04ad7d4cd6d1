"""csrc/launcher/bpf.c, which says for the supervisor what a filter answers: against bpf.py's interpreter and the kernel's."""

from __future__ import annotations

import ctypes
import random
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import bpf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox_native import seccomp, syscalls
from sandbox_native._native import lib
from sandbox_native.seccomp import RET_ALLOW, RET_KILL_PROCESS, RET_USER_NOTIF

ROOT = Path(__file__).parent.parent
NUMBERS = bpf.built_numbers()
NATIVE = lib.sn_audit_arch()
I386 = 0x40000003
REFUSES = 0x50001  # EPERM: what is no program of ours
FILTERS = [
    seccomp.filter_bytes(NUMBERS, NATIVE),
    seccomp.filter_bytes(NUMBERS, NATIVE, end_action=RET_USER_NOTIF),
    seccomp.filter_bytes(NUMBERS, NATIVE, groups=tuple(syscalls.OPTIONAL)),
    seccomp.asking_bytes(NUMBERS, NATIVE),
    seccomp.allowing_bytes(),
]
Answer = Callable[[bytes, int, int, tuple[int, ...]], tuple[int, int]]

pytestmark = pytest.mark.needs("cc")


@pytest.fixture(scope="session")
def answer(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """What bpf.c says of a call: the action, and the bits of the arguments that were looked at."""
    library = tmp_path_factory.mktemp("bpf") / "bpf.so"
    source = ROOT / "csrc/launcher/bpf.c"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", f"-I{ROOT / 'csrc'}"]
    subprocess.run(["cc", *flags, str(source), "-o", str(library)], check=True)
    run = ctypes.CDLL(str(library)).bpf_answer
    run.restype = ctypes.c_uint32

    def ask(program: bytes, number: int, arch: int, arguments: tuple[int, ...]) -> tuple[int, int]:
        read = ctypes.c_uint32()
        call = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, arch, 0x7F0000001234, *arguments)
        return run(program, len(program) // 8, call, ctypes.byref(read)), read.value

    return ask


EDGES = sorted({value for steps in syscalls.checks(syscalls.OPTIONAL).values() for step in steps for value in step.values})
WORDS = st.one_of(st.sampled_from(EDGES), st.sampled_from([1 << bit for bit in range(32)]), st.integers(0, 0xFFFFFFFF))
HALVES = st.builds(lambda high, low: high << 32 | low, st.sampled_from([0, 0, 1, 0xFFFFFFFF]), WORDS)
CALLS = st.one_of(st.sampled_from(sorted(NUMBERS.values())), st.integers(-2, 0xFFFFFFFF))


@settings(max_examples=2000, deadline=None)
@given(number=CALLS, arch=st.sampled_from([NATIVE, NATIVE, NATIVE, I386, 0]), arguments=st.tuples(*[HALVES] * 6))
def test_it_answers_as_the_reference_does(answer: Answer, number: int, arch: int, arguments: tuple[int, ...]) -> None:
    for program in FILTERS:
        expected = bpf.run(bpf.instructions(program), number, arch, arguments).action
        assert answer(program, number, arch, arguments)[0] == expected


def test_every_number_is_answered_as_by_the_reference(answer: Answer) -> None:
    for program in FILTERS:
        decoded = bpf.instructions(program)
        for number in [-1, -2, *range(1025), 0x3FFFFFFF, 0x40000000, 0x80000000]:
            for filler in (0, 1, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
                arguments = (filler,) * 6
                assert answer(program, number, NATIVE, arguments)[0] == bpf.run(decoded, number, NATIVE, arguments).action


def test_the_arguments_that_decided_are_told(answer: Answer) -> None:
    seen = [
        answer(FILTERS[0], NUMBERS[name], NATIVE, arguments)[1]
        for name, arguments in (
            ("keyctl", (0,) * 6),
            ("socket", (16, 3, 0, 0, 0, 0)),
            ("socket", (2, 1, 132, 0, 0, 0)),
            ("ioctl", (0, 0x5412, 0, 0, 0, 0)),
            ("clone", (0x10000000, 0, 0, 0, 0, 0)),
        )
    ]
    assert seen == [0, 1, 0b111, 0b10, 1]


RETURN, JUMP, LOAD, EQUAL, AND = 0x06, 0x05, 0x20, 0x15, 0x54


@pytest.mark.parametrize(
    "program",
    [
        [],
        [(LOAD, 0, 0, 0)],  # falls out
        [(JUMP, 0, 0, 0xFFFFFFFF), (RETURN, 0, 0, RET_ALLOW)],
        [(JUMP, 0, 0, 1), (RETURN, 0, 0, RET_ALLOW)],
        [(EQUAL, 255, 255, 0), (RETURN, 0, 0, RET_ALLOW)],
        [(LOAD, 0, 0, 64), (RETURN, 0, 0, RET_ALLOW)],  # beyond the call
        [(LOAD, 0, 0, 61), (RETURN, 0, 0, RET_ALLOW)],
        [(LOAD, 0, 0, 0xFFFFFFFC), (RETURN, 0, 0, RET_ALLOW)],
        [(0x04, 0, 0, 1), (RETURN, 0, 0, RET_ALLOW)],  # an addition, which none of ours has
        [(0x16, 0, 0, 0), (RETURN, 0, 0, RET_ALLOW)],  # returns the accumulator
    ],
)
def test_what_is_no_program_of_ours_refuses(answer: Answer, program: list[tuple[int, int, int, int]]) -> None:
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    assert answer(code, 0, NATIVE, (0,) * 6)[0] == REFUSES


# ---- the kernel's own ----

MARK, ALLOWED, ENDED = 0x5EED, 200, 201  # the sixth argument of a call that is only asked about; errnos of no call's


def told_apart(program: bytes) -> bytes:
    """The filter for calls whose sixth argument is MARK, with errnos in place of what would let them through or end us."""
    instead = {RET_ALLOW: 0x50000 | ALLOWED, RET_KILL_PROCESS: 0x50000 | ENDED, 0x50000: 0x50000 | ALLOWED}
    code = [
        (code, yes, no, instead.get(operand, operand) if code == RETURN else operand)
        for code, yes, no, operand in bpf.instructions(program)
    ]
    first = [(LOAD, 0, 0, 16 + 5 * 8), (EQUAL, 1, 0, MARK), (RETURN, 0, 0, RET_ALLOW)]
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in (*first, *code))


@pytest.mark.kernel
def test_the_kernel_answers_the_same(answer: Answer) -> None:
    chance = random.Random(20)
    numbers = [*NUMBERS.values(), 9999, 1000]
    words = [*EDGES, *range(64), *(1 << bit for bit in range(32))]
    calls = []
    for _ in range(4000):
        arguments = [chance.choice([0, 0, 1, 0xFFFFFFFF]) << 32 | chance.choice(words) for _ in range(5)]
        calls.append((chance.choice(numbers), (*arguments, MARK)))
    program = FILTERS[2]
    wanted = []
    for number, arguments in calls:
        action = answer(program, number, NATIVE, arguments)[0]
        wanted.append({RET_ALLOW: ALLOWED, RET_KILL_PROCESS: ENDED, 0x50000: ALLOWED}.get(action, action & 0xFFFF))

    def ask() -> list[int]:
        bpf.install(told_apart(program))
        return [bpf.call(number, *arguments)[1] for number, arguments in calls]

    told, status = bpf.in_child(ask)
    assert status == 0
    assert told == wanted
