"""What grading gives back, as values: results of cases and groups, of a compilation, and of the whole.

Made by the modules that run things and by grading.py; imported from values.py by everybody else. Frozen, keyword-only and
picklable; `to_dict()` is for `json.dumps`. Construction checks and computes nothing: there is one `CaseResult` for each run.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from sandbox_native.judge.as_json import Value, plain
from sandbox_native.judge.verdicts import System, Verdict, spell

VERSION: Final = 1
"""Of what `Judgement.to_dict` gives."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference(Value):
    """Where an output first differs from the answer. `line` and `column` count from 1 (column in bytes).

    `expected` and `got` are a bounded part of either from there on; None where that side has ended.
    """

    line: int
    column: int
    expected: bytes | None
    got: bytes | None
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Noise(Value):
    """What may have disturbed a measured time. None: this machine does not say.

    `throttled_seconds`: how long the quota of a control group around us stopped its processes during the run. `steal_seconds`:
    what the hypervisor kept from the cores that it could be on. `core`: the one that it was bound to, as the workers of a
    Judge and pinned Boxes bind theirs. `runs`: the CPU time of every run, the counted one being the least (`rerun_near`).
    """

    voluntary_switches: int = 0
    involuntary_switches: int = 0
    throttled_seconds: float | None = None
    steal_seconds: float | None = None
    runs: tuple[float, ...] = ()
    core: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CaseResult(Value):
    """How one case went.

    `limit` names what ended it: "cpu", "wall", "memory", "output", "processes", "validation …"; None when nothing did.
    `exit_code` and `signal` (its name, "SIGSEGV") are there when they apply. `message` is for judges (the checker's words),
    `team_message` for the author of the submission. `score` and `score_multiplier` are what the validator gave, None when it
    gave none. `output` and `errors` are bounded heads of what was written, `output_bytes` how much there was.

    Of an interactive submission `output` is empty and `output_bytes` None: what it writes goes to the validator through a pipe of
    the kernel's, which tells nobody how much went through it; to count or keep it something of ours would have to stand between
    the two and hand on each line, which the submission would wait for. No limit of output holds there: a flood is ended by the
    limits of time, or by the validator. `errors` is there as ever.
    """

    case: str
    verdict: Verdict
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_memory_bytes: int = 0
    peak_memory_source: str = ""
    exit_code: int | None = None
    signal: str | None = None
    limit: str | None = None
    message: str = ""
    team_message: str = ""
    difference: Difference | None = None
    score: float | None = None
    score_multiplier: float | None = None
    output: bytes = b""
    output_bytes: int | None = 0
    errors: bytes = b""
    killed_processes: int = 0
    passes: int = 1
    hint: str | None = None
    noise: Noise | None = None


class CompileFailure(StrEnum):
    """Why a compilation gave no program."""

    ERROR = "error"
    """The compiler refused the source."""
    TIME = "time"
    MEMORY = "memory"
    OUTPUT = "output"
    """It wrote more than it may, to files or in words."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompileResult(Value):
    """How a compilation went; `failure` is None when there is a program. `output` is the compiler's words, bounded."""

    failure: CompileFailure | None = None
    output: str = ""
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    cached: bool = False
    command: tuple[str, ...] = ()
    language: str = ""

    @property
    def ok(self) -> bool:
        """Whether there is a program to run."""
        return self.failure is None


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupResult(Value):
    """The grade of one group; `score` is None where the problem has no scores, `ran` False where it was not judged."""

    group: str
    verdict: Verdict
    score: float | None = None
    max_score: float | None = None
    ran: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement(Value):
    """What became of a submission.

    `cases` has the cases that were run, in order, `skipped` the names of the others. `verdict` is CE with no cases at all
    when it did not compile. `unmet`: what the package expects of this submission and did not get, one line each (empty: as
    expected, or nothing was expected). `message` explains CE and JE. `notes` are those of the problem: what was ignored in it.
    """

    submission: str
    problem: str
    verdict: Verdict
    language: str = ""
    score: float | None = None
    max_score: float | None = None
    compilation: CompileResult | None = None
    cases: tuple[CaseResult, ...] = ()
    groups: tuple[GroupResult, ...] = ()
    skipped: tuple[str, ...] = ()
    expected: bool | None = None
    unmet: tuple[str, ...] = ()
    message: str = ""
    cpu_limit_seconds: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def partial(self) -> bool:
        """Whether it is accepted with less than the maximal score."""
        if self.verdict is not Verdict.AC or self.score is None or self.max_score is None:
            return False
        return self.score < self.max_score

    @property
    def slowest(self) -> CaseResult | None:
        """The case with the most CPU time; None when none ran."""
        return max(self.cases, key=lambda result: result.cpu_seconds, default=None)

    @property
    def first_failure(self) -> CaseResult | None:
        """The first case that was not accepted."""
        return next((result for result in self.cases if result.verdict is not Verdict.AC), None)

    def spelled(self, system: System) -> str:
        """The verdict as `system` writes it."""
        return spell(self.verdict, system, partial=self.partial)

    def to_dict(self) -> dict[str, Any]:
        """The judgement for `json.dumps`, with `version`, `partial` and `slowest` (the name of the case)."""
        shown = plain(self)
        assert isinstance(shown, dict)
        slowest = self.slowest
        return {
            "version": VERSION,
            **shown,
            "partial": self.partial,
            "slowest": None if slowest is None else slowest.case,
        }
