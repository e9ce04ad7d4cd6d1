"""One programming language as a value: how its programs are compiled and run, and what their boxes need.

Made by languages.py of TOML (or by hand), used by compiling.py and program.py. Only an interpreter is looked up on the disk.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Unpack

from sandbox_native.errors import PolicyError
from sandbox_native.limits import Limits
from sandbox_native.paths import contains
from sandbox_native.policy import Policy, PolicyFields
from sandbox_native.rules import SYSTEM

Pairs = tuple[tuple[str, str], ...]

_NAME: Final = re.compile(r"[a-z][a-z0-9_+#-]*", re.ASCII)
_PLACEHOLDER: Final = re.compile(r"\{([a-z_]*)\}", re.ASCII)
_OF_COMPILE: Final = frozenset({"sources", "entry"})
_OF_RUN: Final = frozenset({"directory", "entry", "memory_mib", "stack_mib", "stack_kib"})
_MIB: Final = 1 << 20
_LARGEST_STACK_MIB: Final = 1024  # -Xss takes no more
_NODE_STACK_SPARE: Final = 64 << 10  # of the thread's stack, for what V8 does not count
_DEFAULT_STACK: Final = 8 * _MIB  # the kernel's


class Entry(StrEnum):
    """What `{entry}` stands for."""

    FILE = "file"
    """The main source file: the stated entry point, one of `main_files`, or the only source there is."""
    JVM_CLASS = "jvm_class"
    """The class with `main`, found in what was compiled; a source is named after its public class."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Language:
    """How programs of one language are compiled and run. `PolicyError` names the language, the key and what is wrong.

    - `name`; `aliases`: other names and codes for it; `extensions` of its sources, with the dot.
    - `compile`: an argv, run in a directory with the sources; empty: nothing to do. `{sources}` alone is every source of this
      language, `{entry}` the main one.
    - `outputs`: patterns (as of `Sandbox.run(collect=…)`) of what the program consists of; `keep_sources`: all the files of
      the submission as well.
    - `run`: an argv. `{directory}` is where the program lies, `{entry}` as `entry` says; `{memory_mib}`, `{stack_mib}`,
      `{stack_kib}` come from the limits of the run.
    - `version`: an argv whose first line of output is the version; empty: nothing to ask.
    - `main_files`: names that make a source the main one, the first that is there.
    - `environment`, `compile_environment`: what is added to the clean environment of a run, of a compilation.
    - `readable`, `path`, `syscalls`: fields of the Policy that both need beside the system's programs; `python`: an interpreter
      whose installation is shown, as `Policy.strict(python=…)`.
    - `memory_words`: regular expressions; found in the end of stderr of a failed run they say that its run-time was refused
      memory. `memory_extra_bytes`: what the run-time takes beside the program's own memory. `processes`: threads it needs.
    - `time_factor`: by how much the CPU limit of a problem is longer. `tested`: whether our tests run programs in it.
    """

    name: str
    title: str
    run: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    compile: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ("main",)
    keep_sources: bool = False
    version: tuple[str, ...] = ()
    entry: Entry = Entry.FILE
    main_files: tuple[str, ...] = ()
    environment: Pairs = ()
    compile_environment: Pairs = ()
    readable: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    syscalls: tuple[str, ...] = ()
    python: str = ""
    memory_words: tuple[str, ...] = ()
    memory_extra_bytes: int = 0
    processes: int = 1
    time_factor: float = 1.0
    tested: bool = False

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise self._wrong("name", self.name, "not a name", "give lower-case letters, digits, _, +, # or -")
        if not self.run:
            raise self._wrong("run", self.run, "empty", "give the argv that runs a program")
        for extension in self.extensions:
            if not extension.startswith(".") or "/" in extension:
                raise self._wrong("extensions", extension, "not an extension", "begin it with a dot")
        self._check_placeholders("compile", self.compile, _OF_COMPILE)
        self._check_placeholders("run", self.run, _OF_RUN)
        for words in self.memory_words:
            try:
                re.compile(words)
            except re.error as error:
                raise self._wrong("memory_words", words, f"not a regular expression: {error}", "correct it") from None
        if not self.compile and not self.keep_sources:
            raise self._wrong("compile", self.compile, "empty", "give the argv that compiles, or keep_sources = true")
        for key, number, least in (("processes", self.processes, 1), ("memory_extra_bytes", self.memory_extra_bytes, 0)):
            if number < least:
                raise self._wrong(key, number, f"below {least}", f"give at least {least}")
        if not self.time_factor > 0:
            raise self._wrong("time_factor", self.time_factor, "not above 0", "give a number above 0")

    def _check_placeholders(self, key: str, argv: Iterable[str], known: frozenset[str]) -> None:
        for word in argv:
            for name in _PLACEHOLDER.findall(word):
                if name not in known:
                    names = ", ".join(f"{{{one}}}" for one in sorted(known))
                    raise self._wrong(key, word, f"{{{name}}} stands for nothing there", f"there are {names}")

    def _wrong(self, key: str, value: object, reason: str, remedy: str) -> PolicyError:
        return PolicyError(reason, field=f"language {self.name}: {key}", value=value, remedy=remedy)

    @property
    def programs(self) -> tuple[str, ...]:
        """What must be installed, by name or path: argv[0] of both commands, unless it is the program itself."""
        first = (argv[0] for argv in (self.compile, self.run, self.version) if argv)
        return tuple(dict.fromkeys(name for name in first if "{" not in name))

    @property
    def needs_entry(self) -> bool:
        """Whether a command names the main file."""
        return any("{entry}" in word for word in (*self.compile, *self.run))

    @property
    def bounds_memory(self) -> bool:
        """Whether its run-time is told how much memory a program may have, and refuses more."""
        return any("{memory_mib}" in word for word in self.run)

    def is_source(self, name: str) -> bool:
        """Whether a file of that name is a source of this language."""
        return name.endswith(self.extensions) if self.extensions else False

    def compile_command(self, sources: Iterable[str], entry: str) -> tuple[str, ...]:
        """The argv that compiles; `sources` and `entry` relative to the working directory."""
        argv: list[str] = []
        for word in self.compile:
            if word == "{sources}":
                argv += map(_as_argument, sources)
            else:
                argv.append(word.replace("{entry}", _as_argument(entry)))
        return tuple(argv)

    def run_command(self, directory: str, entry: str, limits: Limits) -> tuple[str, ...]:
        """The argv that runs a program that lies in `directory`, under the limits of a problem."""
        stack = limits.stack_bytes or _DEFAULT_STACK
        known = {
            "directory": directory,
            "entry": entry,
            "memory_mib": str(max(1, limits.memory_bytes // _MIB)),
            "stack_mib": str(min(max(1, stack // _MIB), _LARGEST_STACK_MIB)),
            "stack_kib": str(max(1, (stack - min(stack // 2, _NODE_STACK_SPARE)) >> 10)),
        }
        return tuple(_PLACEHOLDER.sub(lambda found: known[found[1]], word) for word in self.run)

    def limits(self, limits: Limits) -> Limits:
        """The limits of a run, from those of a problem: what the run-time itself needs is added.

        Address space is never limited for a run-time that reserves more than it uses: one with `memory_extra_bytes` or
        `processes` of its own.
        """
        reserves = self.processes > 1 or self.memory_extra_bytes > 0
        cpu = limits.cpu_seconds
        return replace(
            limits,
            memory_bytes=limits.memory_bytes + self.memory_extra_bytes,
            processes=max(limits.processes, self.processes),
            cpu_seconds=None if cpu is None else cpu * self.time_factor,
            wall_seconds=limits.wall_seconds * max(1.0, self.time_factor),
            address_space_bytes=None if reserves else limits.address_space_bytes,
        )

    def policy(self, **given: Unpack[PolicyFields]) -> Policy:
        """A strict policy that shows what this language needs, and what `given` adds; deterministic unless told otherwise."""
        own = _installation(self.python)
        merged: PolicyFields = {"deterministic": True, **given}
        merged["readable"] = (*own.readable, *self.readable, *given.get("readable", ()))
        merged["symlinks"] = (*own.symlinks, *given.get("symlinks", ()))
        merged["path"] = (*own.path, *self.path, *given.get("path", ()))
        merged["syscalls"] = tuple(dict.fromkeys((*self.syscalls, *given.get("syscalls", ()))))
        return Policy.strict(**merged)

    def to_hide(self, paths: Iterable[str | os.PathLike[str]]) -> tuple[str, ...]:
        """Those that its boxes would show, by the names that they have there: nothing else can be hidden."""
        roots = (*((path, path) for path in SYSTEM), *self.policy().readable)
        named = {path for given in paths for path in (os.path.abspath(given), os.path.realpath(given))}
        return tuple(sorted({inside + path[len(host) :] for path in named for host, inside in roots if contains(host, path)}))

    def lacked_memory(self, stderr: bytes) -> bool:
        """Whether the words that a failed run left say that its run-time was refused memory."""
        if not self.memory_words:
            return False
        text = stderr[-_LAST_WORDS:].decode("utf-8", "replace")
        return any(re.search(words, text, re.MULTILINE) for words in self.memory_words)


_LAST_WORDS: Final = 4096


@functools.lru_cache(maxsize=16)
def _installation(python: str) -> Policy:
    """What an interpreter needs, looked up once."""
    return Policy.strict(python=python or None)


def _as_argument(name: str) -> str:
    """A file's name that no tool takes for an option or a list of arguments."""
    return name if name[:1].isalnum() or name[:1] in ("_", "/") or not name else f"./{name}"


def as_pairs(values: Mapping[str, str]) -> Pairs:
    """An environment as a Language keeps it."""
    return tuple(sorted(values.items()))
