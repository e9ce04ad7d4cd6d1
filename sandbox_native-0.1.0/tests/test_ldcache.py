"""/etc/ld.so.cache is read as ldconfig prints it, and no bytes break the reader."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.ldcache import parse

MAGIC = b"glibc-ld.so.cache1.1"


def cache(*pairs: tuple[str, str]) -> bytes:
    """The newer format, as glibc's sysdeps/generic/dl-cache.h has it."""
    at, strings, entries = 48 + 24 * len(pairs), b"", b""
    for name, path in pairs:
        places = []
        for text in (name, path):
            places.append(at + len(strings))
            strings += text.encode() + b"\0"
        entries += struct.pack("=iIIIQ", 0x0303, *places, 0, 0)
    return MAGIC + struct.pack("=II", len(pairs), len(strings)) + bytes(20) + entries + strings


PAIRS = (("libc.so.6", "/lib/libc.so.6"), ("libc.so.6", "/lib32/libc.so.6"), ("libm.so.6", "/lib/libm.so.6"))
FOUND = {"libc.so.6": ("/lib/libc.so.6", "/lib32/libc.so.6"), "libm.so.6": ("/lib/libm.so.6",)}


def test_the_newer_format_is_read_by_itself_and_behind_the_older_one() -> None:
    assert parse(cache(*PAIRS)) == FOUND
    older = b"ld.so-1.7.0\0" + struct.pack("=I", 1) + bytes(12)
    assert parse(older + bytes(-len(older) % 8) + cache(*PAIRS)) == FOUND


@given(st.binary(max_size=200), st.integers(0, 140))
def test_no_bytes_break_it(tail: bytes, keep: int) -> None:
    for data in (tail, MAGIC + tail, b"ld.so-1.7.0\0" + tail, cache(*PAIRS)[:keep] + tail):
        parse(data)


@pytest.mark.needs("ldconfig")
def test_it_says_what_ldconfig_says() -> None:
    told = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    lines = [re.match(r"\t(\S+) \(.*\) => (.*)", line) for line in told.splitlines()]
    expected = [(line[1], line[2]) for line in lines if line is not None]
    found = parse(Path("/etc/ld.so.cache").read_bytes())
    assert sorted(expected) == sorted((name, path) for name, paths in found.items() for path in paths)
