"""``sandbox-native judge``: submissions to one problem, many at once, their judgements as they come, and on from an earlier run.

Called by :mod:`sandbox_native.cli` with checked values. Exit status: 0 when every submission was judged and got what the
package expects of it, if it expects anything; 1 when one did not, or a package that is verified has faults of its own; 125 when
nothing can be judged; 130 after Ctrl-C, with what was done by then told and kept.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import Any, Final

from sandbox_native import cliout
from sandbox_native.errors import PolicyError
from sandbox_native.interrupts import Interrupts
from sandbox_native.judge.asked import Asked, languages_of, meant_as_many, problem_of, sources_of
from sandbox_native.judge.calibrate import calibrate
from sandbox_native.judge.journal import Journal
from sandbox_native.judge.languages import installed
from sandbox_native.judge.outcomes import Judgement
from sandbox_native.judge.report import Report
from sandbox_native.judge.setup import Options
from sandbox_native.judge.summary import limits_in_words, summary_rows
from sandbox_native.judge.timing import inferred_limit
from sandbox_native.judge.values import Problem, Submission
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.judge.verification import package_faults
from sandbox_native.judge.workers import Judge, Judged
from sandbox_native.progress import Show, shown_on, silent
from sandbox_native.tables import print_table
from sandbox_native.units import format_seconds

_NOT_AS_EXPECTED: Final = 1
_INTERRUPTED: Final = 130

Told = Mapping[str, Any]
"""A judgement as of `Judgement.to_dict`."""


def run_judge(asked: Asked) -> int:
    """Judges what was not judged before and gives the exit status. SandboxError: it cannot begin or go on."""
    with ExitStack() as held:
        with cliout.printing():
            pass  # or all would be judged in vain
        languages = languages_of(asked.languages)
        problem = problem_of(asked, held)
        _tell_notes(problem)
        sources = sources_of(asked, problem, languages)
        report = None if asked.html is None else Report(asked.html)
        given = Options(cpu_seconds=asked.cpu_seconds, languages=languages, run_all=asked.run_all or None)
        options = _with_limit(given, asked, problem)
        journal = None if asked.journal is None else held.enter_context(Journal(asked.journal, problem, options))
        done = _Done(sources, journal, asked.as_json)
        faults = _tell_faults(problem, options) if asked.verify else 0
        judge = held.enter_context(Judge(asked.workers, options))
        judgements = held.enter_context(closing(judge.many((source, problem) for source in done.missing)))
        show = silent if asked.quiet else held.enter_context(shown_on(sys.stderr, len(sources)))
        status = done.all_of(judgements, show)
    if not asked.as_json:
        with cliout.printing():
            print_table(*summary_rows(done.told), sys.stdout)
    if report is not None:
        report.write(problem, done.told)
    if not asked.quiet:
        faulty = f"; {faults} fault{'s' if faults > 1 else ''} of the package itself" if faults else ""
        _tell_ends(asked, done, f"limits {limits_in_words(problem, options.cpu_seconds)}{faulty}")
    return status or (_NOT_AS_EXPECTED if faults else 0)


def list_languages(path: str | None, as_json: bool) -> int:
    """Prints which languages are installed, and gives the exit status."""
    rows = installed(languages_of(path))
    if as_json:
        told = [
            {
                "name": row.language.name,
                "title": row.language.title,
                "installed": row.installed,
                "version": row.version,
                "missing": list(row.missing),
                "tested": row.language.tested,
                "extensions": list(row.language.extensions),
            }
            for row in rows
        ]
        with cliout.printing():
            print(json.dumps(told))
        return 0
    table = [
        (
            row.language.name,
            "yes" if row.installed else "no",
            "yes" if row.language.tested else "no",
            " ".join(row.language.extensions),
            row.version or (f"missing: {', '.join(row.missing)}" if row.missing else ""),
        )
        for row in rows
    ]
    with cliout.printing():
        print_table(("language", "installed", "tested", "files", "version"), table, sys.stdout)
    return 0


def show_calibration(as_json: bool) -> int:
    """Measures this machine, prints the factor, and gives the exit status."""
    found = calibrate()
    words = (
        f"factor {found.factor:.2f}: the reference program takes {format_seconds(found.cpu_seconds)} of CPU time here, "
        f"{format_seconds(found.reference_seconds)} on the reference machine; "
        f"the median of {len(found.runs)} runs was {found.spread:.0%} above the least"
    )
    with cliout.printing():
        print(json.dumps(found.to_dict()) if as_json else words)
    return 0


def _with_limit(options: Options, asked: Asked, problem: Problem) -> Options:
    """With a time limit, when neither the command nor the problem states one. PolicyError: there is none to be had."""
    if options.cpu_seconds is not None or problem.limits.cpu_seconds is not None:
        return options
    if not problem.submissions:
        raise PolicyError("the problem states no time limit", field="PACKAGE", value=asked.package, remedy="give one: --cpu 2s")
    limit = inferred_limit(problem, options, asked.workers)
    if not asked.quiet:
        print(f"sandbox-native: the time limit is {format_seconds(limit)}, by the accepted submissions", file=sys.stderr)
    return replace(options, cpu_seconds=limit)


def _tell_notes(problem: Problem) -> None:
    """Nothing of a package is ignored in silence."""
    for note in problem.notes:
        print(f"sandbox-native: note: {note}", file=sys.stderr, flush=True)


def _tell_faults(problem: Problem, options: Options) -> int:
    """Tells what is wrong with the package itself, and counts it."""
    faults = 0
    for line in package_faults(problem, options):
        print(f"sandbox-native: {line}", file=sys.stderr, flush=True)
        faults += 1
    return faults


def _tell_ends(asked: Asked, done: _Done, limits: str) -> None:
    for told in done.told:
        path = told["submission"]
        if told["verdict"] == Verdict.CE and path in asked.submissions and meant_as_many(path):
            print(f"sandbox-native: {path} was judged as one submission: did you mean {path.rstrip('/')}/*?", file=sys.stderr)
    print(f"sandbox-native: {done.words}; {limits}", file=sys.stderr, flush=True)


class _Done:
    """The judgements that there are, in the order of the submissions."""

    def __init__(self, sources: Sequence[Submission | Judgement], journal: Journal | None, as_json: bool) -> None:
        self._journal, self._as_json = journal, as_json
        self._ids = [self._id_of(source) for source in sources]
        self._numbers: list[int] = []  # of what is judged now, in the list of all
        self._told: dict[int, Told] = {}
        self._interrupted = False
        self._earlier = 0
        self.missing: list[Submission] = []
        for number, (source, id) in enumerate(zip(sources, self._ids, strict=True)):
            earlier = None if journal is None or id is None else journal.earlier(id)
            if isinstance(source, Judgement):
                self._take(number, source.to_dict())
            elif earlier is not None:
                self._earlier += 1
                self._take(number, earlier)
            else:
                self._numbers.append(number)
                self.missing.append(source)

    def _id_of(self, source: Submission | Judgement) -> dict[str, str] | None:
        """None: what cannot be known again is judged again."""
        if self._journal is None or isinstance(source, Judgement):
            return None
        try:
            return self._journal.id_of(source)
        except PolicyError:  # a file cannot be read, or is none: its judgement says so
            return None

    @property
    def told(self) -> list[Told]:
        return [self._told[number] for number in sorted(self._told)]

    def all_of(self, judgements: Generator[Judged, None, None], show: Show) -> int:
        """Takes all that come. The exit status."""
        try:
            with Interrupts() as interrupts:
                while (judged := interrupts.next_of(judgements)) is not None:
                    self._keep(judged)
                    show(len(self._told), self.words)
        except KeyboardInterrupt:
            self._interrupted = True
            return _INTERRUPTED
        good = all(told["verdict"] != Verdict.JE and told["expected"] is not False for told in self._told.values())
        return 0 if good else _NOT_AS_EXPECTED

    def _keep(self, judged: Judged) -> None:
        number, told = self._numbers[judged.number], judged.judgement.to_dict()
        id = self._ids[number]
        if self._journal is not None and id is not None:
            self._journal.write(id, told)
        self._take(number, told)

    def _take(self, number: int, told: Told) -> None:
        self._told[number] = told
        if self._as_json:
            with cliout.printing():
                print(json.dumps(told))

    @property
    def words(self) -> str:
        """How many have which verdict."""
        verdicts = Counter(told["verdict"] for told in self._told.values())
        counts = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict if verdicts[verdict])
        strange = sum(told["expected"] is False for told in self._told.values())
        expecting = any(told["expected"] is not None for told in self._told.values())
        parts = [
            f"{len(self._told)} judged{f' ({counts})' if counts else ''}",
            *([f"{self._earlier} of them before"] if self._earlier else []),
            *([f"{strange} not as expected" if strange else "all as expected"] if expecting else []),
            *(["interrupted" + (": start it again to go on" if self._journal else "")] if self._interrupted else []),
        ]
        return ", ".join(parts)
