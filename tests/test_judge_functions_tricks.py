"""Tricks against function-style grading: none passes a test in two boxes; what works in one process is known to work there."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from judge_tricks import EVERYWHERE, JUNK, TRICKS
from judge_tricks_on_tests import MODULE, TRICKS_ON_TESTS
from running import PYTHON

from sandbox_native import Limits, Overflow
from sandbox_native.judge.functions import FunctionJudge, FunctionJudgement, FunctionTask
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

LIMITS = Limits(
    wall_seconds=4, cpu_seconds=1, memory_bytes=200 << 20, processes=16, stderr_bytes=1 << 20, on_overflow=Overflow.KILL
)
ALL = {**TRICKS, **TRICKS_ON_TESTS}
Judgements = Mapping[str, FunctionJudgement]


def judged(*, same_process: bool, names: list[str]) -> Judgements:
    tricks = [ALL[name] for name in names]
    tasks = [FunctionTask.of(one.program, one.tests, setup=one.setup, module=MODULE, names=one.names) for one in tricks]
    with FunctionJudge(LIMITS, python=PYTHON, same_process=same_process) as judge:
        return dict(zip(names, judge.judge_many(tasks), strict=True))


@pytest.fixture(scope="module")
def apart() -> Judgements:
    return judged(same_process=False, names=list(ALL))


@pytest.fixture(scope="module")
def together() -> Judgements:
    return judged(same_process=True, names=[name for name, trick in ALL.items() if trick.shared])


@pytest.mark.parametrize("name", ALL)
def test_no_trick_passes_a_test_in_two_boxes(apart: Judgements, name: str) -> None:
    judgement = apart[name]
    assert judgement.score == 0.0, judgement
    assert judgement.verdict not in (Verdict.AC, Verdict.JE), judgement
    assert all(outcome.message for outcome in judgement.tests)


@pytest.mark.parametrize("name", [name for name, trick in ALL.items() if trick.shared])
def test_the_trick_is_one_where_program_and_tests_share_a_process(together: Judgements, name: str) -> None:
    assert (together[name].score, together[name].gameable) == (1.0, True), together[name]


def test_junk_among_the_outcomes_is_unheard_and_costs_nobody_else_anything() -> None:
    code = "import os{}\neverywhere({!r})\ndef solve(x):\n    {}"
    right = FunctionTask.of("def solve(x):\n    return x", "assert solve(1) == 1")
    leaving = [FunctionTask.of(code.format(EVERYWHERE, junk, "os._exit(0)"), "assert solve(1) == 1") for junk in JUNK]
    staying = [FunctionTask.of(code.format(EVERYWHERE, junk, "return x"), "assert solve(1) == 1") for junk in JUNK]
    with FunctionJudge(LIMITS, python=PYTHON, same_process=True) as judge:
        found = judge.judge_many([right, *leaving, *staying, right])
    verdicts = [judgement.verdict for judgement in found]
    assert verdicts == [Verdict.AC, *[Verdict.RTE] * len(JUNK), *[Verdict.AC] * len(JUNK), Verdict.AC]
    assert all("no outcome" in judgement.message for judgement in found[1 : 1 + len(JUNK)])
