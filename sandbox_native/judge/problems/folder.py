"""Problems without a package: a folder of files, and a list of cases in memory.

`read_folder` is called by `load_problem`; `problem_of_cases` by training loops and by whoever has the cases at hand.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Final

from sandbox_native.judge.problems.cases import Found, by_stem, found_cases, subdirectories
from sandbox_native.judge.problems.domjudge import INI
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.metadata import FILE
from sandbox_native.judge.problems.tree import Tree, open_tree
from sandbox_native.judge.values import Case, Checker, FlagGrading, Group, OnReject, Problem, ProblemLimits, ScoreMode, Source

PACKAGE_FILES: Final = (FILE, INI)
"""A directory that has one of them is a package."""
_ANSWERS: Final = ("ans", "out")
_MOST_LOOSE: Final = 10
_DIGITS: Final = re.compile(r"(\d+)")


def read_folder(
    path: str | os.PathLike[str],
    *,
    limits: ProblemLimits | None = None,
    checker: Checker | None = None,
    on_reject: OnReject = OnReject.BREAK,
) -> Problem:
    """The problem whose cases are the files `1.in 1.ans` (or `1.in 1.out`) of a folder and of the folders in it.

    In the order of the names, with numbers as numbers: 2 before 10. `Problem.notes` says what else lies there. ProblemError when
    there are no cases, one lacks a file or has a name that cannot be shown, or a package lies in the folder.
    """
    tree = open_tree(path, plain=True)
    _refuse_packages(tree)
    answers = next((ending for ending in _ANSWERS if any(f.name.endswith(f".{ending}") for f in tree.files(""))), _ANSWERS[0])
    loose: list[str] = []
    found = sorted(_found(tree, "", answers, loose), key=lambda case: _natural(case.name))
    _refuse_unshown(tree)
    if not found:
        raise ProblemError(
            "there are no cases in it",
            file=tree.root.name,
            field="cases",
            value=[entry.name for entry in tree.children("")],
            remedy="put pairs of files there: 1.in and 1.ans; a package has a problem.yaml",
        )
    cases = tuple(Case(name=case.name, input=case.input.path, answer=case.answer.path, files=case.files) for case in found)
    return Problem(
        name=tree.root.name,
        format="folder",
        root=tree.root,
        data=Group(items=cases, on_reject=on_reject),
        limits=limits or ProblemLimits(),
        checker=checker or Checker(),
        notes=(*_loose(loose), *tree.notes),
    )


def _found(tree: Tree, inside: str, answers: str, loose: list[str]) -> Iterator[Found]:
    """`loose` is told of the files that belong to no case."""
    for case in found_cases(tree, inside, answers=answers):
        case.name = case.name.lstrip("/")
        yield case
    stems = by_stem(tree, inside, answers)
    known = {entry.inside for entries in stems.values() if "in" in entries for entry in entries.values()}
    loose += (entry.inside for entry in tree.children(inside) if not entry.directory and entry.inside not in known)
    for entry in subdirectories(tree, inside):
        yield from _found(tree, entry.inside, answers, loose)


def _loose(names: list[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - _MOST_LOOSE} more" if len(names) > _MOST_LOOSE else ""
        yield f"{', '.join(names[:_MOST_LOOSE])}{more}: of no case: ignored"


def _refuse_packages(tree: Tree) -> None:
    """A package's cases without its validator and limits would be another problem."""
    for entry in tree.files(""):
        if entry.name in PACKAGE_FILES:
            place = entry.inside.rpartition("/")[0]
            raise ProblemError(
                "it is no package itself, and one lies in it",
                file=tree.root.name,
                field="package",
                value=place or entry.name,
                remedy=f"name the package: {tree.root / place}",
            )


def _refuse_unshown(tree: Tree) -> None:
    """A case is not left out for the characters of its name."""
    for name in tree.ignored:
        stem, _, ending = name.rpartition("/")[2].rpartition(".")
        if stem and ending in ("in", *_ANSWERS) and not stem.startswith("."):
            raise ProblemError(
                "its name has characters that cannot be shown",
                file=name,
                field="name",
                value=name,
                remedy="rename it",
            )


def _natural(name: str) -> list[tuple[int, int, str]]:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in _DIGITS.split(name) if part]


def problem_of_cases(
    cases: Iterable[Case | tuple[Source | str, Source | str]],
    *,
    name: str = "cases",
    limits: ProblemLimits | None = None,
    checker: Checker | None = None,
    on_reject: OnReject = OnReject.BREAK,
    scoring: bool = False,
) -> Problem:
    """The problem of these cases, each a `Case` or a pair of input and answer (texts are encoded as UTF-8).

    Pairs are called "1", "2" … With `scoring` the score is the share of cases that are accepted, and all are judged.
    ProblemError when there are none, or two have one name.
    """
    made = tuple(case if isinstance(case, Case) else _pair(case, number) for number, case in enumerate(cases, 1))
    if not made:
        raise ProblemError("a problem has at least one case", field="cases", value=(), remedy="give one")
    seen: set[str] = set()
    for case in made:
        if case.name in seen:
            raise ProblemError("two cases have the same name", field="name", value=case.name, remedy="rename one")
        seen.add(case.name)
    return Problem(
        name=name,
        data=Group(
            items=made,
            on_reject=OnReject.CONTINUE if scoring else on_reject,
            grading=FlagGrading(score_mode=ScoreMode.AVG, score_range=(0.0, 1.0)) if scoring else FlagGrading(),
        ),
        limits=limits or ProblemLimits(),
        checker=checker or Checker(),
        scoring=scoring,
    )


def _pair(pair: tuple[Source | str, Source | str], number: int) -> Case:
    if not isinstance(pair, tuple) or len(pair) != 2:
        raise ProblemError(
            "a case is a Case, or a pair of input and answer",
            field=f"cases[{number - 1}]",
            value=pair,
            remedy="give (b'1 2\\n', b'3\\n'), say",
        )
    given, answer = (part.encode() if isinstance(part, str) else part for part in pair)
    return Case(name=str(number), input=given, answer=answer)
