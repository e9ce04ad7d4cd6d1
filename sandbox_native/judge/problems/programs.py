"""Programs of a package as their files: submissions, validators, graders, included files.

Used by package.py and submissions.py. Nothing is compiled or run here, and the language is left to whoever does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.tree import Entry, Tree
from sandbox_native.judge.values import ProgramSource, Source, SourceFile
from sandbox_native.units import format_bytes

MOST_PROGRAM_BYTES: Final = 64 << 20
_MOST_FILES: Final = 2_000
_SCRIPTS: Final = frozenset({"build", "run"})
_BESIDE: Final = frozenset({"h", "hh", "hpp", "hxx", "txt", "md", "tex", "yaml", "json"})  # never a program of its own
_FOREIGN: Final = {
    "ctd": "Checktestdata files are for the tool of that name",
    "viva": "VIVA files are for the tool of that name",
}
_SEQUENCE: Final = re.compile(rb"\{\{([a-zA-Z_][a-zA-Z0-9_]*(?:\.[a-zA-Z0-9_]+)?)\}\}")

Constants = Mapping[bytes, bytes]
"""What stands for `{{name}}` and `{{name.variant}}` in a package's programs."""


def program(tree: Tree, entry: Entry, constants: Constants, name: str = "") -> ProgramSource:
    """The program that a file or a directory is. ProblemError when it has no files, or too many or too large ones."""
    entries = list(tree.files(entry.inside)) if entry.directory else [entry]
    if not entries:
        raise ProblemError(
            "a program has at least one file",
            file=entry.inside,
            field="files",
            value=(),
            remedy="put its source there, or remove it",
        )
    size = sum(file.size for file in entries)
    if len(entries) > _MOST_FILES or size > MOST_PROGRAM_BYTES:
        raise ProblemError(
            f"a program has at most {_MOST_FILES:,} files and {format_bytes(MOST_PROGRAM_BYTES)}",
            file=entry.inside,
            field="files",
            value=f"{len(entries):,} files, {format_bytes(size)}",
            remedy="keep only what it needs",
        )
    cut = len(entry.inside) + 1 if entry.directory else len(entry.inside) - len(entry.name)
    files = tuple(_file(tree, file, file.inside[cut:], constants) for file in entries)
    return ProgramSource(name=name or entry.name, files=files)


def _file(tree: Tree, entry: Entry, name: str, constants: Constants) -> SourceFile:
    content: Source = entry.path
    if constants:
        written = tree.content(entry, MOST_PROGRAM_BYTES)
        replaced = _SEQUENCE.sub(lambda match: constants.get(match[1], match[0]), written)
        content = entry.path if replaced == written else replaced
    return SourceFile(name=name, content=content, executable=entry.executable or name in _SCRIPTS)


def only_program(tree: Tree, inside: str, constants: Constants, kind: str) -> ProgramSource | None:
    """The one program of a directory such as `output_validators/`, None when there is none.

    It is a directory in there, or the files that lie there. ProblemError when there are several.
    """
    entries = [entry for entry in tree.children(inside) if entry.directory or not _is_beside(entry)]
    if not entries:
        return None
    if len(entries) > 1 and not any(entry.name in _SCRIPTS for entry in entries):
        raise ProblemError(
            f"there must be one {kind}, and there are {len(entries)}",
            file=f"{inside}/",
            field=kind,
            value=", ".join(entry.name for entry in entries),
            remedy="keep one; several files of one program belong into a directory of their own",
        )
    if entries[0].directory:
        return program(tree, entries[0], constants)
    where = tree.entry(inside)
    assert where is not None
    return program(tree, where, constants, entries[0].name)


def every_program(tree: Tree, inside: str, constants: Constants) -> tuple[ProgramSource, ...]:
    """All programs of a directory such as `input_validators/`, ordered by name."""
    return tuple(program(tree, entry, constants) for entry in tree.children(inside) if entry.directory or not _is_beside(entry))


def foreign(validator: ProgramSource) -> str:
    """Why an input validator is none that this judge runs; empty when it does."""
    if len(validator.files) > 1:
        return ""
    return _FOREIGN.get(validator.files[0].name.rpartition(".")[2], "")


def included(tree: Tree, constants: Constants) -> dict[str, tuple[SourceFile, ...]]:
    """The files of `include/`, by language code."""
    return {
        entry.name: program(tree, entry, constants).files
        for entry in tree.children("include")
        if entry.directory and tree.children(entry.inside)
    }


def _is_beside(entry: Entry) -> bool:
    _, dot, ending = entry.name.rpartition(".")
    return (bool(dot) and ending.lower() in _BESIDE) or entry.name.upper().startswith(("README", "LICENSE", "MAKEFILE"))
