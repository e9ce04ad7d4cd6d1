"""Many submissions over several workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from graded import bash, problem

from sandbox_native import PolicyError
from sandbox_native.judge.problems import load_problem
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Problem, Submission
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.judge.workers import Judge

PROBLEMS = Path(__file__).parent / "data" / "problems"
SUM = problem({"1": (b"1 2\n", b"3\n"), "2": (b"5 6\n", b"11\n")})
RIGHT, WRONG = bash("read a b; echo $((a + b))"), bash("echo 3")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(store=Store(tmp_path / "store"))


@pytest.mark.parametrize("ordered", [True, False])
def test_each_submission_gets_its_own_judgement(options: Options, ordered: bool) -> None:
    given = [RIGHT, WRONG, RIGHT, bash("if"), WRONG]
    with Judge(2, options) as judge:
        got = list(judge.many(((source, SUM) for source in given), ordered=ordered))
        again = list(judge.many([(RIGHT, SUM)]))
    numbers = [judged.number for judged in got]
    assert (numbers if ordered else sorted(numbers)) == [0, 1, 2, 3, 4]
    verdicts = {judged.number: judged.judgement.verdict for judged in got}
    assert verdicts == {0: Verdict.AC, 1: Verdict.WA, 2: Verdict.AC, 3: Verdict.CE, 4: Verdict.WA}
    assert again[0].judgement.verdict is Verdict.AC


def test_they_come_as_they_are_done(options: Options) -> None:
    waiting = problem({"1": (b"", b"")}, wall_seconds=600.0)
    told = threading.Event()
    with Judge(2, options) as judge:
        results = judge.many([(bash("sleep 500"), waiting), (RIGHT, SUM)], on_case=lambda number, case: told.set())
        assert next(results).number == 1
        assert told.is_set()
        results.close()  # ends the other one


def test_each_worker_has_a_core_and_so_have_its_programs(options: Options) -> None:
    cores = sorted(os.sched_getaffinity(0))
    own = bash("grep Cpus_allowed_list /proc/self/status | cut -f2; read -t 0.2 <> <(:)")
    of = problem({"1": (b"", b"")})
    with Judge(len(cores), options) as judge:
        outputs = {judged.judgement.cases[0].output.strip() for judged in judge.many([(own, of)] * 2 * len(cores))}
    assert outputs <= {str(core).encode() for core in cores}
    with Judge(1, options, pinned=False) as judge:
        (judged,) = judge.many([(own, of)])
    assert len(cores) == 1 or judged.judgement.cases[0].output.strip() not in outputs


def test_what_is_wrong_with_one_is_its_own(options: Options, tmp_path: Path) -> None:
    unlimited = Problem(name="unlimited", data=SUM.data)
    with Judge(2, options) as judge:
        got = list(judge.many([(tmp_path / "missing", SUM), (RIGHT, unlimited), (RIGHT, SUM)], ordered=True))
    assert [judged.judgement.verdict for judged in got] == [Verdict.JE, Verdict.JE, Verdict.AC]
    assert "missing" in got[0].judgement.message and "time limit" in got[1].judgement.message


def test_the_input_is_read_as_there_is_room(options: Options) -> None:
    taken = 0

    def source() -> Iterator[tuple[Submission, Problem]]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield RIGHT, SUM

    with Judge(1, options) as judge:
        results = judge.many(source())
        next(results)
        assert taken <= 2
        results.close()


def test_an_interrupt_ends_what_runs_and_keeps_what_is_done(options: Options) -> None:
    waiting = problem({"1": (b"", b"")}, wall_seconds=600.0)
    got: list[int] = []

    def started(number: int, case: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with Judge(2, options) as judge, pytest.raises(KeyboardInterrupt):
        for judged in judge.many([(bash("sleep 500"), waiting), (RIGHT, problem())], on_case=started):
            got.append(judged.number)
    assert 0 not in got


def test_a_closed_judge_takes_nothing(options: Options) -> None:
    judge = Judge(1, options)
    judge.close()
    judge.close()
    with pytest.raises(PolicyError, match="closed"):
        list(judge.many([]))


@pytest.mark.parametrize("workers", [0, True, 5000, "2"])
def test_a_number_of_workers_that_makes_no_sense_is_refused(workers: int) -> None:
    with pytest.raises(PolicyError, match="workers"):
        Judge(workers)


@pytest.mark.parametrize("name", ["interactive", "multipass", "points", "scoring", "grader", "validatorpython"])
def test_the_submissions_of_an_example_are_judged_as_it_expects(options: Options, name: str) -> None:
    given = load_problem(PROBLEMS / name)
    with Judge(2, options) as judge:
        got = [judged.judgement for judged in judge.many((source, given) for source in given.submissions)]
    assert len(got) == len(given.submissions)
    assert {judgement.submission: judgement.unmet for judgement in got if not judgement.expected} == {}
