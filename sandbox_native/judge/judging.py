"""From a submission and a problem to a Judgement. Host process.

`judge` is the whole of it: compile, judge case after case as the groups say, grade. Called by users, by workers.py for many
submissions, and by the command line. What a submission does is in the Judgement; a problem that cannot be judged is too, as JE.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from typing import Final, TypeAlias

from sandbox_native.errors import ExecError, PolicyError, SandboxError, UnsupportedError
from sandbox_native.judge.ahead import Begun, judge_ahead
from sandbox_native.judge.attempt import Terms, beside
from sandbox_native.judge.bounds import missed_bounds
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.casework import Casework, Judged
from sandbox_native.judge.compiling import Compiled, compile_submission
from sandbox_native.judge.expectations import needs_all_cases, time_limit, unmet
from sandbox_native.judge.grading import Grade, Grader
from sandbox_native.judge.handed_in import SourceError, size_of, source_at
from sandbox_native.judge.languages import Languages
from sandbox_native.judge.outcomes import CaseResult, CompileResult, Judgement
from sandbox_native.judge.problems import load_problem
from sandbox_native.judge.setup import Options, Setup
from sandbox_native.judge.store import StoreError
from sandbox_native.judge.telling import of_compiler
from sandbox_native.judge.values import Case, Problem, ProgramSource, Submission
from sandbox_native.judge.verdicts import Verdict

Watcher: TypeAlias = Callable[[CaseResult], object]
"""Told of each case that is done, in the thread that asked."""


_AGAIN_SECONDS: Final = 0.1
_DEFAULT: Final = Options()


def judge(
    submission: ProgramSource | str | os.PathLike[str],
    problem: Problem | str | os.PathLike[str],
    options: Options = _DEFAULT,
    *,
    boxes: Boxes | None = None,
    on_case: Watcher | None = None,
) -> Judgement:
    """Compiles a submission, runs it on the cases of a problem, and grades it.

    - `submission`: a value, or the path of a source file or of a directory of them. `problem`: a value, or a path as of
      `load_problem`.
    - `boxes`: kept Sandboxes to compile and run in; they save some 10 ms for each submission, and stay the caller's, who may end
      what runs (`Boxes.end_runs`).
    - `on_case`: called with the result of each case as it is there. Without it, the next case starts while the output of the
      last one is compared.

    The options: `cpu_seconds` replaces the problem's limit of CPU time. `parallel`: cases at once; what a group does not want
    judged any more may then have run in vain, and the judgement is the same. `rerun_near`: a result whose CPU time is that
    close to the limit (a share of it) is measured again up to twice, and the least time counts; so is one that the wall clock
    ended while others had its core, unless `rerun_near` is 0, and what ends counts. `run_all`: all cases, whatever
    the groups say of stopping; None: where the expectations of the submission need it.

    What goes wrong with the problem, its validator or on our side in a case is a JE with a `message`, and so is a store that has
    no room for the program. Errors: `ProblemError` for a bad package; `PolicyError` when nobody says a time limit
    (`with_time_limit(problem)` takes it from the package's own submissions, and runs all of them for it); `UnsupportedError`
    when the machine lacks a compiler or a layer.
    """
    problem = problem if isinstance(problem, Problem) else load_problem(problem)
    if not isinstance(submission, ProgramSource):
        path = os.fspath(submission)
        try:
            submission = source_at(path)
        except SourceError as error:
            return refused(path, problem.name, error)
    kept = boxes or Boxes()
    try:
        with Setup(problem, options, kept) as setup:
            return Judging(setup, submission, options, boxes).judgement(on_case)
    finally:
        if boxes is None:
            kept.close()


def refused(submission: str, problem: str, error: SourceError) -> Judgement:
    """The judgement of what is no program: nothing of it was read."""
    return Judgement(submission=submission, problem=problem, verdict=Verdict.CE, message=str(error))


class Judging:
    """One submission on its way. `boxes`: to compile in; None: those of `run`, which are there already."""

    def __init__(self, setup: Setup, source: ProgramSource, options: Options, boxes: Boxes | None) -> None:
        self._boxes = boxes
        self._setup, self._problem, self._source, self._options = setup, setup.problem, source, options
        self._directory = ""  # of the compiled program, in its box
        self._expected = source.expected if isinstance(source, Submission) else None
        run_all = options.run_all if options.run_all is not None else needs_all_cases(self._expected)
        self._grader = Grader(setup.problem, run_grader=setup.run_grader, run_all=run_all)

    def judgement(self, on_case: Watcher | None) -> Judgement:
        limits = self._problem.limits
        stated = self._options.cpu_seconds
        cpu_seconds = time_limit(limits, None) if stated is None else float(stated)
        blank = Judgement(
            submission=self._source.name,
            problem=self._problem.name,
            verdict=Verdict.JE,
            max_score=self._grader.max_score(self._problem.data),
            cpu_limit_seconds=cpu_seconds,
            notes=self._problem.notes,
        )
        refusal = self._refusal()
        if refusal:
            return self._compared(replace(blank, verdict=Verdict.CE, message=refusal))
        try:
            compiled = self._compiled()
        except SourceError as error:
            return self._compared(replace(blank, verdict=Verdict.CE, message=str(error)))
        except StoreError as error:
            return self._compared(replace(blank, message=str(error)))
        blank = replace(blank, language=compiled.result.language, compilation=compiled.result)
        if compiled.program is None:
            return self._compared(replace(blank, verdict=Verdict.CE, message=_why(compiled.result)))
        try:
            files = beside(self._whole(), compiled.program.language)
        except OSError as error:
            return self._compared(replace(blank, verdict=Verdict.CE, message=str(error)))
        self._directory = compiled.program.directory
        terms = Terms.of(compiled.program, limits, cpu_seconds, self._options.rerun_near, files)
        try:
            judged = self._setup.way(terms)
        except UnsupportedError:
            raise
        except SandboxError as error:
            return self._compared(replace(blank, message=str(error)))
        grade = self._grader.grade(self._results(judged, on_case))
        return self._compared(_graded(blank, grade), terms)

    def _compiled(self) -> Compiled:
        return compile_submission(
            self._whole(),
            languages=self._options.languages,
            limits=self._problem.limits,
            store=self._options.store,
            hidden=self._setup.hidden,
            boxes=self._boxes,
        )

    def _whole(self) -> ProgramSource:
        return with_included(self._source, self._problem, self._options.languages)

    def _refusal(self) -> str:
        """Why the submission is not even compiled; empty when it is."""
        try:
            language = self._options.languages.of(self._source)
        except PolicyError as error:
            return str(error)
        allowed = self._problem.languages
        if allowed is not None and language.name not in {self._known(name) for name in allowed}:
            return f"programs in {language.title} are not permitted: {', '.join(sorted(allowed))} are"
        try:
            size = sum(size_of(file, f"program {self._source.name}: {file.name}") for file in self._source.files)
        except SourceError as error:
            return str(error)
        most = self._problem.limits.code_bytes
        return f"the source has {size} bytes, and may have {most}" if size > most else ""

    def _known(self, code: str) -> str:
        try:
            return self._options.languages.named(code).name
        except PolicyError:
            return code

    def _results(self, judged: Judged, on_case: Watcher | None) -> Mapping[str, CaseResult]:
        results: dict[str, CaseResult] = {}

        def one(case: Case) -> CaseResult:
            return self._result(judged, case)

        def note(result: CaseResult) -> None:
            results[result.case] = result
            if on_case is not None:
                on_case(result)

        if on_case is None and self._options.parallel == 1 and isinstance(judged, Casework) and judged.has_steps:
            self._ahead(judged, note, results)
        elif self._options.parallel == 1:
            for case in self._grader.cases(results):
                note(one(case))
        else:
            self._at_once(one, note, results)
        return results

    def _ahead(self, casework: Casework, note: Callable[[CaseResult], None], results: Mapping[str, CaseResult]) -> None:
        def take(begun: Begun) -> bool:
            result = self._result(lambda _: begun.rated(), begun.case)
            note(result)
            return result.verdict is Verdict.AC

        judge_ahead(casework, self._grader.cases(results), take, lambda case: next(self._grader.cases(results), None) is case)

    def _at_once(self, one: Judged, note: Callable[[CaseResult], None], results: Mapping[str, CaseResult]) -> None:
        waiting = iter(self._grader.cases(results))
        under_way: set[Future[CaseResult]] = set()
        pool = ThreadPoolExecutor(self._options.parallel, thread_name_prefix="sandbox-native-case")
        try:
            while True:
                while len(under_way) < self._options.parallel and (case := next(waiting, None)) is not None:
                    under_way.add(pool.submit(one, case))
                if not under_way:
                    return
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    note(future.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            while under_way:  # an error, or Ctrl-C: whoever judges here next is to be alone
                self._setup.boxes.end_runs()  # again, of those that were just about to begin
                under_way = wait(under_way, _AGAIN_SECONDS).not_done

    def _result(self, judged: Judged, case: Case) -> CaseResult:
        try:
            return judged(case)
        except UnsupportedError:
            raise
        except ExecError as error:
            own = error.item.startswith(f"{self._directory}/")  # a script without its interpreter, a file that is no program
            return CaseResult(case=case.name, verdict=Verdict.RTE if own else Verdict.JE, message=str(error))
        except (SandboxError, OSError) as error:
            return CaseResult(case=case.name, verdict=Verdict.JE, message=str(error))

    def _compared(self, judgement: Judgement, terms: Terms | None = None) -> Judgement:
        """With what the package expects of the submission. `terms`: of the runs, if it ran."""
        if self._expected is None:
            return judgement
        missing = unmet(self._expected, judgement, self._problem)
        if terms is not None:
            bound = partial(self._longer, terms)
            missing += (*missed_bounds(self._expected, judgement.cases, self._problem, terms.cpu_seconds, bound),)
        return replace(judgement, expected=not missing, unmet=missing)

    def _longer(self, terms: Terms, case: Case) -> CaseResult:
        """Judged with a limit that is longer by the package's safety margin."""
        limits = self._problem.limits
        assert terms.problem.cpu_seconds is not None
        seconds = terms.problem.cpu_seconds * limits.time_safety_margin
        more = Terms.of(terms.program, limits, seconds, self._options.rerun_near, terms.files)
        return self._result(lambda one: self._setup.way(more)(one), case)


def with_included(source: ProgramSource, problem: Problem, languages: Languages) -> ProgramSource:
    """The submission with the files that the problem adds to programs in its language."""
    if not problem.include:
        return source
    language = languages.of(source)
    codes = ("default", *(code for code in sorted(problem.include) if code in (language.name, *language.aliases)))
    files = {file.name: file for file in source.files}
    for code in codes:  # what is for the language stands in place of what is for all
        files |= {file.name: file for file in problem.include.get(code, ())}
    return replace(source, files=tuple(files.values()))


def _why(result: CompileResult) -> str:
    line = of_compiler(result.output).strip()
    return f"{result.failure}: {line}" if line else str(result.failure)


def _graded(blank: Judgement, grade: Grade) -> Judgement:
    first = next((result for result in grade.cases if result.verdict is Verdict.JE), None)
    message = grade.message or ("" if first is None else f"{first.case}: {first.message}")
    return replace(
        blank,
        verdict=grade.verdict,
        score=grade.score,
        max_score=grade.max_score,
        cases=grade.cases,
        groups=grade.groups,
        skipped=grade.skipped,
        message=message,
    )
