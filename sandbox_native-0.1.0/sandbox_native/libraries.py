"""Finds shared libraries as the dynamic loader would, for a program started with a clean environment. Host process.

glibc's rules are those of ld.so(8), musl's those of its ldso/dynlink.c. Where a loader would choose by the processor
(glibc-hwcaps), all that it could choose are found.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from sandbox_native import elf, ldcache
from sandbox_native.elf import Binary

_CACHE: Final = "/etc/ld.so.cache"
_MUSL_PATH: Final = "/lib:/usr/local/lib:/usr/lib"
_MUSL_OWN: Final = ("libc.", "libpthread.", "librt.", "libm.", "libdl.", "libutil.", "libxnet.")  # are the loader itself
_LONGEST_LIST: Final = 1 << 16


class Libraries:
    """The libraries of one host. What was read once is not read again."""

    def __init__(self) -> None:
        self._binaries: dict[str, Binary | None] = {}

    def read(self, path: str) -> Binary | None:
        """As `elf.read`; None for what cannot be read."""
        if path not in self._binaries:
            try:
                self._binaries[path] = elf.read(path)
            except OSError:
                self._binaries[path] = None
        return self._binaries[path]

    def find(self, name: str, chain: Sequence[Binary], loader: str) -> tuple[str, ...]:
        """What a DT_NEEDED of `chain[-1]` leads to: the file that is taken, then its variants for other processors.

        `chain`: the program first, then who asked for whom. Empty: there is none.
        """
        if "/" in name:
            return (name,) if self._fits(name, chain[-1]) else ()
        if "ld-musl" in loader:
            return self._find_musl(name, chain, loader)
        for directory in self._own_directories(chain):
            found = self._in_directory(directory, name, chain[-1])
            if found:
                return found
        defaults = list(_default_directories(loader))
        listed = self._cache.get(name, ())
        if chain[-1].skips_defaults:
            listed, defaults = tuple(path for path in listed if os.path.dirname(path) not in defaults), []
        found = self._variants([path for path in listed if self._fits(path, chain[-1])])
        for directory in defaults:
            found = found or self._in_directory(directory, name, chain[-1])
        return found

    def _own_directories(self, chain: Sequence[Binary]) -> Iterator[str]:
        """DT_RPATH of whoever asks and of those who asked for it, unless it has a DT_RUNPATH, which is its own only."""
        asking = chain[-1]
        if not asking.runpath:
            for at in range(len(chain) - 1, -1, -1):
                if not chain[at].runpath:
                    yield from _expanded(chain[at].rpath, chain[at], is_program=at == 0)
        yield from _expanded(asking.runpath, asking, is_program=len(chain) == 1)

    def _find_musl(self, name: str, chain: Sequence[Binary], loader: str) -> tuple[str, ...]:
        if name.startswith(_MUSL_OWN):
            return (loader,)
        for at in range(len(chain) - 1, -1, -1):
            binary = chain[at]
            for directory in _expanded(binary.runpath or binary.rpath, binary, is_program=at == 0):
                if self._fits(f"{directory}/{name}", chain[-1]):
                    return (f"{directory}/{name}",)
        for directory in _musl_directories(loader):
            if self._fits(f"{directory}/{name}", chain[-1]):
                return (f"{directory}/{name}",)
        return ()

    def _in_directory(self, directory: str, name: str, asking: Binary) -> tuple[str, ...]:
        variants = sorted(glob.glob(f"{glob.escape(directory)}/glibc-hwcaps/*/{glob.escape(name)}"))
        return self._variants([path for path in (f"{directory}/{name}", *variants) if self._fits(path, asking)])

    def _variants(self, fitting: Sequence[str]) -> tuple[str, ...]:
        """The first plain one, and all that only some processors get."""
        plain = [path for path in fitting if "/glibc-hwcaps/" not in path][:1]
        return (*plain, *(path for path in fitting if "/glibc-hwcaps/" in path))

    def _fits(self, path: str, asking: Binary) -> bool:
        found = self.read(path) if os.path.exists(path) else None
        return found is not None and found.kind == asking.kind

    @cached_property
    def _cache(self) -> Mapping[str, tuple[str, ...]]:
        try:
            with open(_CACHE, "rb") as file:
                return ldcache.parse(file.read())
        except OSError:
            return {}


def _expanded(directories: Sequence[str], binary: Binary, *, is_program: bool) -> Iterator[str]:
    """`$ORIGIN`, `$LIB` and `$PLATFORM` replaced: the last two by all that they may mean here."""
    origin = elf.origin(binary, is_program)
    machine = os.uname().machine
    libs = (f"lib/{machine}-linux-gnu", "lib64", "lib")
    for directory in directories:
        directory = _replaced(directory, "ORIGIN", origin)
        for lib in libs if "$LIB" in directory or "${LIB}" in directory else ("",):
            for platform in (machine, "haswell") if "PLATFORM" in directory else ("",):
                whole = _replaced(_replaced(directory, "LIB", lib), "PLATFORM", platform)
                if whole.startswith("/"):
                    yield whole


def _replaced(text: str, name: str, value: str) -> str:
    return text.replace(f"${{{name}}}", value).replace(f"${name}", value)


def _default_directories(loader: str) -> Iterator[str]:
    multiarch = os.path.basename(os.path.dirname(os.path.realpath(loader)))
    names = ("lib64", "lib") if multiarch in ("lib", "lib64") else (f"lib/{multiarch}", "lib64", "lib")
    yield from (f"{above}/{name}" for name in names for above in ("", "/usr"))


def _musl_directories(loader: str) -> list[str]:
    """The file beside the loader that lists them, `/etc/ld-musl-ARCH.path`, or what musl has built in."""
    above, name = os.path.split(os.path.dirname(loader))
    root = above if name == "lib" else ""
    listed = f"{root.rstrip('/')}/etc/{os.path.basename(loader).removesuffix('.so.1')}.path"
    try:
        with open(listed, encoding="utf-8", errors="surrogateescape") as file:
            text = file.read(_LONGEST_LIST)
    except OSError:
        text = _MUSL_PATH
    return [part for part in text.replace("\n", ":").split(":") if part]
