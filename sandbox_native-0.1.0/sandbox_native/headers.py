"""What the first bytes of a file say of it as a program: an ELF header or an interpreter line. Pure.

As the kernel reads them: fs/binfmt_elf.c and fs/binfmt_script.c.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Final

SIZE: Final = 256
"""Bytes of a file that the kernel looks at (BINPRM_BUF_SIZE; 128 before Linux 5.1)."""

_MACHINES: Final = {
    2: "SPARC",
    3: "32-bit x86",
    8: "MIPS",
    20: "PowerPC",
    21: "64-bit PowerPC",
    22: "IBM S/390",
    40: "32-bit ARM",
    62: "x86_64",
    183: "aarch64",
    243: "RISC-V",
    258: "LoongArch",
}
_EM_386, _EM_ARM, _EM_X86_64, _EM_AARCH64 = 3, 40, 62, 183
_OF_UNAME: Final = {
    "x86_64": (_EM_X86_64, _EM_386),
    "aarch64": (_EM_AARCH64, _EM_ARM),
    "i686": (_EM_386,),
    "armv7l": (_EM_ARM,),
    "ppc64le": (21,),
    "ppc64": (21, 20),
    "s390x": (22,),
    "riscv64": (243,),
    "loongarch64": (258,),
}
_TYPES: Final = {1: "an object file that was not linked", 4: "a core dump"}
_PROGRAMS: Final = (2, 3)  # ET_EXEC, ET_DYN
_PT_INTERP: Final = 3
_LINE: Final = re.compile(rb"#![ \t]*([^ \t\0\n]+)(?=[ \t\0\n])[ \t]*([^\0\n]*)")


@dataclass(frozen=True, slots=True)
class Elf:
    machine: int
    bits: int
    big_endian: bool
    type: int
    segments: tuple[int, int, int]
    """Where the program headers begin, the size of one, and how many."""

    @property
    def made_for(self) -> str:
        name = _MACHINES.get(self.machine, f"machine {self.machine} of the ELF list")
        if self.machine == _EM_X86_64 and self.bits == 32:
            return "x86_64 with 32-bit pointers (x32)"
        known = name if "bit" in name or self.machine in (_EM_X86_64, _EM_AARCH64) else f"{self.bits}-bit {name}"
        return known if not self.big_endian else f"{known}, big-endian"

    def refusal(self, machine: str) -> str | None:
        """Why a kernel of this `uname -m` starts it by itself never; None where it may."""
        native = _OF_UNAME.get(machine)
        if native is not None and (self.machine not in native or self.big_endian != (machine in ("s390x", "ppc64"))):
            return f"it is an ELF program for {self.made_for}, and this machine is {machine}"
        if self.type not in _PROGRAMS:
            return f"it is {_TYPES.get(self.type, f'an ELF file of type {self.type}')}, and no program"
        return None

    def loader(self, data: bytes) -> bytes:
        """The path of its loader (PT_INTERP); empty: it is static, or `data` (the file from its beginning) is too short."""
        at, size, count = self.segments
        order = ">" if self.big_endian else "<"
        layout = order + ("IIQQQQ" if self.bits == 64 else "IIIII")
        for number in range(count):
            head = at + number * size
            if head + struct.calcsize(layout) > len(data):
                break
            fields = struct.unpack_from(layout, data, head)
            if fields[0] == _PT_INTERP:
                offset, length = (fields[2], fields[5]) if self.bits == 64 else (fields[1], fields[4])
                return data[offset : offset + length].partition(b"\0")[0] if offset + length <= len(data) else b""
        return b""


@dataclass(frozen=True, slots=True)
class Script:
    interpreter: bytes
    argument: bytes
    """All that follows, as one; empty: none."""


def read_elf(data: bytes) -> Elf | None:
    """None for what is no ELF file, or too short to be one."""
    if data[:4] != b"\x7fELF" or len(data) < 52:
        return None
    bits, big_endian = (64 if data[4] == 2 else 32), data[5] == 2
    order = ">" if big_endian else "<"
    kind, machine = struct.unpack_from(order + "HH", data, 16)
    if bits == 64 and len(data) < 64:
        return None
    at = struct.unpack_from(order + ("Q" if bits == 64 else "I"), data, 32 if bits == 64 else 28)[0]
    size, count = struct.unpack_from(order + "HH", data, 54 if bits == 64 else 42)
    return Elf(machine, bits, big_endian, kind, (at, size, count))


def read_script(data: bytes) -> Script | None:
    """The interpreter line of a file's first bytes; None where the kernel sees none.

    A name that does not end within these bytes is none, but an argument may be cut.
    """
    line = _LINE.match(data[:SIZE].ljust(SIZE, b"\0"))
    if line is None:
        return None
    argument = line[2] if line.end(2) < SIZE else line[2][:-1]  # the kernel ends the string in its last byte
    return Script(line[1], argument.rstrip(b" \t"))
