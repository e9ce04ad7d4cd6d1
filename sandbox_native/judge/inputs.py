"""Whether a package's own input validators accept its inputs. Host process; called by the judge's command when it verifies.

Source: the problem package format, "Input Validators": `validator [flags] < input`, exit code 42 for an input as it should be;
every validator must accept every input.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sandbox_native.errors import SandboxError, UnsupportedError
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.helpers import Helper, helper
from sandbox_native.judge.setup import Options
from sandbox_native.judge.validators import ACCEPT
from sandbox_native.judge.values import Case, Problem, ProgramSource
from sandbox_native.options import Job
from sandbox_native.result import Result

_WORDS: Final = 300


def input_faults(problem: Problem, options: Options) -> Iterator[str]:
    """What its input validators object to, one line for each input and validator as it is found; and which of them cannot be
    run. UnsupportedError: the machine lacks a compiler or a layer."""
    with Boxes() as boxes:
        for source in problem.input_validators:
            role = f"the input validator {source.name}"
            try:
                validator = helper(role, source, problem.limits, boxes, options.languages, options.store)
            except UnsupportedError:
                raise
            except SandboxError as error:
                yield f"{role} cannot be run: {error}"
            else:
                yield from _objections(validator, source, problem.cases())


def _objections(validator: Helper, source: ProgramSource, cases: tuple[Case, ...]) -> Iterator[str]:
    jobs = (
        Job(
            argv=validator.argv(_flags(case, source)),
            stdin=case.input,
            limits=validator.limits,
            env=validator.program.env,
            merge_stderr=True,
        )
        for case in cases
    )
    for case, outcome in zip(cases, validator.sandbox.map(jobs), strict=True):
        if isinstance(outcome, SandboxError):
            raise outcome
        if outcome.exit_code != ACCEPT:
            yield f"{case.name}.in: {_words(validator, outcome)}"


def _flags(case: Case, source: ProgramSource) -> tuple[str, ...]:
    """Flags are for all validators, or by name (with or without ending)."""
    flags = case.input_validator_flags
    if isinstance(flags, tuple):
        return flags
    return flags.get(source.name, flags.get(source.name.rpartition(".")[0], ()))


def _words(validator: Helper, result: Result) -> str:
    said = " ".join(result.stdout[-_WORDS:].decode("utf-8", "replace").split())
    return f"{validator.fault(result)}{f': {said}' if said else ''}"
