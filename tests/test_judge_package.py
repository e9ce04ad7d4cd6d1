"""The names of sandbox_native.judge, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sandbox_native import judge

PUBLIC = {
    *("judge", "Judge", "Judged", "Judgement", "CaseResult", "Options", "Store", "Boxes", "source_at", "SourceError"),
    *(
        "Problem",
        "ProblemError",
        "ProblemLimits",
        "load_problem",
        "inferred_limit",
        "with_time_limit",
        "problem_of_cases",
        "Group",
        "Case",
        "Checker",
        "CheckerKind",
    ),
    *("Submission", "ProgramSource", "SourceFile", "Language", "Languages", "Verdict", "System"),
    *("judge_function", "FunctionJudge", "FunctionJudgement", "FunctionTask", "RewardFunction", "extract_program"),
}


def test_exactly_the_public_names_are_exported() -> None:
    assert set(judge.__all__) == PUBLIC and len(judge.__all__) == len(PUBLIC) and dir(judge) == sorted(PUBLIC)
    assert [name for name in PUBLIC if getattr(judge, name, None) is None] == []
    with pytest.raises(AttributeError, match="sandbox_native.judge.*nothing"):
        _ = judge.nothing


def test_values_come_without_the_native_part() -> None:
    code = (
        "import sys; from sandbox_native.judge import Group, SourceFile, Verdict; print('sandbox_native._native' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
