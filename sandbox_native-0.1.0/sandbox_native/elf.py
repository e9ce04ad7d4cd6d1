"""What an ELF file asks the dynamic loader for. Host process; pyelftools reads the file and is imported at the first use.

Called by libraries.py and closure.py for programs that the host trusts: this is not the check of headers.py, which reads what a
guest may have written.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass
from typing import Any, Final

_NO_DEFAULT: Final = 0x800  # DF_1_NODEFLIB
_NAMED: Final = {"DT_NEEDED": "needed", "DT_RPATH": "rpath", "DT_RUNPATH": "runpath", "DT_SONAME": "soname"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    path: str
    """As it was found: `$ORIGIN` is its directory."""
    kind: tuple[str, int]
    """Machine and bits: what a library must have too."""
    loader: str = ""
    soname: str = ""
    needed: tuple[str, ...] = ()
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    skips_defaults: bool = False
    """Linked with -z nodefaultlib."""


def read(path: str) -> Binary | None:
    """None for what is no ELF file, or a broken one. OSError when it cannot be read. A file that did not change is read once."""
    status = os.stat(path)
    return _read(path, status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=4096)
def _read(path: str, *_identity: int) -> Binary | None:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return None
        file.seek(0)
        try:
            elf = ELFFile(file)
            asked = _asked(elf)
            return Binary(path=path, kind=(elf["e_machine"], elf.elfclass), **asked)
        except (ELFError, ValueError, UnicodeDecodeError):
            return None


def _asked(elf: Any) -> dict[str, Any]:
    found: dict[str, Any] = {"loader": "", "soname": "", "needed": [], "rpath": [], "runpath": [], "skips_defaults": False}
    for segment in elf.iter_segments():
        kind = segment["p_type"]
        if kind == "PT_INTERP":
            found["loader"] = segment.get_interp_name()
        elif kind == "PT_DYNAMIC":
            for tag in segment.iter_tags():
                name = _NAMED.get(tag.entry.d_tag)
                if name == "needed":
                    found[name].append(tag.needed)
                elif name == "soname":
                    found[name] = tag.soname
                elif name is not None:
                    found[name] += [part for part in getattr(tag, name).split(":") if part]
                elif tag.entry.d_tag == "DT_FLAGS_1":
                    found["skips_defaults"] = bool(tag.entry.d_val & _NO_DEFAULT)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}


def origin(binary: Binary, is_program: bool) -> str:
    """What `$ORIGIN` is: of a program the loader asks /proc/self/exe, of a library it takes the name by which it was found."""
    return os.path.dirname(os.path.realpath(binary.path) if is_program else binary.path)
