"""Amounts as people write them: ``2s``, ``100ms``, ``256M``, ``1.5GiB``; and back again.

Pure; used by the command line, doctor and the bench. Sizes are powers of 1024 whatever the spelling
(``K``, ``KB``, ``KiB``), as in ``ulimit`` and in control group files.
"""

from __future__ import annotations

import math
import re

_NUMBER = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-zµ]*)\s*", re.ASCII)
_SECONDS = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _split(text: str, what: str, example: str) -> tuple[float, str]:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not {what}: write it like {example}")
    return float(match[1]), match[2].lower()


def parse_seconds(text: str) -> float:
    """Seconds from ``2``, ``2s``, ``100ms``, ``50us``, ``1.5m`` or ``1h``.

    :raises ValueError: when it is no number with one of these units, or infinite.
    """
    amount, unit = _split(text, "a time", "2s, 100ms or 1.5m")
    if unit not in _SECONDS:
        raise ValueError(f"{text!r} has an unknown unit {unit!r}: use us, ms, s, m or h")
    return _finite(amount * _SECONDS[unit], text)


def parse_bytes(text: str) -> int:
    """Bytes from ``4096``, ``64k``, ``256M``, ``1GiB`` (powers of 1024 in every spelling).

    :raises ValueError: when it is no number with one of these units, or not a whole number of bytes.
    """
    amount, unit = _split(text, "a size", "65536, 64K, 256M or 1G")
    short = unit.removesuffix("ib").removesuffix("b")
    if short not in _BYTES or unit == "ib":
        raise ValueError(f"{text!r} has an unknown unit {unit!r}: use K, M, G or T")
    size = _finite(amount * _BYTES[short], text)
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(size)


def _finite(value: float, text: str) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is too large")
    return value


def format_bytes(size: int) -> str:
    """``0 B``, ``1.5 MiB``, ``2 GiB``: at most one decimal."""
    if abs(size) < 1 << 10:
        return f"{size} B"
    value, names = size / 1024, ["EiB", "PiB", "TiB", "GiB", "MiB", "KiB"]
    while abs(value) >= 1023.95 and len(names) > 1:
        value /= 1024
        names.pop()
    return f"{value:.1f}".removesuffix(".0") + f" {names[-1]}"


def format_seconds(seconds: float) -> str:
    """``12 us``, ``3.4 ms``, ``1.25 s``, ``2 min``: three figures at most."""
    for limit, scale, name in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (120.0, 1.0, "s")):
        if abs(seconds) < limit:
            return f"{seconds * scale:.3g} {name}"
    return f"{seconds / 60:.4g} min"
