"""What is wrong with a package itself, whatever its submissions get: its time limit, its inputs, its validators. Host process;
called by the judge's command when it verifies.

Source: the problem package format 2025-09, "Problem timing", "Input validators" and "Validation test data".
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Final

from sandbox_native.errors import SandboxError, UnsupportedError
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.inputs import input_faults
from sandbox_native.judge.opinions import Check
from sandbox_native.judge.problems.metadata import CURRENT
from sandbox_native.judge.setup import Options, Setup
from sandbox_native.judge.timing import bounds_from_below
from sandbox_native.judge.values import Problem, ProblemLimits, ValidationCase, ValidationKind
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.units import format_bytes

_ROUNDING: Final = 1e-9
_DEFAULT: Final = ProblemLimits()


def package_faults(problem: Problem, options: Options) -> Iterator[str]:
    """A line for each, as it is found. UnsupportedError: the machine lacks a compiler or a layer."""
    yield from timing_faults(problem)
    yield from memory_faults(problem)
    yield from input_faults(problem, options)
    yield from output_faults(problem, options)


def timing_faults(problem: Problem) -> Iterator[str]:
    """What the format asks of a time limit beside its distance from submissions (bounds.py). The legacy one asks nothing."""
    limit, resolution = problem.limits.cpu_seconds, problem.limits.time_resolution_seconds
    if problem.format != CURRENT:
        return
    if limit is not None and abs(limit / resolution - round(limit / resolution)) > _ROUNDING * max(1.0, limit / resolution):
        yield f"problem.yaml: limits.time_limit: {limit:g} is not a multiple of time_resolution, {resolution:g}"
    if not any(bounds_from_below(source) for source in problem.submissions):
        yield "submissions/: none of them is a lower bound of the time limit (accepted/ is)"


def memory_faults(problem: Problem) -> Iterator[str]:
    """Limits of memory that this machine cannot honour: a program would be ended by something else before it is there."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = problem.limits
    for name, asked in (
        ("memory", limits.memory_bytes),
        ("compilation_memory", limits.compilation_memory_bytes),
        ("validation_memory", limits.validation_memory_bytes),
    ):
        if asked > max(there, getattr(_DEFAULT, f"{name}_bytes")):  # what is not stated asks for nothing
            yield f"problem.yaml: limits.{name}: {format_bytes(asked)}, and this machine has {format_bytes(there)}"


def output_faults(problem: Problem, options: Options) -> Iterator[str]:
    """Valid outputs that the checker does not accept, and invalid ones that it does not reject. Errors as of `package_faults`."""
    wanted = [one for one in problem.validation if one.kind is not ValidationKind.INVALID_INPUT]
    if not wanted:
        return
    with ExitStack() as held:
        setup = held.enter_context(Setup(problem, options, held.enter_context(Boxes())))
        try:
            check = setup.check()
        except UnsupportedError:
            raise
        except SandboxError as error:
            yield str(error)
            return
        for one in wanted:
            yield from _fault(one, check)


def _fault(one: ValidationCase, check: Check) -> Iterator[str]:
    asked = Verdict.AC if one.kind is ValidationKind.VALID_OUTPUT else Verdict.WA
    try:
        if isinstance(one.output, bytes):
            found = check(one.case, one.output)
        else:
            with open(one.output, "rb") as output:
                found = check(one.case, output)
    except UnsupportedError:
        raise
    except (SandboxError, OSError) as error:
        yield f"{one.case.name}.out: {error}"
        return
    if found.verdict is not asked:
        should = "accepted" if asked is Verdict.AC else "rejected"
        said = f": {' '.join(found.message.split())}" if found.message else ""
        yield f"{one.case.name}.out: the output validator should have {should} it, and said {found.verdict}{said}"
