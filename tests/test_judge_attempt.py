"""What the end of a run means: the true cause, not the first symptom."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from graded import MIB
from judged import compiled

from sandbox_native import Overflow, Result, Status, run
from sandbox_native.judge.attempt import Terms, signal_name
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Case, ProblemLimits, SourceFile
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.limits import UNLIMITED_STACK_BYTES


@pytest.fixture(scope="module")
def ended() -> Result:
    return run(["/bin/true"])


@pytest.fixture(scope="module")
def terms(tmp_path_factory: pytest.TempPathFactory) -> Terms:
    program = compiled(Store(tmp_path_factory.mktemp("store")), {"main.py": "pass\n"}).program
    assert program is not None
    return Terms.of(program, ProblemLimits(memory_bytes=100 * MIB, output_bytes=5000), 2.0, 0.1)


def with_cpu(result: Result, seconds: float) -> Result:
    return replace(result, usage=replace(result.usage, cpu_seconds=seconds))


def test_the_run_may_take_what_is_measured_again_and_the_limit_decides(terms: Terms, ended: Result) -> None:
    assert terms.limits.cpu_seconds == pytest.approx(2.2)
    assert terms.end(with_cpu(ended, 2.0)).verdict is None
    late = terms.end(with_cpu(ended, 2.01))
    assert (late.verdict, late.limit) == (Verdict.TLE, "cpu")


def test_limits_of_the_problem_are_those_of_the_run(terms: Terms) -> None:
    limits = terms.limits
    assert (limits.wall_seconds, limits.memory_bytes, limits.stdout_bytes) == (4.0, 100 * MIB, 5000)
    assert (limits.on_overflow, limits.stack_bytes) == (Overflow.KILL, UNLIMITED_STACK_BYTES)


@pytest.mark.parametrize(
    ("status", "verdict", "limit"),
    [
        (Status.WALL_LIMIT, Verdict.TLE, "wall"),
        (Status.CPU_LIMIT, Verdict.TLE, "cpu"),
        (Status.MEMORY_LIMIT, Verdict.MLE, "memory"),
        (Status.OUTPUT_LIMIT, Verdict.OLE, "output"),
        (Status.FORBIDDEN_SYSCALL, Verdict.FS, None),
        (Status.NONZERO_EXIT, Verdict.RTE, None),
        (Status.SIGNALED, Verdict.RTE, None),
    ],
)
def test_each_status_has_its_verdict(terms: Terms, ended: Result, status: Status, verdict: Verdict, limit: str | None) -> None:
    end = terms.end(replace(ended, status=status))
    assert (end.verdict, end.limit) == (verdict, limit)
    # Whatever ended it: the time had passed before.
    late = terms.end(with_cpu(replace(ended, status=status), 2.05))
    assert (late.verdict, late.limit) == (Verdict.TLE, "cpu")


def test_a_run_time_that_was_refused_memory_has_not_crashed(terms: Terms, ended: Result) -> None:
    words = replace(ended, status=Status.NONZERO_EXIT, exit_code=1, stderr=b"Traceback:\nMemoryError\n")
    failed = replace(words, usage=replace(ended.usage, peak_memory_bytes=60 * MIB))
    end = terms.end(failed)
    assert (end.verdict, end.limit) == (Verdict.MLE, "memory")
    assert terms.end(replace(ended, stderr=b"MemoryError\n")).verdict is None  # it ended well


def test_words_of_memory_count_only_where_it_can_have_been_refused(terms: Terms, ended: Result) -> None:
    words = replace(ended, status=Status.NONZERO_EXIT, exit_code=1, stderr=b"MemoryError\n")
    small = replace(words, usage=replace(ended.usage, peak_memory_bytes=8 * MIB))
    assert terms.end(small).verdict is Verdict.RTE
    bounded = replace(terms, limits=replace(terms.limits, address_space_bytes=200 * MIB))
    assert bounded.end(small).verdict is Verdict.MLE
    own = replace(terms.program.language, run=("python3", "--most={memory_mib}"))  # as of java and node
    assert replace(terms, program=replace(terms.program, language=own)).end(small).verdict is Verdict.MLE


def test_one_file_may_have_all_the_memory(terms: Terms) -> None:
    assert terms.limits.file_bytes == 100 * MIB


def test_a_crash_with_all_processes_in_use_names_that_limit(terms: Terms, ended: Result) -> None:
    used_up = replace(ended, status=Status.NONZERO_EXIT, usage=replace(ended.usage, peak_processes=terms.limits.processes))
    assert terms.end(used_up).limit == "processes"


def test_too_much_output_counted_by_somebody_else_counts(terms: Terms, ended: Result) -> None:
    end = terms.end(replace(ended, status=Status.CANCELLED), overflowed=True)
    assert (end.verdict, end.limit) == (Verdict.OLE, "output")


def test_signals_have_names() -> None:
    assert [signal_name(number) for number in (None, 11, 40)] == [None, "SIGSEGV", "SIG40"]


def test_files_of_a_case_are_read(terms: Terms, tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"two")
    files = (SourceFile(name="a", content=b"one"), SourceFile(name="d/b", content=tmp_path / "b"))
    assert terms.placed(Case(name="1", files=files)) == {"a": b"one", "d/b": b"two"}
    assert terms.placed(Case(name="1")) is None


def test_the_limit_of_output_is_of_both_streams_together(terms: Terms, ended: Result) -> None:
    assert terms.end(replace(ended, stdout_total=3000, stderr_total=2000)).verdict is None
    late = terms.end(replace(ended, stdout_total=3000, stderr_total=2001))
    assert (late.verdict, late.limit) == (Verdict.OLE, "output")


def test_terms_can_be_pickled(terms: Terms) -> None:
    assert pickle.loads(pickle.dumps(terms)) == terms
