"""/etc/ld.so.cache: which files ldconfig found under a library's name. Pure.

The layout is that of glibc's sysdeps/generic/dl-cache.h: the format of glibc 2.2 and later, by itself or behind the older one.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final

_OLD: Final = b"ld.so-1.7.0\0"
_NEW: Final = b"glibc-ld.so.cache1.1"
_OLD_ENTRY: Final = 12
_HEADER: Final = 48
_ENTRY: Final = struct.Struct("=iIIIQ")  # flags, name, path, minimum kernel, hwcap


def parse(data: bytes) -> Mapping[str, tuple[str, ...]]:
    """Name -> paths, in the order of the file; empty for what is no such cache."""
    start = _start(data)
    if start is None or len(data) < start + _HEADER:
        return {}
    (count,) = struct.unpack_from("=I", data, start + len(_NEW))
    found: dict[str, list[str]] = {}
    for number in range(count):
        at = start + _HEADER + number * _ENTRY.size
        if at + _ENTRY.size > len(data):
            break
        _, name, path, _, _ = _ENTRY.unpack_from(data, at)
        found.setdefault(_string(data, start + name), []).append(_string(data, start + path))
    return {name: tuple(paths) for name, paths in found.items()}


def _start(data: bytes) -> int | None:
    """Where the newer format begins: what its offsets count from."""
    if data.startswith(_NEW):
        return 0
    if data.startswith(_OLD) and len(data) >= 16:
        (count,) = struct.unpack_from("=I", data, 12)
        at = 16 + count * _OLD_ENTRY
        at += -at % 8
        if data[at:].startswith(_NEW):
            return int(at)
    return None


def _string(data: bytes, at: int) -> str:
    end = data.find(b"\0", at)
    return data[at : end if end >= 0 else len(data)].decode("utf-8", "surrogateescape")
