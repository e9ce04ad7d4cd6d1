"""A launcher, or another program in its place, started through the extension alone. For the tests of csrc/host."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bpf import install

from sandbox_native._native import ffi, lib

CLOSE_MS = 5000


class Failed(Exception):
    """What `why` held."""

    def __init__(self, code: int, why: Any) -> None:
        self.code, self.stage, self.errno = code, why.stage, why.error
        self.item = os.fsdecode(ffi.string(why.item))
        super().__init__(f"{code}: stage {self.stage}, errno {self.errno}, {self.item}")


def checked(code: int, why: Any) -> int:
    if code < 0:
        raise Failed(code, why)
    return code


def start(program: Path | str) -> Any:
    process, why = ffi.new("struct sn_process *"), ffi.new("struct sn_failure *")
    checked(lib.sn_launcher_start(os.fsencode(program), process, why), why)
    return process


@contextmanager
def launched(program: Path | str) -> Iterator[Any]:
    process = start(program)
    try:
        yield process
    finally:
        lib.sn_process_close(process, CLOSE_MS, 1)


def refuse(number: int, error: int, argument: int = 0, bits: int = 0) -> None:
    """From now on a system call answers `error` in this process and what it starts: as on a kernel without it. With `bits`,
    only where the argument of that index has one of them."""
    load = [(0x20, 0, 0, 0), (0x15, 0, 3, number), (0x20, 0, 0, 16 + 8 * argument)]  # number; the argument's low half
    test = (0x45, 0, 1, bits) if bits else (0x05, 0, 0, 0)  # jump if any bit is set; jump on
    program = [*load, test, (0x06, 0, 0, 0x0005_0000 | error), (0x06, 0, 0, 0x7FFF_0000)]
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    install(code)


def told(process: Any) -> dict[str, str]:
    """What tests/probes/started.c says of its start."""
    text = os.read(process.control, 65536).decode()
    return dict(line.split("=", 1) for line in text.splitlines())
