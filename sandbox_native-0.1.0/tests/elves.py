"""Programs made by hand: scripts, and ELF files with headers that a kernel of another machine would take."""

from __future__ import annotations

import os
import struct
from pathlib import Path

S390, X86_64, AARCH64 = 22, 62, 183
NATIVE = {"x86_64": X86_64, "aarch64": AARCH64}[os.uname().machine]
EXEC, REL = 2, 1


def elf(machine: int, *, bits: int = 64, kind: int = EXEC, loader: bytes = b"", big_endian: bool = False) -> bytes:
    """A header, one program header (PT_INTERP with a loader, else PT_LOAD), and the loader's name."""
    order, wide = (">" if big_endian else "<"), bits == 64
    head, entry = (64, 56) if wide else (52, 32)
    ident = struct.pack("4sBBB9x", b"\x7fELF", 2 if wide else 1, 2 if big_endian else 1, 1)
    fields = (kind, machine, 1, 0x400078, head, 0, 0, head, entry, 1, 0, 0, 0)
    text, size, at = (loader + b"\0" if loader else b""), len(loader) + 1 if loader else 0, head + entry
    segment = 3 if loader else 1
    if wide:
        program = struct.pack(order + "IIQQQQQQ", segment, 5, at, 0x400000, 0x400000, size, size, 1)
    else:
        program = struct.pack(order + "IIIIIIII", segment, at, 0x400000, 0x400000, size, size, 5, 1)
    return ident + struct.pack(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"), *fields) + program + text


def foreign(kind: int = EXEC) -> bytes:
    """Of a machine that the tests do not run on."""
    return elf(S390, kind=kind, big_endian=True)


def script(path: Path, line: str = "#!/bin/sh", mode: int = 0o755) -> Path:
    path.write_text(f"{line}\necho ran {path.name}\n")
    path.chmod(mode)
    return path
