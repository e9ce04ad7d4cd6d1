"""Filters in tests: an interpreter of the classic BPF that seccomp runs, and the real kernel's installation.

The interpreter checks what the kernel's own verifier checks (known instructions, jumps that stay inside), so a
program that it runs to the end is one that the kernel takes.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox_native._native import ffi, lib

PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 38, 22
SET_MODE_FILTER, NEW_LISTENER = 1, 8
MAX_INSTRUCTIONS = 4096

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Verdict:
    action: int  # the returned value
    steps: int  # instructions executed, the return included


def instructions(program: bytes) -> list[tuple[int, int, int, int]]:
    """(code, jt, jf, k) of each; checked."""
    assert program and len(program) % 8 == 0 and len(program) // 8 <= MAX_INSTRUCTIONS
    decoded = [struct.unpack_from("=HBBI", program, at) for at in range(0, len(program), 8)]
    for at, (code, yes, no, operand) in enumerate(decoded):
        furthest = {0x05: operand, 0x06: -1, 0x15: max(yes, no), 0x35: max(yes, no)}.get(code, 0)
        assert code in (0x20, 0x54, 0x05, 0x15, 0x35, 0x06), f"{at}: unknown code {code:#x}"
        assert at + 1 + furthest < len(decoded) or code == 0x06, f"{at}: jumps or falls out of the program"
        assert code != 0x20 or (operand % 4 == 0 and operand < 64), f"{at}: loads from outside"
    return decoded


def run(program: list[tuple[int, int, int, int]], number: int, arch: int, arguments: tuple[int, ...] = ()) -> Verdict:
    """What the filter (decoded) answers to a call; numbers may be negative, arguments are 64-bit registers."""
    registers = [value & 0xFFFFFFFFFFFFFFFF for value in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", number & 0xFFFFFFFF, arch, 0x7F0000001234, *registers)
    accumulator = at = steps = 0
    while True:
        code, yes, no, operand = program[at]
        at, steps = at + 1, steps + 1
        if code == 0x06:
            return Verdict(operand, steps)
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x05:
            at += operand
        elif code == 0x15:
            at += yes if accumulator == operand else no
        else:
            at += yes if accumulator >= operand else no


def header_numbers(include: str = "asm/unistd.h") -> dict[str, int]:
    """Name to number of every call in a kernel header, as the compiler's preprocessor sees it."""
    source = f"#include <{include}>\n"
    command = ["cc", "-dM", "-E", "-x", "c", "-"]
    output = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    macros = dict(line.split(maxsplit=2)[1:] for line in output.splitlines() if len(line.split()) > 2)
    numbers = {}
    for macro, value in macros.items():
        if macro.startswith("__NR_"):
            while value in macros:  # asm-generic: __NR_lseek is __NR3264_lseek is 62
                value = macros[value]
            numbers[macro.removeprefix("__NR_")] = int(value)
    return numbers


def built_numbers() -> dict[str, int]:
    """Name to number as the extension was built with, which is what the product uses."""
    table, numbers, at = lib.sn_syscalls(), {}, 0
    while table[at].name:
        numbers[ffi.string(table[at].name).decode()] = table[at].number
        at += 1
    return numbers


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install(program: bytes) -> None:
    """For the rest of this process; OSError when the kernel refuses it."""
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.prctl(PR_SET_SECCOMP, 2, ctypes.byref(_Program(len(program) // 8, program)), 0, 0))


def install_listening(program: bytes, seccomp_number: int) -> int:
    """The descriptor on which the calls that the filter hands over arrive."""
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    whole = _Program(len(program) // 8, program)
    return _checked(libc.syscall(ctypes.c_long(seccomp_number), SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(whole)))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(number: int, *arguments: int) -> tuple[int, int]:
    """(result, errno) of a system call, its arguments whole registers."""
    ctypes.set_errno(0)
    result = libc.syscall(*(ctypes.c_long(value) for value in (number, *arguments)))
    return result, ctypes.get_errno() if result == -1 else 0


def in_child(action: Callable[[], Any]) -> tuple[Any, int]:
    """Runs it in a forked child: what it returned (as JSON carries it; None when it did not return), and the wait status."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, json.dumps(action()).encode())
            os._exit(0)
        except OSError as problem:
            print(problem, file=sys.stderr)
        finally:
            os._exit(99)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read()
    _, status = os.waitpid(pid, 0)
    return (json.loads(answer) if answer else None), status


def run_filtered(argv: list[str], program: bytes, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A real program under the filter, which it gets just before exec."""
    return subprocess.run(argv, capture_output=True, text=True, preexec_fn=lambda: install(program), env=env, timeout=60)
