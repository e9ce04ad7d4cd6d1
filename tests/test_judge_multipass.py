"""Several passes: who wants another, what stays, what counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from graded import bash, problem, verdict

from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.store import Store
from sandbox_native.judge.verdicts import Verdict

START = """import pathlib, sys
feedback = pathlib.Path(sys.argv[3])
output = sys.stdin.read().strip()
state = feedback / "state"
number = len(state.read_text()) + 1 if state.exists() else 1
state.write_text("x" * number)
again = feedback / "nextpass.in"
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def judged(store: Store, validator: str, text: str, passes: int = 3, interactive: bool = False) -> CaseResult:
    of = problem(
        {"1": (b"first", b"answer")}, validator=START + validator, multi_pass=True, interactive=interactive, passes=passes
    )
    (case,) = verdict(store, bash(text), of).cases
    return case


def test_the_program_runs_again_on_what_the_validator_left(store: Store) -> None:
    script = """
given = pathlib.Path(sys.argv[1]).read_text()
with (feedback / "judgemessage.txt").open("a") as file:
    print(number, given, output, again.exists(), file=file)
if number < 3:
    again.write_text(f"pass {number + 1}")
sys.exit(42)
"""
    case = judged(store, script, "read x; echo $x; sleep 0.0$RANDOM")
    assert (case.verdict, case.passes) == (Verdict.AC, 3)
    assert case.message.splitlines() == ["1 first first False", "2 first pass 2 False", "3 first pass 3 False"]
    assert case.output == b"pass 3\n"


def test_the_first_bad_pass_is_the_end(store: Store) -> None:
    script = "again.write_text('2')\nsys.exit(42)"
    crashed = judged(store, script, "read x; [ $x = 2 ] && exit 7; echo")
    assert (crashed.verdict, crashed.exit_code, crashed.passes) == (Verdict.RTE, 7, 2)
    rejected = judged(store, "if number == 1: again.write_text('2')\nsys.exit(41 + number)", "echo")
    assert (rejected.verdict, rejected.passes) == (Verdict.WA, 2)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("again.write_text('more')\nsys.exit(42)", "wants more than 3 passes"),
        ("again.write_text('more')\nsys.exit(43)", "rejected pass 1 and left nextpass.in"),
        ("again.write_text('more')\nsys.exit(1)", "exited with 1"),
        ("again.mkdir()\nsys.exit(42)", "feedback cannot be read: nextpass.in: "),
        ("again.mkdir()\n(again / 'x').write_text('more')\nsys.exit(42)", "feedback cannot be read: nextpass.in: "),
        ("again.write_bytes(bytes(9 << 20))\nsys.exit(42)", "more than is left of limits.validation_output"),
    ],
)
def test_a_validator_that_breaks_the_rules_is_a_judge_error(store: Store, script: str, words: str) -> None:
    case = judged(store, script, "echo")
    assert case.verdict is Verdict.JE and words in case.message


def test_the_dearest_pass_counts(store: Store) -> None:
    script = "if number < 3: again.write_text(str(number))\nsys.exit(42)"
    text = "read x; if [ $x = 1 ]; then a=x; for i in {1..22}; do a=$a$a; done; fi; echo"
    alone = judged(store, "sys.exit(42)", "echo")
    case = judged(store, script, text)
    assert case.passes == 3
    assert case.peak_memory_bytes > 2 * alone.peak_memory_bytes  # that of the second


def test_interactive_problems_can_have_several_passes(store: Store) -> None:
    script = "if number < 3: again.write_text('more')\nsys.exit(42 if output == 'hello' else 43)"
    case = judged(store, script, "echo hello", interactive=True)
    assert (case.verdict, case.passes) == (Verdict.AC, 3)
