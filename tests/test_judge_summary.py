"""Judgements in few words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sandbox_native.judge.outcomes import CaseResult, Judgement
from sandbox_native.judge.summary import remark, summary_rows
from sandbox_native.judge.verdicts import Verdict

RIGHT = CaseResult(case="1", verdict=Verdict.AC, cpu_seconds=0.25, peak_memory_bytes=1 << 20)
WRONG = CaseResult(case="2", verdict=Verdict.WA, cpu_seconds=0.5, message="line 1")
BLANK = Judgement(submission="a.c", problem="test", verdict=Verdict.WA, cases=(RIGHT, WRONG), skipped=("3",))


def test_a_row_has_the_largest_figures_and_the_share_that_was_accepted() -> None:
    headers, rows = summary_rows([BLANK.to_dict()])
    assert dict(zip(headers, rows[0], strict=True)) == {
        "submission": "a.c",
        "verdict": "WA",
        "accepted": "1/3",
        "CPU": "500 ms",
        "memory": "1 MiB",
        "remark": "2: line 1",
    }


def test_scores_have_a_column_where_there_are_any() -> None:
    headers, rows = summary_rows([replace(BLANK, score=7.5, max_score=10.0).to_dict(), BLANK.to_dict()])
    assert [row[headers.index("score")] for row in rows] == ["7.5", ""]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (replace(WRONG, limit="cpu"), "2: cpu limit"),
        (replace(WRONG, signal="SIGSEGV"), "2: SIGSEGV"),
        (replace(WRONG, message=""), "2: WA"),
        (replace(WRONG, exit_code=3), "2: exit code 3"),
        (
            replace(WRONG, exit_code=1, errors=b"Traceback (most recent call last):\n  x\nKeyError: 1\n"),
            "2: exit code 1: KeyError: 1",
        ),
        (replace(WRONG, signal="SIGABRT", errors=b"\xff failed\n"), "2: SIGABRT: \ufffd failed"),
        (replace(WRONG, limit="cpu", errors=b"note"), "2: cpu limit"),
        (replace(WRONG, message="two\nlines"), "2: two lines"),
    ],
)
def test_the_first_case_that_failed_says_why(given: CaseResult, words: str) -> None:
    assert remark(replace(BLANK, cases=(RIGHT, given, WRONG)).to_dict()) == words


def test_what_was_expected_comes_first_and_the_whole_s_message_next() -> None:
    told = replace(BLANK, message="no", unmet=("it should be AC",))
    assert remark(told.to_dict()) == "it should be AC"
    assert remark(replace(told, unmet=()).to_dict()) == "no"
    assert remark(replace(BLANK, cases=(RIGHT,)).to_dict()) == ""


def test_a_remark_is_bounded() -> None:
    assert len(remark(replace(BLANK, message="x" * 1000).to_dict())) == 160
