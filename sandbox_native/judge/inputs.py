"""Whether a package's own input validators accept its inputs, and refuse what is to be refused. Host process; called by
verification.py.

Source: the problem package format, "Input Validators": `validator [flags] [args] < input` beside its own files and those of the
case, exit code 42 for an input as it should be;
every validator must accept every input, those of invalid_output and valid_output too, and at least one must refuse each of
invalid_input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from sandbox_native.errors import SandboxError, UnsupportedError
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.helpers import Helper, helper, limit_of
from sandbox_native.judge.problems.programs import foreign
from sandbox_native.judge.setup import Options
from sandbox_native.judge.validators import ACCEPT
from sandbox_native.judge.values import Case, Problem, ProgramSource, ValidationKind
from sandbox_native.options import Job
from sandbox_native.result import Result

_WORDS: Final = 300


def input_faults(problem: Problem, options: Options) -> Iterator[str]:
    """What its input validators object to, one line for each input and validator as it is found; which of them cannot be run; and
    what none of them refuses that is to be refused. UnsupportedError: the machine lacks a compiler or a layer."""
    invalid = [one.case for one in problem.validation if one.kind is ValidationKind.INVALID_INPUT]
    others = (one.case for one in problem.validation if one.kind is not ValidationKind.INVALID_INPUT)
    valid = {case.name: case for case in (*problem.cases(), *others)}.values()  # a sample's output has the sample's input
    refused: set[str] = set()
    all_ran = True
    with Boxes() as boxes:
        for source in problem.input_validators:
            if foreign(source):  # the problem's notes say so
                all_ran = False
                continue
            role = f"the input validator {source.name}"
            try:
                validator = helper(role, source, problem.limits, boxes, options.languages, options.store)
            except UnsupportedError:
                raise
            except SandboxError as error:
                all_ran = False
                yield f"{role} cannot be run: {error}"
                continue
            yield from (f"{case.name}.in: {words}" for case, words, _ in _objections(validator, source, valid))
            for case, words, limit in _objections(validator, source, invalid):
                refused.add(case.name)
                if limit:  # it has not said anything
                    yield f"{case.name}.in: {words}"
    if all_ran:  # else nobody knows what the others would say
        yield from (f"{case.name}.in: no input validator refuses it" for case in invalid if case.name not in refused)


def _objections(validator: Helper, source: ProgramSource, cases: Iterable[Case]) -> Iterator[tuple[Case, str, str | None]]:
    """Each case that it does not accept, what it says, and the limit that it passed, if it did."""
    asked: list[Case] = []
    for case in cases:
        both = {file.name for file in case.files} & {file.name for file in source.files}
        if both:
            yield case, f"{', '.join(sorted(both))}: a file of the case and of the input validator {source.name}", None
        else:
            asked.append(case)
    jobs = (
        Job(
            argv=validator.argv(_flags(case, source)),
            stdin=case.input,
            limits=validator.limits,
            env=validator.program.env,
            files=_files(case, source),
            merge_stderr=True,
        )
        for case in asked
    )
    for case, outcome in zip(asked, validator.sandbox.map(jobs), strict=True):
        if isinstance(outcome, SandboxError):
            raise outcome
        if outcome.exit_code != ACCEPT:
            yield case, _words(validator, outcome), limit_of(outcome)


def _flags(case: Case, source: ProgramSource) -> tuple[str, ...]:
    """Flags are for all validators, or by name (with or without ending); the submission's own arguments follow."""
    flags = case.input_validator_flags
    if not isinstance(flags, tuple):
        flags = flags.get(source.name, flags.get(source.name.rpartition(".")[0], ()))
    return *flags, *case.arguments


def _files(case: Case, source: ProgramSource) -> dict[str, bytes]:
    """What a validator finds in its working directory."""
    files = (*source.files, *case.files)
    return {file.name: file.content if isinstance(file.content, bytes) else file.content.read_bytes() for file in files}


def _words(validator: Helper, result: Result) -> str:
    said = " ".join(result.stdout[-_WORDS:].decode("utf-8", "replace").split())
    return f"{validator.fault(result)}{f': {said}' if said else ''}"
