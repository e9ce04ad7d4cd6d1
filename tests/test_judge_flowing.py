"""Outputs that no Result holds: checked as they come."""

from __future__ import annotations

from pathlib import Path

import pytest
from graded import MIB, bash, problem, verdict

from sandbox_native.judge import casework
from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Case, Group, Problem
from sandbox_native.judge.verdicts import Verdict


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every output limit is above what a Result holds."""
    monkeypatch.setattr(casework, "LARGEST_CAPTURE", 1000)


def judged(store: Store, text: str, of: Problem) -> CaseResult:
    (case,) = verdict(store, bash(text), of).cases
    return case


def test_a_long_output_is_compared_with_a_file(store: Store, tmp_path: Path) -> None:
    (tmp_path / "1.ans").write_bytes(b"yes\n" * MIB)
    of = problem(output_bytes=5 * MIB)
    of = Problem(name="long", limits=of.limits, data=Group(items=(Case(name="1", answer=tmp_path / "1.ans"),)))
    right = judged(store, f"yes yes | head -n {MIB}", of)
    assert (right.verdict, right.output_bytes, right.output[:8]) == (Verdict.AC, 4 * MIB, b"yes\nyes\n")
    wrong = judged(store, f"yes yes | head -n {MIB - 1}", of)
    assert wrong.verdict is Verdict.WA and wrong.difference is not None
    assert (wrong.difference.line, wrong.difference.reason) == (MIB, "the output ends too early")


@pytest.mark.parametrize("validator", [None, "import sys\nsys.exit(43)"])
def test_a_flood_is_one_however_wrong_it_is(store: Store, validator: str | None) -> None:
    of = problem({"1": (b"", b"no")}, validator=validator, output_bytes=MIB, wall_seconds=100.0)
    half = f"yes | head -c {600 << 10}"
    for text in ("yes", "yes >&2", f"{half}; {half} >&2"):
        case = judged(store, text, of)
        assert (case.verdict, case.limit) == (Verdict.OLE, "output"), case


def test_what_was_wrong_before_the_end_is_too_slow_first(store: Store) -> None:
    case = judged(store, "echo wrong; while :; do :; done", problem(cpu_seconds=0.2, wall_seconds=60.0))
    assert (case.verdict, case.limit, case.output) == (Verdict.TLE, "cpu", b"wrong\n")


def test_a_validator_gets_all_of_it(store: Store) -> None:
    script = "import sys\nsys.exit(42 if sys.stdin.read() == 'yes\\n' * 100000 else 43)"
    case = judged(store, "yes yes | head -n 100000", problem(validator=script))
    assert (case.verdict, case.output_bytes) == (Verdict.AC, 400_000)
    assert judged(store, "yes yes | head -n 99999", problem(validator=script)).verdict is Verdict.WA
