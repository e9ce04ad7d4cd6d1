"""The verdict matrix: small programs in five languages, hostile ones among them, and what each of them must get.

The programs are the submissions of tests/data/problems/matrix, in a directory for each verdict. bench/matrix.py repeats it.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox_native.judge.outcomes import CaseResult, Judgement
from sandbox_native.judge.problems import load_problem
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Problem, Submission
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.judge.workers import Judge

MATRIX = load_problem(Path(__file__).parent / "data" / "problems" / "matrix")
NAMES = [source.name for source in MATRIX.submissions]
# What must be too slow is not given long, and everything else has time even on a busy machine.
SHORT = replace(MATRIX.limits, cpu_seconds=0.3, wall_seconds=0.8)
AMPLE = replace(MATRIX.limits, cpu_seconds=10.0, wall_seconds=120.0, compilation_seconds=60.0)
BOMBS = replace(AMPLE, compilation_seconds=2.0)

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "gcc", "g++", "javac", "node")]


def works() -> Iterator[tuple[Submission, Problem]]:
    short, ample, bombs = (replace(MATRIX, limits=limits) for limits in (SHORT, AMPLE, BOMBS))
    own = {"TLE": short, "CE": bombs}
    for source in MATRIX.submissions:
        yield source, own.get(source.name.partition("/")[0], ample)


@pytest.fixture(scope="module")
def judgements(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Judgement]:
    """Of all of them, on all cores."""
    options = Options(store=Store(tmp_path_factory.mktemp("matrix") / "store"))
    with Judge(options=options) as judge:
        return {judged.judgement.submission: judged.judgement for judged in judge.many(works())}


def case(judgement: Judgement) -> CaseResult:
    (result,) = judgement.cases
    return result


def test_there_are_programs_in_five_languages_for_each_verdict() -> None:
    assert len(NAMES) >= 60
    assert {Path(name).suffix for name in NAMES} == {".c", ".cpp", ".py", ".java", ".js"}
    assert {Path(name).parts[0] for name in NAMES} == set(Verdict) - {Verdict.JE}
    assert all(source.expected is not None and source.expected.verdicts for source in MATRIX.submissions)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_gets_its_verdict(name: str, judgements: dict[str, Judgement]) -> None:
    judgement = judgements[name]
    assert judgement.verdict == name.partition("/")[0], (judgement.message, judgement.cases, judgement.compilation)
    assert judgement.expected is True


def test_what_ended_a_program_is_told(judgements: dict[str, Judgement]) -> None:
    for name in NAMES:
        file = Path(name)
        if file.stem.startswith("sig"):
            assert case(judgements[name]).signal == file.stem.upper() and file.stem.upper() in signal.Signals.__members__
        if file.stem.startswith("exit_"):
            assert case(judgements[name]).exit_code == int(file.stem.removeprefix("exit_"))
        if file.parts[0] in ("MLE", "OLE"):
            assert case(judgements[name]).limit == {"MLE": "memory", "OLE": "output"}[file.parts[0]]
        if file.parts[0] == "TLE":
            assert case(judgements[name]).limit in ("cpu", "wall")
    for name in ("TLE/sleeping.c", "TLE/stopped.c"):
        assert case(judgements[name]).limit == "wall"


def test_what_was_written_before_the_end_is_kept(judgements: dict[str, Judgement]) -> None:
    kept = {name: case(judgements[name]).output for name in NAMES if name.startswith(("RTE/sig", "RTE/exit", "TLE/right"))}
    assert set(kept.values()) == {b"42\n"}
    assert case(judgements["TLE/wrong_first.c"]).output == b"41\n"


def test_what_a_program_leaves_is_told_and_gone(judgements: dict[str, Judgement]) -> None:
    assert case(judgements["AC/daemon.c"]).killed_processes == 1
    assert case(judgements["AC/stdout_held.c"]).killed_processes == 1


def test_an_answer_is_not_among_the_compiler_s_words(judgements: dict[str, Judgement]) -> None:
    compilation = judgements["CE/include_answer.c"].compilation
    assert compilation is not None and "No such file" in compilation.output
