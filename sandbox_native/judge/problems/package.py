"""A problem package, read whole: `read_package`, called by `load_problem` and by users.

The parts are read by the other modules of problems/; here they are put together, and what must hold between them is checked.
A judge needs less than the format asks for: a statement or input validators may be missing, `Problem.notes` says what a reader
should know. Source: the problem package format's specification, https://www.kattis.com/problem-package-format.
"""

from __future__ import annotations

import math
import os
from dataclasses import replace
from typing import Final

from sandbox_native.judge.problems import domjudge
from sandbox_native.judge.problems.default_flags import wrong_validator_flags
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.metadata import DRAFTS, FILE, Metadata, read_metadata
from sandbox_native.judge.problems.programs import every_program, foreign, included, only_program, program
from sandbox_native.judge.problems.submissions import read_submissions
from sandbox_native.judge.problems.test_groups import read_test_groups
from sandbox_native.judge.problems.testdata import read_testdata
from sandbox_native.judge.problems.tree import Tree, open_tree
from sandbox_native.judge.problems.validation_data import read_validation_data
from sandbox_native.judge.problems.yaml_file import load
from sandbox_native.judge.values import (
    Checker,
    CheckerKind,
    Group,
    PointsGrading,
    Problem,
    ProblemLimits,
    ProgramGrading,
    ProgramSource,
    ScoreMode,
)

_OLD_PLACE: Final = "output_validators"
_NEW_PLACE: Final = "output_validator"


def read_package(path: str | os.PathLike[str]) -> Problem:
    """The problem in a package's directory. ProblemError (with file, field, value, reason, remedy) when it is bad.

    UnsupportedError where PyYAML is missing. The files of the package are opened again when they are used: it must stay as it is.
    """
    tree = open_tree(path)
    entry = tree.entry(FILE)
    if entry is None and tree.entry(domjudge.INI) is None:
        raise ProblemError(
            f"a package has a {FILE}",
            file=tree.root.name,
            field="files",
            value=[child.name for child in tree.children("")],
            remedy="name the package's own directory, or add the file (it may be empty)",
        )
    settings = domjudge.read_settings(tree)
    metadata = read_metadata(load(tree.text(entry), FILE) if entry else None, limited=settings.cpu_seconds is not None)
    notes: list[str] = []
    data = _data(tree, metadata, notes)
    checker = _checker(tree, metadata, notes)
    _check_flags(data, checker, metadata)
    grader = only_program(tree, "graders", metadata.constants, "grader") if metadata.legacy else None
    _check_grading(data, grader, checker, metadata)
    submissions = read_submissions(tree, metadata, notes)
    input_validators = every_program(tree, "input_validators", metadata.constants)
    input_validators = input_validators or every_program(tree, "input_format_validators", metadata.constants)
    notes += (f"the input validator {one.name} is not run: {foreign(one)}" for one in input_validators if foreign(one))
    return Problem(
        name=tree.root.name,
        title=metadata.title or settings.title,
        format=metadata.format,
        root=tree.root,
        data=data,
        limits=_limits(metadata.limits, settings),
        checker=checker,
        scoring=metadata.scoring,
        interactive=metadata.interactive,
        multi_pass=metadata.multi_pass,
        minimise=metadata.minimise,
        validator_scores=metadata.validator_scores,
        grader=grader,
        input_validators=input_validators,
        validation=() if metadata.legacy else read_validation_data(tree, metadata, notes),
        languages=metadata.languages,
        include=included(tree, metadata.constants),
        submissions=submissions,
        notes=(*notes, *tree.notes),
    )


def _data(tree: Tree, metadata: Metadata, notes: list[str]) -> Group:
    """2023-07-draft had the test data of the legacy format at first, with testdata.yaml."""
    drafted = metadata.format in DRAFTS and not any(file.name == "test_group.yaml" for file in tree.files("data"))
    if metadata.legacy or drafted:
        return read_testdata(tree, metadata, notes)
    return read_test_groups(tree, metadata, notes)


def _checker(tree: Tree, metadata: Metadata, notes: list[str]) -> Checker:
    validator = _old_validator(tree, metadata, notes) if metadata.legacy else _new_validator(tree, metadata)
    if validator is not None:
        return Checker(kind=CheckerKind.PROGRAM, program=validator)
    for kind, asked in (("interactive", metadata.interactive), ("multi-pass", metadata.multi_pass)):
        if asked:
            raise ProblemError(
                "such a problem needs an output validator of its own",
                file=FILE,
                field="validation" if metadata.legacy else "type",
                value=kind,
                remedy=f"put it into {_OLD_PLACE if metadata.legacy else _NEW_PLACE}/",
            )
    return Checker()


def _old_validator(tree: Tree, metadata: Metadata, notes: list[str]) -> ProgramSource | None:
    validator = None
    if metadata.custom:
        validator = only_program(tree, _OLD_PLACE, metadata.constants, "output validator")
        if validator is None:
            raise ProblemError(
                "the package has no output validator",
                file=FILE,
                field="validation",
                value="custom",
                remedy=f"put it into {_OLD_PLACE}/, or write `validation: default`",
            )
    elif tree.children(_OLD_PLACE):
        notes.append(f"{_OLD_PLACE}/ is not used: problem.yaml does not say `validation: custom`")
    return validator


def _new_validator(tree: Tree, metadata: Metadata) -> ProgramSource | None:
    for place, remedy in ((_OLD_PLACE, f"rename it to {_NEW_PLACE}/"), ("static_validator", "remove it to judge without")):
        if tree.children(place):
            raise ProblemError(
                "it has no meaning in this version of the format, or cannot be run by this judge",
                file=f"{place}/",
                field="problem_format_version",
                value=metadata.format,
                remedy=remedy,
            )
    entries = tree.children(_NEW_PLACE)
    if not entries:
        return None
    if len(entries) == 1:
        return program(tree, entries[0], metadata.constants)
    where = tree.entry(_NEW_PLACE)
    assert where is not None
    return program(tree, where, metadata.constants)


def _check_flags(data: Group, checker: Checker, metadata: Metadata) -> None:
    """The default validator's flags are known, so wrong ones are found before anything runs."""
    if checker.kind is not CheckerKind.DEFAULT:
        return
    for flags in {case.checker_flags: case for case in data.cases()}:
        wrong = wrong_validator_flags(flags, repeated=metadata.legacy)
        if wrong:
            case = next(case for case in data.cases() if case.checker_flags == flags)
            own = flags != metadata.validator_flags
            raise ProblemError(
                wrong,
                file=f"data/{case.name}" if own else FILE,
                field=("output_validator_flags" if metadata.legacy else "output_validator_args") if own else "validator_flags",
                value=" ".join(flags),
                remedy="correct it, or give the package an output validator of its own",
            )


def _check_grading(data: Group, grader: ProgramSource | None, checker: Checker, metadata: Metadata) -> None:
    for group in data.groups():
        grading, file = group.grading, f"data/{group.name}".rstrip("/")
        if isinstance(grading, ProgramGrading) and (grader is None or not metadata.scoring):
            raise ProblemError(
                "the package has no grader" if metadata.scoring else "graders are for scoring problems only",
                file=f"{file}/testdata.yaml",
                field="grading",
                value="custom",
                remedy="put it into graders/, or write `grading: default`",
            )
        if not isinstance(grading, PointsGrading) or group.name in ("", "sample") or not math.isinf(grading.max_score):
            continue
        if checker.kind is CheckerKind.DEFAULT and grading.score_mode is not ScoreMode.PASS_FAIL:
            raise ProblemError(
                "its cases have no maximal score, so a validator of the package's own must give scores, and there is none",
                file=f"{file}/test_group.yaml",
                field="max_score",
                value="unbounded",
                remedy=f"write a number, or add {_NEW_PLACE}/",
            )


def _limits(limits: ProblemLimits, settings: domjudge.Settings) -> ProblemLimits:
    if settings.cpu_seconds is None:
        return limits
    if limits.cpu_seconds not in (None, settings.cpu_seconds):
        raise ProblemError(
            f"problem.yaml has another time limit: {limits.cpu_seconds:g} s",
            file=settings.time_file,
            field="timelimit",
            value=settings.cpu_seconds,
            remedy="keep one of them",
        )
    return replace(limits, cpu_seconds=settings.cpu_seconds)
