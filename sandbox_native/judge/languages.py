"""The languages that a judge knows: read from TOML, found by name or by a submission's files, and asked for their versions.

Used by compiling.py and by `judge languages`. languages.toml, beside this file, has those that come with the package.
"""

from __future__ import annotations

import difflib
import functools
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any, Final, Self, get_type_hints

from sandbox_native.errors import ExecError, PolicyError, UnsupportedError
from sandbox_native.executables import ExecutableResolver
from sandbox_native.judge.handed_in import opened
from sandbox_native.judge.language import Entry, Language, as_pairs
from sandbox_native.judge.values import ProgramSource, SourceFile
from sandbox_native.limits import Limits
from sandbox_native.runner import run

__all__ = ["Entry", "Installed", "Language", "Languages", "builtin", "installed", "version_of"]

_LARGEST_FILE: Final = 1 << 20
_PROBE: Final = Limits(wall_seconds=30, memory_bytes=1 << 30, processes=256, stdout_bytes=4096, stderr_bytes=4096)
_GENERIC: Final = "generic"
_STARTS: Final = (b"#!", b"\x7fELF")


@dataclass(frozen=True, kw_only=True, slots=True)
class Installed:
    """Whether a language can be used here. `version` is what its tool says of itself, `missing` the programs that are not
    there, or do not run in a box."""

    language: Language
    installed: bool
    version: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Languages(Mapping[str, Language]):
    """Languages by name, in order."""

    known: Mapping[str, Language] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Language:
        return self.known[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.known)

    def __len__(self) -> int:
        return len(self.known)

    @classmethod
    def from_toml(cls, text: str, name: str = "TOML", base: Mapping[str, Language] | None = None) -> Self:
        """A table for each language, with the fields of `Language` as keys. One that `base` has too is changed only where a
        key is given; an environment is replaced as a whole. `PolicyError` names file, language and key."""
        try:
            tables = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise PolicyError(f"not TOML: {error}", field=name, value=text, remedy="correct it there") from None
        known = dict(base or {})
        for code, table in tables.items():
            known[code] = _language(f"{name}: {code}", code, table, known.get(code))
        return cls(known)

    def with_file(self, path: str | os.PathLike[str]) -> Self:
        """These, and what a file adds or changes; errors as of `from_toml`, and `PolicyError` when it cannot be read."""
        where = os.fspath(path)
        try:
            with open(where, "rb") as file:
                data = file.read(_LARGEST_FILE + 1)
            text = data.decode()
        except (OSError, UnicodeDecodeError) as error:
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else "not UTF-8"
            raise PolicyError(reason, field="languages", value=where, remedy="name a TOML file of languages") from error
        if len(data) > _LARGEST_FILE:
            raise PolicyError("larger than 1 MiB", field="languages", value=where, remedy="name a TOML file of languages")
        return self.from_toml(text, where, self.known)

    def named(self, name: str) -> Language:
        """By name or alias; upper and lower case do not matter. PolicyError names the nearest one."""
        wanted = name.lower()
        found = self.known.get(wanted) or next((one for one in self.known.values() if wanted in one.aliases), None)
        if found is None:
            names = [*self.known, *(alias for one in self.known.values() for alias in one.aliases)]
            close = difflib.get_close_matches(wanted, names, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(self.known)}"
            raise PolicyError("no such language", field="language", value=name, remedy=hint)
        return found

    def of(self, source: ProgramSource) -> Language:
        """The language of a program: the one it states, else the one with the most files by their extensions, else `generic`
        for a program that can be started as it is. PolicyError when there is none, or two with equally many."""
        if source.language is not None:
            return self.named(source.language)
        counts = {one.name: sum(one.is_source(file.name) for file in source.files) for one in self.known.values()}
        most = max(counts.values(), default=0)
        found = [name for name, count in counts.items() if count == most > 0]
        if not found and _GENERIC in self.known and any(_starts(file) for file in source.files):
            return self.known[_GENERIC]
        if len(found) == 1:
            return self.known[found[0]]
        names = ", ".join(file.name for file in source.files[:8])
        reason = f"its files are of {' and of '.join(found)}" if found else "no language has files so named"
        raise PolicyError(reason, field=f"program {source.name}", value=names, remedy="state its language")


@functools.cache
def builtin() -> Languages:
    """The languages that come with the package."""
    text = resources.files(__package__).joinpath("languages.toml").read_text("utf-8")
    return Languages.from_toml(text, "languages.toml")


def _starts(file: SourceFile) -> bool:
    if isinstance(file.content, bytes):
        return file.content.startswith(_STARTS)
    with opened(file.content, f"program {file.name}") as content:
        return content.read(4).startswith(_STARTS)


def _language(where: str, code: str, table: object, base: Language | None) -> Language:
    if not isinstance(table, dict):
        raise PolicyError("not a table", field=where, value=table, remedy=f"write [{code}] on a line of its own")
    hints = get_type_hints(Language)
    known = {one.name for one in fields(Language)} - {"name"}
    given: dict[str, Any] = {} if base is None else {one.name: getattr(base, one.name) for one in fields(Language)}
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, 1)
            hint = f"did you mean {close[0]!r}?" if close else f"the keys are {', '.join(sorted(known))}"
            raise PolicyError("no such key", field=f"{where}.{key}", value=value, remedy=hint)
        given[key] = _value(f"{where}.{key}", value, hints[key])
    given["name"] = code
    for key in ("title", "run"):
        if key not in given:
            raise PolicyError("is missing", field=f"{where}.{key}", remedy="a language has at least title and run")
    return Language(**given)


def _value(where: str, value: Any, hint: Any) -> Any:
    if hint is Entry:
        if value not in list(Entry):
            raise PolicyError("unknown", field=where, value=value, remedy=f"give {' or '.join(map(repr, map(str, Entry)))}")
        return Entry(value)
    if hint in (str, bool, int):
        wanted, good = {str: "a string", bool: "a boolean", int: "an integer"}[hint], type(value) is hint
    elif hint is float:
        wanted, good = "a number", type(value) in (int, float)
    elif hint == tuple[str, ...]:
        wanted, good = "an array of strings", isinstance(value, list) and all(isinstance(one, str) for one in value)
        value = tuple(value) if good else value
    else:
        wanted = "a table of strings"
        good = isinstance(value, dict) and all(isinstance(one, str) for one in value.values())
        value = as_pairs(value) if good else value
    if not good:
        raise PolicyError(f"not {wanted}", field=where, value=value, remedy=f"give {wanted}")
    return value


def version_of(language: Language) -> str:
    """What the language's tool says of itself: the first line; "" for a language that has nothing to ask. Asked in a box, once
    as long as the tool's file stays what it is.

    `UnsupportedError` names the programs that are not there, or what the tool said instead.
    """
    resolver = ExecutableResolver(language.policy())
    missing, files = [], []
    for program in language.programs:
        try:
            found = resolver.resolve(program)
        except ExecError:
            missing.append(program)
        else:
            files.append((found.host, found.inode, found.device, found.real))
    if missing:
        remedy = f"install {', '.join(missing)}; `judge languages` shows what is there"
        raise UnsupportedError(f"{language.title} is not installed", missing, remedy)
    return _asked(language, tuple(files))


@functools.lru_cache(maxsize=256)
def _asked(language: Language, files: tuple[object, ...]) -> str:
    if not language.version:
        return ""
    environment = dict((*language.environment, *language.compile_environment))
    said = ""
    try:
        result = run(language.version, policy=language.policy(), limits=_PROBE, env=environment)
    except ExecError as error:
        said = str(error)
    else:
        words = (result.stdout or result.stderr).decode("utf-8", "replace").strip()
        if result.ok and words:
            return words.splitlines()[0].strip()
        said = words or result.hint or result.status
    reason = f"`{' '.join(language.version)}` does not run in a box: {said[:200]}"
    raise UnsupportedError(reason, (language.version[0],), "give what it needs in the language's `readable`")


def installed(languages: Languages | None = None) -> list[Installed]:
    """A row for each language: whether it can be used here, and its version. For `judge languages`."""
    rows = []
    for language in (languages if languages is not None else builtin()).values():
        try:
            rows.append(Installed(language=language, installed=True, version=version_of(language)))
        except UnsupportedError as error:
            rows.append(Installed(language=language, installed=False, missing=error.missing))
    return rows
