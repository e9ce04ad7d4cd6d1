"""What the judge's command is asked: the problem with the command's own limits and comparison, and the submissions. Host process.

Called by cli.py with what the command line says.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from sandbox_native.errors import PolicyError
from sandbox_native.judge.checkers import comparison
from sandbox_native.judge.handed_in import SourceError, source_at
from sandbox_native.judge.judging import refused
from sandbox_native.judge.languages import Languages, builtin
from sandbox_native.judge.outcomes import Judgement
from sandbox_native.judge.problems import load_problem, unpack_package
from sandbox_native.judge.problems.archive import ENDINGS
from sandbox_native.judge.problems.default_flags import wrong_validator_flags
from sandbox_native.judge.values import Checker, CheckerKind, Problem, Submission
from sandbox_native.limits import Limits


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What to judge and how, as the command line says it."""

    package: str
    submissions: Sequence[str]
    verify: bool
    """The package's own submissions too."""
    as_json: bool
    html: str | None
    journal: str | None
    languages: str | None
    language: str | None
    """Of the submissions that are named."""
    checker: str | None
    cpu_seconds: float | None
    memory_bytes: int | None
    workers: int | None
    run_all: bool
    quiet: bool


def languages_of(path: str | None) -> Languages:
    """Those that come with the package, and what a file adds."""
    return builtin() if path is None else builtin().with_file(path)


def problem_of(asked: Asked, held: ExitStack) -> Problem:
    """The problem, with what the command says of it. An archive is unpacked, and `held` removes that in the end."""
    problem = load_problem(_directory(asked, held))
    if asked.memory_bytes is not None:
        Limits(memory_bytes=asked.memory_bytes)  # PolicyError: no program could have so little or so much
        problem = replace(problem, limits=replace(problem.limits, memory_bytes=asked.memory_bytes))
    if asked.checker is None:
        return problem
    if problem.format != "folder":
        reason = "the package itself says how outputs are compared"
        raise PolicyError(reason, field="--checker", value=asked.checker, remedy="leave it out: it is for folders of cases")
    return replace(problem, checker=checker_of(asked.checker))


def _directory(asked: Asked, held: ExitStack) -> str:
    if not asked.package.endswith(ENDINGS) or not os.path.isfile(asked.package):
        return asked.package
    if asked.journal is not None:
        reason = "a journal knows a package by its files, and those of an archive are new each time"
        remedy = "unpack it once and name its directory, or leave --resume out"
        raise PolicyError(reason, field="PACKAGE", value=asked.package, remedy=remedy)
    place = held.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-native-package-"))
    return str(unpack_package(asked.package, place))


def checker_of(words: str) -> Checker:
    """The comparison of that name, or the default one with these flags. PolicyError: there is no such one."""
    kinds = {kind.value: kind for kind in CheckerKind if kind is not CheckerKind.PROGRAM}
    first, *rest = words.split() or [""]
    kind, flags = (kinds[first], rest) if first in kinds else (CheckerKind.DEFAULT, words.split())
    wrong = wrong_validator_flags(flags) if kind is CheckerKind.DEFAULT else "it has no flags" if flags else ""
    if wrong or not first:
        remedy = f"give flags of the default comparison, such as 'float_tolerance 1e-6', or one of {', '.join(kinds)}"
        raise PolicyError(wrong or "empty", field="--checker", value=words, remedy=remedy)
    comparison(kind, flags)
    return Checker(kind=kind, flags=tuple(flags))


def sources_of(asked: Asked, problem: Problem, languages: Languages) -> list[Submission | Judgement]:
    """Those of the package, then those that were named; each goes by its path. One whose author handed in no program is judged
    already. PolicyError: none, one is not there, or there is no such language."""
    language = None if asked.language is None else languages.named(asked.language).name
    given = [_handed_in(path, problem, language) for path in dict.fromkeys(asked.submissions)]
    found = [*(problem.submissions if asked.verify else ()), *given]
    if not found:
        raise PolicyError(
            "the package has no submissions", field="PACKAGE", value=asked.package, remedy="name some: --submission FILE …"
        )
    return found


def _handed_in(path: str, problem: Problem, language: str | None) -> Submission | Judgement:
    try:
        return replace(source_at(path), name=path, language=language)
    except SourceError as error:
        return refused(path, problem.name, error)


def meant_as_many(path: str) -> bool:
    """Whether a submission that did not compile may have been a folder of submissions."""
    try:
        return os.path.isdir(path) and not os.path.islink(path) and len(os.listdir(path)) > 1
    except OSError:
        return False
