"""Which case comes next, and what the results of the cases amount to. Pure: runs nothing, reads nothing.

Called by judging.py: `Grader(problem).cases(results)` gives cases one after the other; the caller judges each and puts its
`CaseResult` into the mapping `results` under the case's name, then asks for the next. A caller that judges several at once asks
ahead: a case without a result is taken for accepted until it has one. `grade(results)` then gives the same as if they had been
judged one by one: results of cases that would not have been judged are left out.

A package's own graders are run by the function that the caller gives; it is the only thing here that may take time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from sandbox_native.judge.graders import (
    Graded,
    Item,
    by_flags,
    by_points,
    case_item,
    grader_input,
    grader_output,
    in_range,
)
from sandbox_native.judge.outcomes import CaseResult, GroupResult
from sandbox_native.judge.values import Case, FlagGrading, Group, OnReject, PointsGrading, Problem, ProgramGrading, ScoreMode
from sandbox_native.judge.verdicts import Verdict

Results: TypeAlias = Mapping[str, CaseResult]
"""Name of a case -> how it went."""

RunGrader: TypeAlias = Callable[[tuple[str, ...], bytes], bytes | str]
"""(flags, standard input) -> standard output as bytes, or as a str why there is none (it crashed, it was too slow)."""

_NO_GRADER: Final = "the package's own grader cannot be run here"


def _cannot_run(flags: tuple[str, ...], data: bytes) -> str:
    return _NO_GRADER


@dataclass(frozen=True, kw_only=True, slots=True)
class Grade:
    """What the results amount to.

    `cases`: the results that count, in order (with `run_all` all there are). `skipped`: names of the other cases. `score` and
    `max_score` are None for a problem without scores; `max_score` is None also where there is no greatest one; a legacy package
    does not want a score to count when the verdict is not AC. `message` explains a judge error.
    """

    verdict: Verdict
    score: float | None
    max_score: float | None
    cases: tuple[CaseResult, ...]
    groups: tuple[GroupResult, ...]
    skipped: tuple[str, ...]
    message: str = ""


class Grader:
    """Grading of one problem.

    `run_all`: `cases` gives every case, whatever the groups say of stopping (to verify a package); the grade stays the same.
    """

    def __init__(self, problem: Problem, *, run_grader: RunGrader = _cannot_run, run_all: bool = False) -> None:
        self._problem = problem
        self._run_grader = run_grader
        self._run_all = run_all
        self._groups = {group.name: group for group in problem.data.groups()}
        self._counts = {name: sum(isinstance(item, Case) for item in group.items) for name, group in self._groups.items()}
        self._needed = {name: self._all_needed(group) for name, group in self._groups.items()}
        self._said: dict[tuple[tuple[str, ...], bytes], bytes | str] = {}  # by the package's own grader

    def cases(self, results: Results) -> Iterator[Case]:
        """The cases that are still to be judged as far as `results` tells when the next one is asked for."""
        yield from self._cases(self._problem.data, results, lambda: False)

    def _cases(self, group: Group, results: Results, stopped: Callable[[], bool]) -> Iterator[Case]:
        if not self._run_all and not self._required(group, results):
            return
        settled = 0  # items before it are known to be accepted
        breaks = not self._run_all and group.on_reject is OnReject.BREAK

        def rejected(upto: int) -> bool:
            nonlocal settled
            if stopped():
                return True
            while breaks and settled < upto:
                verdict = self._known(group, group.items[settled], results)
                if verdict is None:
                    return self._later_rejected(group, settled + 1, upto, results)
                if verdict is not Verdict.AC:
                    return True
                settled += 1
            return False

        for place, item in enumerate(group.items):
            if rejected(place):
                return
            if isinstance(item, Group):
                yield from self._cases(item, results, partial(rejected, place))
            elif item.name not in results:
                yield item

    def _later_rejected(self, group: Group, start: int, upto: int, results: Results) -> bool:
        """Whether one of the items behind one that is still out is known to be rejected."""
        verdicts = (self._known(group, item, results) for item in group.items[start:upto])
        return any(verdict not in (None, Verdict.AC) for verdict in verdicts)

    def _known(self, group: Group, item: Case | Group, results: Results) -> Verdict | None:
        """The verdict of an item as its group sees it; None as long as a result is missing."""
        if self._ignored(group, item):
            return Verdict.AC
        if isinstance(item, Case):
            result = results.get(item.name)
            return None if result is None else self._case(group, result).verdict
        if any(True for _ in self._cases(item, results, lambda: False)):
            return None
        return self._group(item, results, _Trail()).verdict

    def _required(self, group: Group, results: Results) -> bool:
        """Whether the groups that this one depends on are accepted, so far as is known."""
        return all(name not in results or results[name].verdict is Verdict.AC for name in self._needed[group.name])

    def _all_needed(self, group: Group) -> tuple[str, ...]:
        """The cases that must be accepted for a group to be run. Those of a group that is not run count as not accepted, so what
        it depends on is needed too."""
        found: dict[str, Group] = {}
        left = [group]
        while left:
            grading = left.pop().grading
            names = grading.require_pass if isinstance(grading, PointsGrading) else ()
            new = {name: self._groups[name] for name in names if name in self._groups and name not in found}
            found.update(new)
            left.extend(new.values())
        return tuple(case.name for one in found.values() for case in one.cases())

    @staticmethod
    def _ignored(group: Group, item: Case | Group) -> bool:
        grading = group.grading
        return isinstance(grading, FlagGrading) and grading.ignore_sample and item.name == "sample"

    def grade(self, results: Results) -> Grade:
        """Verdict, score and groups. A case that should have been judged and has no result is a judge error."""
        trail = _Trail()
        graded = self._group(self._problem.data, results, trail)
        order = {name: place for place, name in enumerate(self._groups)}
        all_cases = self._problem.cases()
        if self._run_all:
            trail.cases = [results[case.name] for case in all_cases if case.name in results]
        counted = {result.case for result in trail.cases}
        return Grade(
            verdict=graded.verdict,
            score=self._shown(graded),
            max_score=self.max_score(self._problem.data),
            cases=tuple(trail.cases),
            groups=tuple(sorted(trail.groups, key=lambda result: order[result.group])),
            skipped=tuple(case.name for case in all_cases if case.name not in counted),
            message="; ".join(trail.faults),
        )

    def _shown(self, graded: Graded) -> float | None:
        return graded.score if self._problem.scoring else None

    def _group(self, group: Group, results: Results, trail: _Trail) -> Graded:
        if not self._required(group, results):
            graded = Graded(Verdict.WA, 0.0)
            trail.groups.append(self._result(group, graded, ran=False))
            return graded
        items: list[Item] = []
        for item in group.items:
            graded = self._item(group, item, results, trail)
            if self._ignored(group, item):
                continue
            items.append(Item(graded.verdict, graded.score))
            if graded.verdict is not Verdict.AC and group.on_reject is OnReject.BREAK:
                break
        graded = self._aggregated(group, items, trail)
        trail.groups.append(self._result(group, graded))
        return graded

    def _item(self, group: Group, item: Case | Group, results: Results, trail: _Trail) -> Graded:
        if isinstance(item, Group):
            return self._group(item, results, trail)
        result = results.get(item.name)
        if result is None:
            trail.faults.append(f"{item.name} was not judged")
            return Graded(Verdict.JE, 0.0)
        trail.cases.append(result)
        graded = self._case(group, result)
        if graded.fault:
            trail.faults.append(f"{item.name}: {graded.fault}")
        return graded

    def _case(self, group: Group, result: CaseResult) -> Graded:
        count = self._counts[group.name]
        return case_item(group.grading, result, count, self._problem.scoring, self._problem.validator_scores)

    def _aggregated(self, group: Group, items: Sequence[Item], trail: _Trail) -> Graded:
        grading = group.grading
        match grading:
            case PointsGrading():
                graded = by_points(grading, items)
                if group is self._problem.data:
                    graded = _whole(graded, items)
            case FlagGrading():
                graded = in_range(grading, by_flags(grading, items))
            case ProgramGrading():
                graded = self._by_program(grading, items)
        if graded.fault:
            trail.faults.append(f"{group.name or 'data'}: {graded.fault}")
        return graded

    def _by_program(self, grading: ProgramGrading, items: Sequence[Item]) -> Graded:
        if any(item.verdict is Verdict.JE for item in items):
            return Graded(Verdict.JE, 0.0)
        question = (grading.flags, grader_input(items))
        output = self._said.get(question)
        if output is None:
            output = self._said[question] = self._run_grader(*question)
        if isinstance(output, str):
            return Graded(Verdict.JE, 0.0, output)
        return in_range(grading, grader_output(output))

    def _result(self, group: Group, graded: Graded, *, ran: bool = True) -> GroupResult:
        return GroupResult(
            group=group.name, verdict=graded.verdict, score=self._shown(graded), max_score=self.max_score(group), ran=ran
        )

    def max_score(self, group: Group) -> float | None:
        """The best score that a group can have (the least one where the problem minimises); None for no scores or no bound."""
        if not self._problem.scoring:
            return None
        grading = group.grading
        if isinstance(grading, PointsGrading):
            return grading.max_score if math.isfinite(grading.max_score) else None
        stated = grading.score_range[0 if self._problem.minimise else 1]
        if math.isfinite(stated):
            return stated
        if self._problem.validator_scores or isinstance(grading, ProgramGrading) or self._problem.minimise:
            return None
        best: list[float] = []
        for item in group.items:
            score = self.max_score(item) if isinstance(item, Group) else grading.accept_score
            if self._ignored(group, item):
                continue
            if score is None:
                return None
            best.append(score)
        return aggregate_best(grading.score_mode, best)


def aggregate_best(mode: ScoreMode, scores: Sequence[float]) -> float:
    """The best score of a group whose items have these best scores."""
    return by_flags(FlagGrading(score_mode=mode), [Item(Verdict.AC, score) for score in scores]).score


def _whole(graded: Graded, items: Sequence[Item]) -> Graded:
    """2025-09 gives a submission a score in place of a verdict: one with a score is accepted, whatever some cases say."""
    if graded.verdict is not Verdict.JE and graded.score > 0:
        return Graded(Verdict.AC, graded.score)
    if graded.verdict is Verdict.JE:
        return graded
    return Graded(items[-1].verdict if items else Verdict.AC, graded.score)


class _Trail:
    """What a pass over the tree comes by."""

    def __init__(self) -> None:
        self.cases: list[CaseResult] = []
        self.groups: list[GroupResult] = []
        self.faults: list[str] = []
