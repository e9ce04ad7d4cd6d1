"""Many submissions over several workers."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import boxes
import pytest
from graded import bash, problem
from judged import submission
from running import nap, sleepers

from sandbox_native import PolicyError, SandboxError
from sandbox_native.judge import batch, lending
from sandbox_native.judge.batch import Work
from sandbox_native.judge.handed_in import SourceError
from sandbox_native.judge.lending import Borrower, Worker, Workers
from sandbox_native.judge.problems import load_problem
from sandbox_native.judge.setup import Options, Setup
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Problem, Submission
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.judge.workers import Judge

PROBLEMS = Path(__file__).parent / "data" / "problems"
SUM = problem({"1": (b"1 2\n", b"3\n"), "2": (b"5 6\n", b"11\n")})
WAITING = problem({"1": (b"", b"")}, wall_seconds=600.0)
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
    told = threading.Event()
    with Judge(2, options) as judge:
        results = judge.many([(bash("sleep 500"), WAITING), (RIGHT, SUM)], on_case=lambda number, case: told.set())
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
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "problem.yaml").write_bytes(b"name: [")
    (tmp_path / "none.yaml").symlink_to("none.yaml")
    works: list[Work] = [
        (tmp_path / "missing", SUM),
        (RIGHT, unlimited),
        (RIGHT, tmp_path / "broken"),
        (RIGHT, tmp_path / "none"),
        (RIGHT, tmp_path / "none.yaml"),
        (RIGHT, SUM),
    ]
    with Judge(2, options) as judge:
        got = [judged.judgement for judged in judge.many(works, ordered=True)]
    assert [judgement.verdict for judgement in got] == [*[Verdict.JE] * 5, Verdict.AC]
    wanted = ["missing", "time limit", "problem.yaml", "none", "none.yaml"]
    assert [word in judgement.message for word, judgement in zip(wanted, got, strict=False)] == [True] * 5, got
    assert got[2].problem == str(tmp_path / "broken") and got[2].submission == "main.sh"


def test_what_this_machine_cannot_do_is_the_submissions_own(options: Options, tmp_path: Path) -> None:
    (tmp_path / "more.toml").write_text(
        '[unheard]\ntitle = "Unheard"\nextensions = [".unheard"]\ncompile = ["no-such-compiler"]\nrun = ["{directory}/a"]\n'
    )
    with Judge(2, replace(options, languages=options.languages.with_file(tmp_path / "more.toml"))) as judge:
        got = [one.judgement for one in judge.many([(submission({"a.unheard": ""}), SUM), (RIGHT, SUM)], ordered=True)]
    assert [judgement.verdict for judgement in got] == [Verdict.JE, Verdict.AC]
    assert "no-such-compiler" in got[0].message


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


def test_two_batches_in_one_thread_share_the_workers(options: Options) -> None:
    with Judge(1, options) as judge:
        first, second = judge.many([(RIGHT, SUM)] * 8), judge.many([(WRONG, SUM)] * 8)
        pairs = [(one.judgement.verdict, other.judgement.verdict) for one, other in zip(first, second, strict=True)]
    assert pairs == [(Verdict.AC, Verdict.WA)] * 8


def test_a_caller_who_stops_in_the_middle_keeps_no_worker(options: Options) -> None:
    with Judge(1, options) as judge:
        left = judge.many([(RIGHT, SUM)] * 8)
        next(left)
        assert [judged.judgement.verdict for judged in judge.many([(WRONG, SUM)] * 3)] == [Verdict.WA] * 3
        assert len(list(left)) == 7


def test_an_iterator_that_is_forgotten_ends_what_runs(options: Options) -> None:
    with Judge(2, options) as judge:
        forgotten = judge.many([(RIGHT, SUM), (bash(f"sleep {nap(431)}"), WAITING)])
        next(forgotten)
        boxes.until(lambda: bool(sleepers(431)), boxes.PATIENCE, "one that sleeps")
        del forgotten
        assert sleepers(431) == []
        assert next(judge.many([(RIGHT, SUM)])).judgement.verdict is Verdict.AC


def test_a_judge_that_is_closed_in_the_middle_says_so_and_judges_nothing_wrongly(options: Options) -> None:
    judge = Judge(2, options)
    results = judge.many([(RIGHT, SUM), (bash(f"sleep {nap(432)}"), WAITING)])
    assert next(results).judgement.verdict is Verdict.AC
    boxes.until(lambda: bool(sleepers(432)), boxes.PATIENCE, "one that sleeps")
    judge.close()
    assert sleepers(432) == []
    with pytest.raises(PolicyError, match="closed"):
        next(results)


def test_what_the_callers_own_function_raises_comes_through(options: Options) -> None:
    def told(number: int, case: object) -> None:
        raise ZeroDivisionError

    with Judge(2, options) as judge:
        with pytest.raises(ZeroDivisionError):
            list(judge.many([(RIGHT, SUM)] * 4, on_case=told))
        assert next(judge.many([(RIGHT, SUM)])).judgement.verdict is Verdict.AC


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


# ---- whose fault it is ----


@pytest.mark.parametrize("kind", [BrokenPipeError, SandboxError, SourceError])
def test_what_the_callers_own_function_raises_is_no_judgement(options: Options, kind: type[Exception]) -> None:
    def told(number: int, case: object) -> None:
        raise kind("mine")

    with Judge(1, options) as judge, pytest.raises(kind, match="mine"):
        list(judge.many([(RIGHT, SUM)], on_case=told))


def test_cases_at_once_are_refused_where_each_worker_has_one_core(options: Options) -> None:
    with pytest.raises(PolicyError, match="parallel=2.*pinned=False"):
        Judge(1, replace(options, parallel=2))
    with Judge(1, replace(options, parallel=2), pinned=False) as judge:
        assert next(judge.many([(RIGHT, SUM)])).judgement.verdict is Verdict.AC


@pytest.mark.parametrize("item", [RIGHT, (RIGHT,), (SUM, RIGHT), (RIGHT, SUM, 1), "ab", None])
def test_an_item_that_is_no_pair_is_named_by_its_number(options: Options, item: Any) -> None:
    with Judge(1, options) as judge:
        with pytest.raises(PolicyError, match=r"works\[1\]"):
            judge.many([(RIGHT, SUM), item])
        with pytest.raises(PolicyError, match=r"works\[1\]"):
            list(judge.many(iter([(RIGHT, SUM), item])))
    with pytest.raises(PolicyError, match="closed"):
        judge.many([])


def test_a_path_means_what_it_meant_when_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given, nothing = batch.Given("a/main.sh"), batch.Given("")
    monkeypatch.chdir("/")
    assert (given.path, given.name, nothing.path) == (f"{tmp_path}/a/main.sh", "a/main.sh", "")


def test_a_problem_is_read_once_and_nobody_waits_for_another_one(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    told = threading.Event()

    def load(path: str) -> Problem:
        asked.append(os.path.basename(path))
        if asked[-1] == "slow":
            assert told.wait(boxes.PATIENCE), "the other one waited"
            return SUM
        if asked[-1] == "bad":
            raise SandboxError("bad")
        return SUM

    monkeypatch.setattr(batch, "load_problem", load)
    works: list[Work] = [(RIGHT, "slow"), (RIGHT, "quick"), (RIGHT, "bad"), (RIGHT, "bad"), (RIGHT, "slow")]
    with Judge(2, options) as judge:
        for judged in judge.many(works):
            told.set()
            assert judged.judgement.verdict is (Verdict.JE if judged.number in (2, 3) else Verdict.AC)
    assert sorted(asked) == ["bad", "quick", "slow"]


class Closing:
    """Says that it is closed, and may fail."""

    def __init__(self, workers: Workers, error: Exception | None = None) -> None:
        self._workers, self._error, self.closed = workers, error, False

    def close(self) -> None:
        other = threading.Thread(target=lambda: self._workers.send_away(Borrower()))  # needs the lock
        other.start()
        other.join(boxes.PATIENCE)
        self.closed = not other.is_alive()
        if self._error is not None:
            raise self._error


def test_all_is_closed_whatever_becomes_of_one_and_nobody_waits_for_it(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    workers = Workers([Worker(options, None) for _ in range(3)])
    made = [Closing(workers, error) for error in (OSError("first"), None, None)]
    for worker, closing in zip(list(workers._free), made, strict=True):
        monkeypatch.setattr(worker, "_boxes", closing)
    with pytest.raises(OSError, match="first"):
        workers.close()
    assert [one.closed for one in made] == [True] * 3


def test_what_a_batch_at_the_same_time_needs_stays(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Setup] = []

    class Counted(Setup):
        def __init__(self, *given: Any) -> None:
            made.append(self)
            super().__init__(*given)

    monkeypatch.setattr(lending, "Setup", Counted)
    with Judge(1, options) as judge:
        long = judge.many([(RIGHT, SUM)] * 8)
        next(long)
        for _ in range(2):
            list(judge.many([(RIGHT, SUM)]))
        list(long)
        assert len(made) == 1
        list(judge.many([(RIGHT, SUM)]))
        assert len(made) == 2
