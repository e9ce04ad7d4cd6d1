"""The smallest program there is: a static ELF that calls exit_group(0), made here so that no compiler is needed.

A run of it costs the launch and nothing else. Pure but for :func:`write_tiny`.
"""

from __future__ import annotations

import os
import struct
from typing import Final

_BASE: Final = 0x400000
_CODE: Final = {  # machine as os.uname() names it -> (e_machine, exit_group(0))
    "x86_64": (62, bytes.fromhex("b8e7000000 31ff 0f05")),
    "aarch64": (183, bytes.fromhex("c80b80d2 000080d2 010000d4")),
}
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")  # Elf64_Ehdr
_SEGMENT: Final = struct.Struct("<IIQQQQQQ")  # Elf64_Phdr


def tiny_elf(machine: str) -> bytes:
    """The program's bytes for ``x86_64`` or ``aarch64``; KeyError for another machine."""
    number, code = _CODE[machine]
    start = _HEADER.size + 2 * _SEGMENT.size
    size = start + len(code)
    ident = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header = _HEADER.pack(ident, 2, number, 1, _BASE + start, _HEADER.size, 0, 0, _HEADER.size, _SEGMENT.size, 2, 0, 0, 0)
    load = _SEGMENT.pack(1, 5, 0, _BASE, _BASE, size, size, 0x10000)
    stack = _SEGMENT.pack(0x6474E551, 6, 0, 0, 0, 0, 0, 16)  # PT_GNU_STACK: not executable
    return header + load + stack + code


def write_tiny(folder: str) -> str:
    """Writes the program for this machine into ``folder``, which every user may then search: its path."""
    path = os.path.join(folder, "tiny")
    with open(path, "wb") as file:
        file.write(tiny_elf(os.uname().machine))
    os.chmod(path, 0o755)
    os.chmod(folder, 0o755)
    return path
