"""A submission's way from source to judgement."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path, PosixPath

import pytest
from graded import MIB, bash, problem, python, verdict
from judged import submission

from sandbox_native import PolicyError
from sandbox_native.judge.handed_in import source_at
from sandbox_native.judge.judging import judge
from sandbox_native.judge.languages import Languages, builtin
from sandbox_native.judge.outcomes import CaseResult, CompileFailure
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Case, Checker, CheckerKind, Expectation, Group, OnReject, Problem
from sandbox_native.judge.verdicts import Verdict

SUM = problem({"1": (b"1 2\n", b"3\n"), "2": (b"5 6\n", b"11\n"), "3": (b"7 8\n", b"15\n")})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def one(store: Store, text: str, of: Problem) -> CaseResult:
    (case,) = verdict(store, bash(text), of).cases
    return case


def test_what_is_right_is_accepted(store: Store) -> None:
    judgement = verdict(store, bash("read a b; echo $((a + b))"), SUM)
    assert (judgement.verdict, [case.case for case in judgement.cases]) == (Verdict.AC, ["1", "2", "3"])
    assert (judgement.language, judgement.submission, judgement.cpu_limit_seconds) == ("bash", "main.sh", 5.0)
    assert all(case.cpu_seconds > 0 and case.exit_code == 0 and case.peak_memory_bytes > 0 for case in judgement.cases)
    assert judgement.skipped == ()


def test_the_first_wrong_answer_ends_it_and_is_explained(store: Store) -> None:
    judgement = verdict(store, bash("read a b; echo $((a * b))"), SUM)
    (case,) = judgement.cases
    assert (judgement.verdict, judgement.skipped) == (Verdict.WA, ("2", "3"))
    assert case.difference is not None
    assert (case.difference.line, case.difference.expected, case.difference.got) == (1, b"3", b"2")
    assert case.message == "line 1, column 1: another word, expected '3', got '2'"
    assert case.output == b"2\n"


@pytest.mark.parametrize(
    ("text", "expected", "limit"),
    [
        ("echo wrong; while :; do :; done", Verdict.TLE, "cpu"),
        ("(while :; do :; done) & (while :; do :; done)", Verdict.TLE, "cpu"),
        ("echo wrong; sleep 100", Verdict.TLE, "wall"),
        ("kill -STOP $$", Verdict.TLE, "wall"),
        ("yes", Verdict.OLE, "output"),
        ("yes >&2", Verdict.OLE, "output"),
        ("a=x; while :; do a=$a$a; done", Verdict.MLE, "memory"),
        ("exit 3", Verdict.RTE, None),
        ("kill -SEGV $$", Verdict.RTE, None),
        ("kill -KILL $$", Verdict.RTE, None),
    ],
)
def test_the_true_cause_is_told(store: Store, text: str, expected: Verdict, limit: str | None) -> None:
    wall = 0.6 if limit == "wall" else 60.0  # on a busy machine time goes by without any CPU time
    of = problem(cpu_seconds=0.2 if limit == "cpu" else 20.0, wall_seconds=wall, memory_bytes=50 * MIB, output_bytes=100_000)
    case = one(store, text, of)
    assert (case.verdict, case.limit) == (expected, limit), case


def test_what_was_written_before_a_crash_is_kept(store: Store) -> None:
    case = one(store, "echo out; echo err >&2; kill -ABRT $$", problem())
    assert (case.verdict, case.signal, case.output, case.output_bytes) == (Verdict.RTE, "SIGABRT", b"out\n", 4)
    assert case.errors == b"err\n"
    code = one(store, "exit 5", problem())
    assert (code.exit_code, code.signal) == (5, None)


def test_deep_recursion_is_legal(store: Store) -> None:
    text = "import sys\nsys.setrecursionlimit(10**6)\ndef f(n): return n and f(n - 1)\nprint(f(10**5))\n"
    source = submission(
        {"main.c": "int f(int n){volatile char a[1000];a[0]=0;return n?f(n-1)+a[0]:0;}int main(){return f(50000);}"}
    )
    assert verdict(store, source, problem()).verdict is Verdict.AC
    assert verdict(store, python(text), problem({"1": (b"", b"0")})).verdict is Verdict.AC


def test_what_a_daemon_leaves_is_told_and_gone(store: Store) -> None:
    case = one(store, "setsid sleep 100 >/dev/null 2>&1 & echo", problem())
    assert (case.verdict, case.killed_processes) == (Verdict.AC, 1)


def test_a_submission_finds_neither_answers_nor_other_inputs_nor_files_of_other_cases(store: Store, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "1.in").write_bytes(b"1")
    (data / "1.ans").write_bytes(b"secret")
    cases = tuple(Case(name=name, input=data / "1.in", answer=data / "1.ans") for name in ("1", "2"))
    of = replace(problem(), data=Group(items=cases), root=tmp_path)
    text = f"cat {data}/1.ans {data}/* /judge/* 2>/dev/null; cat /tmp/kept ./kept; echo kept >/tmp/kept; echo kept >kept"
    judgement = verdict(store, bash(text), of, run_all=True)
    assert [(case.verdict, case.output) for case in judgement.cases] == [(Verdict.WA, b""), (Verdict.WA, b"")]


def test_answers_beneath_what_a_language_shows_are_hidden(store: Store, tmp_path: Path) -> None:
    cases = tmp_path / "shown" / "cases"
    cases.mkdir(parents=True)
    (cases / "1.in").write_text("")
    (cases / "1.ans").write_text("42\n")
    languages = Languages({**builtin(), "bash": replace(builtin()["bash"], readable=(str(tmp_path / "shown"),))})
    options = Options(store=store, languages=languages, cpu_seconds=5)
    told = judge(submission({"a.sh": f"ls {tmp_path}/shown && cat {cases}/1.ans"}), str(cases), options)
    assert told.verdict is Verdict.RTE and told.cases[0].output == b"cases\n"


def test_several_at_once_give_the_same(store: Store) -> None:
    text = "read a b; [ $a = 5 ] && exit 1; echo $((a + b))"
    alone, together = (verdict(store, bash(text), SUM, parallel=parallel) for parallel in (1, 3))
    assert alone.verdict is together.verdict is Verdict.RTE
    assert [case.case for case in alone.cases] == [case.case for case in together.cases] == ["1", "2"]
    assert alone.skipped == together.skipped == ("3",)


class Meeting(PosixPath):
    """An input that is opened when another one is being opened too."""

    barrier = threading.Barrier(2, timeout=20)

    def __fspath__(self) -> str:
        self.barrier.wait()
        return super().__fspath__()


def test_as_many_cases_are_under_way_at_once_as_asked(store: Store, tmp_path: Path) -> None:
    (tmp_path / "in").write_text("met")
    cases = tuple(Case(name=name, input=Meeting(tmp_path / "in"), answer=b"met") for name in "1234")
    judgement = verdict(store, bash("cat"), replace(problem(), data=Group(items=cases)), parallel=2)
    assert [(case.case, case.verdict) for case in judgement.cases] == [(name, Verdict.AC) for name in "1234"]


def test_a_result_says_what_disturbed_the_run(store: Store) -> None:
    before = os.sched_getaffinity(0)
    core = min(before)
    try:
        os.sched_setaffinity(0, {core})
        case = one(store, "echo", problem())
    finally:
        os.sched_setaffinity(0, before)
    assert case.noise is not None and case.noise.core == core and case.noise.runs == (case.cpu_seconds,)
    assert case.noise.steal_seconds is not None and case.noise.steal_seconds >= 0


def test_groups_go_on_where_they_say_so(store: Store) -> None:
    of = replace(SUM, data=replace(SUM.data, on_reject=OnReject.CONTINUE))
    judgement = verdict(store, bash("echo 11"), of)
    assert [case.verdict for case in judgement.cases] == [Verdict.WA, Verdict.AC, Verdict.WA]


def test_all_cases_are_judged_when_asked(store: Store) -> None:
    assert len(verdict(store, bash("echo 11"), SUM, run_all=True).cases) == 3


def test_each_case_is_told_as_it_is_done(store: Store) -> None:
    told: list[tuple[str, int]] = []
    judge(
        bash("echo 3"),
        SUM,
        Options(store=store, run_all=True),
        on_case=lambda case: told.append((case.case, threading.get_ident())),
    )
    assert told == [(name, threading.get_ident()) for name in ("1", "2", "3")]


# ---- before anything is run ----


def test_what_does_not_compile_says_why(store: Store) -> None:
    judgement = verdict(store, bash("if"), SUM)
    assert judgement.verdict is Verdict.CE
    assert judgement.compilation is not None and judgement.compilation.failure is CompileFailure.ERROR
    assert "syntax error" in judgement.message
    assert judgement.cases == ()


def test_a_source_that_is_too_long_is_not_compiled(store: Store) -> None:
    judgement = verdict(store, bash("#" * 2000), problem(code_bytes=1000))
    assert (judgement.verdict, judgement.message) == (Verdict.CE, "the source has 2000 bytes, and may have 1000")


def test_a_language_that_nobody_knows_or_permits_is_an_error_of_the_submission(store: Store) -> None:
    unknown = verdict(store, submission({"main.unheard_of": "x"}), SUM)
    assert unknown.verdict is Verdict.CE and "main.unheard_of" in unknown.message
    refused = verdict(store, bash(""), replace(SUM, languages=frozenset({"cpp", "python3"})))
    assert (refused.verdict, refused.message) == (Verdict.CE, "programs in Bash are not permitted: cpp, python3 are")
    assert (
        verdict(store, python("print(sum(map(int, input().split())))"), replace(SUM, languages=frozenset({"py"}))).verdict == "AC"
    )


def test_without_a_time_limit_nothing_is_judged(store: Store) -> None:
    of = replace(SUM, limits=replace(SUM.limits, cpu_seconds=None))
    with pytest.raises(PolicyError, match="time limit"):
        verdict(store, bash("echo 3"), of)
    assert verdict(store, bash("echo 3"), of, cpu_seconds=2.0).cpu_limit_seconds == 2.0


def test_files_that_go_with_every_submission_replace_its_own(store: Store) -> None:
    added = submission({"helper.sh": "helper() { echo 3; }"}).files
    mine = submission({"main.sh": 'source "$(dirname "$0")/helper.sh"; helper', "helper.sh": "helper() { echo 4; }"})
    of = replace(problem({"1": (b"", b"3")}), include={"bash": added})
    assert verdict(store, mine, problem({"1": (b"", b"3")})).verdict is Verdict.WA
    assert verdict(store, mine, of).verdict is Verdict.AC


# ---- faults of the problem ----


def test_a_case_that_cannot_be_read_is_a_judge_error(store: Store, tmp_path: Path) -> None:
    gone = Case(name="1", input=tmp_path / "gone.in", answer=b"")
    judgement = verdict(store, bash("echo"), replace(problem(), data=Group(items=(gone,))))
    assert judgement.verdict is Verdict.JE and "gone.in" in judgement.message


def test_a_flag_that_the_checker_does_not_know_is_a_judge_error(store: Store) -> None:
    of = problem({"1": (b"", b"x")}, checker=Checker(kind=CheckerKind.DEFAULT, flags=("sloppy",)))
    judgement = verdict(store, bash("echo y"), of)
    assert judgement.verdict is Verdict.JE and "sloppy" in judgement.message


# ---- expectations, sources ----


def test_what_is_expected_is_compared(store: Store) -> None:
    expected = Expectation(verdicts=frozenset({Verdict.WA}), origin="submissions/wrong_answer")
    right = replace(bash("read a b; echo $((a + b))"), expected=expected)
    judgement = verdict(store, right, SUM)
    assert (judgement.expected, len(judgement.unmet)) == (False, 1)
    assert verdict(store, replace(bash("echo 0"), expected=expected), SUM).expected is True


def test_a_path_is_a_submission(store: Store, tmp_path: Path) -> None:
    (tmp_path / "program" / "lib").mkdir(parents=True)
    (tmp_path / "program" / "main.sh").write_text('source "$(dirname "$0")/lib/add.sh"')
    (tmp_path / "program" / "lib" / "add.sh").write_text("read a b; echo $((a + b))")
    (tmp_path / "single.sh").write_text("read a b; echo $((a + b))")
    for name in ("program", "single.sh"):
        assert judge(tmp_path / name, SUM, Options(store=store)).verdict is Verdict.AC
    with pytest.raises(PolicyError, match="no source there"):
        source_at(tmp_path / "missing")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("parallel", value) for value in (0, -1, 257, True, 1.0, "2")),
        *(("rerun_near", value) for value in (-0.1, 2, "x", None, True, float("nan"))),
        *(("cpu_seconds", value) for value in (0, -1.0, "2", True, float("nan"), float("inf"), 43_201)),
        *(("run_all", value) for value in (1, "no")),
        *(("languages", value) for value in (None, {}, "c")),
        *(("store", value) for value in ("/tmp", True)),
    ],
)
def test_options_that_make_no_sense_are_refused(field: str, value: object) -> None:
    with pytest.raises(PolicyError, match=f"^{field}="):
        Options(**{field: value})  # type: ignore[arg-type]
