"""How fast a machine is, by a stored reference program: what a time limit of another machine comes to on this one. Host process.

Called by users and by `judge calibrate`. The program (reference.c, in C) is compiled and run as a submission is, so that the same
is measured as in judging; the least of some runs counts, as the rest of the machine can only make it longer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import resources
from typing import Final

from sandbox_native.errors import PolicyError, SandboxError
from sandbox_native.judge.as_json import Value
from sandbox_native.judge.judging import judge
from sandbox_native.judge.problems import problem_of_cases
from sandbox_native.judge.setup import Options
from sandbox_native.judge.values import Case, ProblemLimits, SourceFile, Submission
from sandbox_native.judge.verdicts import Verdict

REFERENCE_SECONDS: Final = 0.2694
"""CPU time of the program on the machine whose factor is 1: one virtual core (KVM) of an AMD EPYC of the third generation at
2.45 GHz with 32 MiB of L3 cache, Linux 6.18, gcc 12.2. The least of 150 runs in six series, while nothing else was measured or
built there; three series came within 0.1 ms of it, the others within 16 ms."""

_NAME: Final = "reference.c"
_OUTPUT: Final = b"2943900 3752272550 60420\n"
_MOST_RUNS: Final = 1000


@dataclass(frozen=True, kw_only=True, slots=True)
class Calibration(Value):
    """`factor`: how many times as long as on the reference machine a program takes here; a time limit that is meant for that
    machine is multiplied by it. `spread`: how much longer than the least the median of the runs was, as a share: above a tenth
    or so the machine is too busy to be measured. `runs`: CPU time of each, in seconds."""

    factor: float
    cpu_seconds: float
    reference_seconds: float
    spread: float
    runs: tuple[float, ...]


def calibrate(runs: int = 11, options: Options | None = None) -> Calibration:
    """Runs the reference program. PolicyError: `runs` makes no sense; UnsupportedError: this machine has no C compiler, or cannot
    isolate programs; SandboxError: the program did not do what it does everywhere."""
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= _MOST_RUNS:
        raise PolicyError("not a number of runs", field="runs", value=runs, remedy=f"give 1 to {_MOST_RUNS}")
    text = resources.files(__package__).joinpath(_NAME).read_bytes()
    submission = Submission(name=_NAME, files=(SourceFile(name=_NAME, content=text),), language="c")
    cases = [Case(name=str(number), answer=_OUTPUT) for number in range(1, runs + 1)]
    limits = ProblemLimits(cpu_seconds=100 * REFERENCE_SECONDS)
    given = replace(options or Options(), parallel=1, rerun_near=0.0, cpu_seconds=None)
    judgement = judge(submission, problem_of_cases(cases, name="calibrate", limits=limits), given)
    if judgement.verdict is not Verdict.AC:
        failed = judgement.first_failure
        why = judgement.message or (f"{failed.verdict} {failed.message}" if failed else judgement.verdict)
        raise SandboxError(f"the reference program does not work here: {why}")
    times = [case.cpu_seconds for case in judgement.cases]
    least = min(times)
    return Calibration(
        factor=least / REFERENCE_SECONDS,
        cpu_seconds=least,
        reference_seconds=REFERENCE_SECONDS,
        spread=sorted(times)[len(times) // 2] / least - 1,
        runs=tuple(times),
    )
