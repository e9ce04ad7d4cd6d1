"""A program's files as its compiler gets them: read, named, the main one found, and the key under which the outcome is kept.
Host process; for compiling.py.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sandbox_native import paths
from sandbox_native.errors import PolicyError
from sandbox_native.judge.handed_in import SourceError, contents
from sandbox_native.judge.language import Entry, Language
from sandbox_native.judge.values import ProgramSource

_FORMAT: Final = 2  # of keys and of what is kept by them
_NO_CODE: Final = re.compile(  # comments, text blocks, strings and characters, also those that nothing ends: in linear time
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"""(?:\\.|[^\\])*?(?:"""|\Z)|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?', re.DOTALL
)
_PUBLIC_CLASS: Final = re.compile(
    r"^[ \t]*public\s+(?:(?:abstract|final|sealed|non-sealed|strictfp)\s+)*(?:class|interface|enum|record)\s+(\w+)", re.MULTILINE
)
_DECIDING: Final = (  # fields of a language that a compilation depends on
    "name",
    "extensions",
    "compile",
    "outputs",
    "keep_sources",
    "entry",
    "compile_environment",
    "readable",
    "path",
    "syscalls",
    "python",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """Files by relative name. `entry`: the main one; where the language has classes, the stated class or nothing."""

    language: Language
    files: Mapping[str, bytes]
    entry: str

    @property
    def names(self) -> tuple[str, ...]:
        """Of the files that are sources of the language."""
        return tuple(sorted(name for name in self.files if self.language.is_source(name))) or (self.entry,)

    @property
    def command(self) -> tuple[str, ...]:
        """What compiles them; empty where there is nothing to do."""
        return self.language.compile_command(self.names, self.entry)

    def key(self, version: str) -> str:
        """Of everything that decides what the compiler of that version makes of them."""
        parts = {
            "format": _FORMAT,
            "machine": platform.machine(),
            "language": {name: getattr(self.language, name) for name in _DECIDING},
            "version": version,
            "entry": self.entry,
            "files": {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()},
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def prepared(source: ProgramSource, language: Language) -> Sources:
    """The files of a program in that language.

    `SourceError`: there are none, too many or too large ones, one is a link or no file, a name leads out of the directory, or
    none is the main one. `PolicyError`: a file cannot be read.
    """
    where = f"program {source.name}"
    read = contents(source)
    try:
        named = paths.files(read, where)
    except PolicyError as error:
        raise SourceError.of(error) from None
    files = _with_extension(named, language)
    if language.entry is Entry.JVM_CLASS:
        return Sources(language=language, files=_named_by_class(files, language), entry=source.entry_point or "")
    return Sources(language=language, files=files, entry=_main_file(where, files, language, source.entry_point))


def _with_extension(files: dict[str, bytes], language: Language) -> dict[str, bytes]:
    """The only file of a program whose language is stated may be named anyhow; its compiler wants to know it by its name."""
    (name, *others) = files
    if others or not language.extensions or language.is_source(name):
        return files
    return {name + language.extensions[0]: files[name]}


def _named_by_class(files: Mapping[str, bytes], language: Language) -> dict[str, bytes]:
    """javac wants a public class in a file of its name; judges do not ask it of their users."""
    named: dict[str, bytes] = {}
    for name, data in files.items():
        code = _NO_CODE.sub(" ", data.decode("utf-8", "replace")) if language.is_source(name) else ""
        found = _PUBLIC_CLASS.search(code)
        wanted = name
        if found is not None:
            base = found[1] + language.extensions[0]
            wanted = os.path.join(os.path.dirname(name), base)
        taken = wanted in named or (wanted != name and wanted in files)
        named[name if taken else wanted] = data
    return named


def _main_file(where: str, files: Mapping[str, bytes], language: Language, stated: str | None) -> str:
    if stated is not None and stated in files:
        return stated
    own = [name for name in files if language.is_source(name)] or list(files)
    for name in language.main_files:
        if name in own:
            return name
    if len(own) == 1 or not language.needs_entry:
        return own[0]
    names = " or ".join(language.main_files) or "main"
    value = ", ".join(own[:8]) if stated is None else stated
    raise SourceError("no main file", field=where, value=value, remedy=f"name one {names}, or state an entry point")
