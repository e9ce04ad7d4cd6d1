"""What tests a package's validators: data/invalid_input, data/invalid_output and data/valid_output, and the outputs that samples
show in place of their answers.

`read_validation_data` is called by package.py for the 2025-09 format; the legacy ones have none of it. A directory's
test_group.yaml holds for the cases in it and below.

Source: the specification's version 2025-09, "Validation test data" and, for `.out` of samples, "Test cases".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sandbox_native.judge.problems.cases import by_stem, files_of, subdirectories
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.fields import Fields
from sandbox_native.judge.problems.metadata import Metadata
from sandbox_native.judge.problems.test_groups import FILE, Arguments, read_arguments
from sandbox_native.judge.problems.tree import Entry, Tree
from sandbox_native.judge.problems.yaml_file import load
from sandbox_native.judge.values import Case, ValidationCase, ValidationKind


def read_validation_data(tree: Tree, metadata: Metadata, notes: list[str]) -> tuple[ValidationCase, ...]:
    """All of it, ordered by name. ProblemError for a case that lacks a file, and for what its settings may not say."""
    found: list[ValidationCase] = []
    for kind in ValidationKind:
        inside = f"data/{kind}"
        if metadata.interactive and kind is not ValidationKind.INVALID_INPUT:
            if tree.children(inside):
                notes.append(f"{inside}/ is for problems that are not interactive: ignored")
        else:
            found.extend(_cases(tree, inside, kind, Arguments()))
    if not metadata.interactive:
        settings = _read(_fields(tree, f"data/sample/{FILE}"), Arguments())  # the rest of it is for whoever reads groups
        found.extend(_samples(tree, "data/sample", settings))
    return tuple(found)


def _cases(tree: Tree, inside: str, kind: ValidationKind, inherited: Arguments) -> Iterator[ValidationCase]:
    settings = _settings(tree, inside, inherited)
    asked = ("in",) if kind is ValidationKind.INVALID_INPUT else ("in", "ans", "out")
    for stem, entries in by_stem(tree, inside).items():
        for ending in asked:
            if ending not in entries:
                raise ProblemError(
                    f"a case of {kind} has the endings {', '.join(asked)}",
                    file=next(iter(entries.values())).inside,
                    field=ending,
                    value=f"{inside}/{stem}.{ending}",
                    remedy="add that file, or remove the others",
                )
        yield _case(tree, f"{inside}/{stem}", entries, kind, settings)
    for entry in subdirectories(tree, inside):
        yield from _cases(tree, entry.inside, kind, settings)


def _samples(tree: Tree, inside: str, settings: Arguments) -> Iterator[ValidationCase]:
    for stem, entries in by_stem(tree, inside).items():
        if "out" in entries and "in" in entries:
            yield _case(tree, f"{inside}/{stem}", entries, ValidationKind.VALID_OUTPUT, settings)
    for entry in subdirectories(tree, inside):
        yield from _samples(tree, entry.inside, settings)


def _case(tree: Tree, inside: str, entries: Mapping[str, Entry], kind: ValidationKind, inherited: Arguments) -> ValidationCase:
    fields = _fields(tree, f"{inside}.yaml")
    arguments = _read(fields, inherited)
    fields.ignore("hint")
    description = fields.text("description")
    fields.done()
    answer, output = entries.get("ans"), entries.get("out")
    return ValidationCase(
        kind=kind,
        case=Case(
            name=inside.removeprefix("data/"),
            input=entries["in"].path,
            answer=None if answer is None else answer.path,
            arguments=arguments.args,
            files=files_of(tree, entries.get("files")),
            checker_flags=arguments.output_validator,
            input_validator_flags=arguments.input_validator,
            description=description,
        ),
        output=b"" if output is None else output.path,
    )


def _settings(tree: Tree, inside: str, inherited: Arguments) -> Arguments:
    fields = _fields(tree, f"{inside}/{FILE}")
    settings = _read(fields, inherited)
    fields.ignore("description")
    fields.done()
    return settings


def _read(fields: Fields, inherited: Arguments) -> Arguments:
    fields.ignore("args", "input_validator_args", "output_validator_args", "input_visualizer_args", "output_visualizer_args")
    return read_arguments(fields, inherited)


def _fields(tree: Tree, inside: str) -> Fields:
    entry = tree.entry(inside)
    return Fields(load(tree.text(entry), inside) if entry else None, inside)
