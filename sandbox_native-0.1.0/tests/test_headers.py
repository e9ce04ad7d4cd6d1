"""Headers of programs: ELF files of any machine, and interpreter lines as the kernel reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from elves import AARCH64, REL, S390, X86_64, elf, foreign
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.headers import SIZE, read_elf, read_script


@pytest.mark.parametrize(
    ("data", "machine", "said"),
    [
        (elf(X86_64), "x86_64", None),
        (elf(3, bits=32), "x86_64", None),  # whether the kernel runs it is its own to say
        (elf(AARCH64), "aarch64", None),
        (elf(AARCH64), "x86_64", "for aarch64, and this machine is x86_64"),
        (elf(X86_64), "aarch64", "for x86_64, and this machine is aarch64"),
        (elf(40, bits=32), "x86_64", "for 32-bit ARM"),
        (elf(243), "x86_64", "for 64-bit RISC-V"),
        (elf(243, bits=32), "x86_64", "for 32-bit RISC-V"),
        (elf(X86_64, bits=32), "aarch64", "for x86_64 with 32-bit pointers (x32)"),
        (foreign(), "x86_64", "for 64-bit IBM S/390, big-endian"),
        (elf(S390, big_endian=True), "s390x", None),
        (elf(AARCH64, big_endian=True), "aarch64", "for aarch64, big-endian"),
        (elf(7777), "x86_64", "for 64-bit machine 7777 of the ELF list"),
        (elf(X86_64, kind=REL), "x86_64", "it is an object file that was not linked"),
        (elf(X86_64, kind=4), "x86_64", "it is a core dump"),
        (elf(7777), "a machine that nobody knows", None),
    ],
)
def test_a_foreign_elf_is_told_by_what_it_is_for(data: bytes, machine: str, said: str | None) -> None:
    found = read_elf(data)
    assert found is not None
    refusal = found.refusal(machine)
    assert refusal is None if said is None else refusal is not None and said in refusal


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("big_endian", [False, True])
def test_the_loader_is_read_in_every_layout(bits: int, big_endian: bool) -> None:
    data = elf(X86_64, bits=bits, big_endian=big_endian, loader=b"/lib/ld.so")
    found = read_elf(data)
    assert found is not None and found.loader(data) == b"/lib/ld.so"
    assert found.loader(data[:-1]) == b""  # cut off
    assert read_elf(elf(X86_64, bits=bits)) is not None and found.loader(elf(X86_64, bits=bits)) == b""


@given(st.binary(max_size=300), st.integers(0, 70))
def test_no_bytes_break_it(tail: bytes, keep: int) -> None:
    for data in (tail, b"\x7fELF" + tail, b"#!" + tail, elf(X86_64, loader=b"/x")[:keep] + tail):
        found = read_elf(data)
        if found is not None:
            found.refusal("x86_64")
            found.loader(data)
        read_script(data)


@pytest.mark.parametrize(
    ("data", "interpreter", "argument"),
    [
        (b"#!/bin/sh\n", b"/bin/sh", b""),
        (b"#!/bin/sh", b"/bin/sh", b""),
        (b"#! \t/bin/sh \t-e -x \t\nbody", b"/bin/sh", b"-e -x"),
        (b"#!/bin/sh\r\n", b"/bin/sh\r", b""),
        (b"#!/bin/sh\0junk\n", b"/bin/sh", b""),
        (b"#!/usr/bin/env python3\n", b"/usr/bin/env", b"python3"),
        (b"#!/bin/sh " + b"x" * 500, b"/bin/sh", b"x" * (SIZE - 11)),
    ],
)
def test_an_interpreter_line_is_read_as_the_kernel_does(data: bytes, interpreter: bytes, argument: bytes) -> None:
    found = read_script(data)
    assert found is not None and (found.interpreter, found.argument) == (interpreter, argument)


@pytest.mark.parametrize(
    "data", [b"", b"#", b"#!", b"#!\n", b"#! \t \n", b"/bin/sh\n", b"#!/" + b"x" * 300, b"\xef\xbb\xbf#!/bin/sh\n"]
)
def test_what_the_kernel_takes_for_no_script_is_none(data: bytes) -> None:
    assert read_script(data) is None


@pytest.mark.kernel
@pytest.mark.parametrize(
    "line",
    [
        b"#!{}\n",
        b"#! \t{} \n",
        b"#!{}",
        b"#!{} a b\t\n",
        b"#!{}\0x\n",
        b"#!{}" + b" " * 300,
        b"#!{} " + b"y" * 300,
        b"#!\n",
        b"#!" + b"z" * 300,
    ],
    ids=range(9),
)
def test_the_kernel_agrees(tmp_path: Path, line: bytes, guest: dict[str, Path]) -> None:
    """Each line, with a program that prints its arguments as the interpreter."""
    told = tmp_path / "told"
    told.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\n" "$one"; done\n')
    script = tmp_path / "script"
    data = line.replace(b"{}", os.fsencode(told))
    script.write_bytes(data)
    for path in (told, script):
        path.chmod(0o755)
    found = read_script(data)
    try:
        done = subprocess.run([script, "last"], capture_output=True, check=True)
    except OSError:
        assert found is None
        return
    assert found is not None
    expected = [found.argument] * bool(found.argument) + [os.fsencode(script), b"last"]
    assert done.stdout.splitlines() == expected
