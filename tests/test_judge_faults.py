"""What is the submission's own fault, what is the judge's, and what an error leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from graded import bash, problem, verdict
from judged import submission
from running import nap, sleepers

from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.judging import judge
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Case, Group
from sandbox_native.judge.verdicts import Verdict


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.mark.parametrize("content", [b"#!/nope\n", b"#!/programs/x\n", b"\x7fELF" + bytes(100)])
def test_a_file_that_cannot_be_executed_is_a_crash(store: Store, content: bytes) -> None:
    (case,) = verdict(store, submission({"run": content}), problem()).cases
    assert case.verdict is Verdict.RTE and "exec failed" in case.message


def test_a_bad_address_is_no_overflow_of_a_stack_that_has_no_limit(store: Store) -> None:
    (case,) = verdict(store, bash("kill -SEGV $$"), problem()).cases
    assert (case.verdict, case.signal) == (Verdict.RTE, "SIGSEGV")
    assert case.hint is not None and "array" in case.hint and "Limits" not in case.hint


def test_a_store_without_room_for_the_program_is_a_judge_error_with_its_remedy(tmp_path: Path) -> None:
    store = Store(tmp_path / "small", max_bytes=1 << 20)
    large = submission({"main.py": "pass", "data": bytes(2 << 20)})
    judgement = verdict(store, large, replace(problem(), limits=replace(problem().limits, code_bytes=4 << 20)))
    assert judgement.verdict is Verdict.JE and "max_bytes" in judgement.message


def test_an_error_in_the_middle_of_cases_at_once_ends_those_that_run(store: Store, tmp_path: Path) -> None:
    def told(case: object) -> None:
        raise ZeroDivisionError

    cases = {"1": (b"", b""), "2": (b"", b"")}
    source = bash(f"[ $1 = 1 ] || sleep {nap(433)}")
    given = problem(cases, wall_seconds=600.0)
    items = tuple(replace(case, arguments=(case.name,)) for case in given.data.items if isinstance(case, Case))
    of = replace(given, data=Group(items=items))
    with Boxes() as boxes:
        with pytest.raises(ZeroDivisionError):
            judge(source, of, Options(store=store, parallel=2), boxes=boxes, on_case=told)
        assert sleepers(433) == []
