"""A package's own validator: what it is given, what its end means, what it leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from graded import bash, problem, verdict

from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Case, Group, Problem
from sandbox_native.judge.verdicts import Verdict

START = "import pathlib, sys\nfeedback = pathlib.Path(sys.argv[3])\n"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def judged(store: Store, validator: str, of: Problem | None = None, text: str = "echo out") -> CaseResult:
    whole = (
        problem(validator=START + validator) if of is None else replace(of, checker=problem(validator=START + validator).checker)
    )
    (case,) = verdict(store, bash(text), whole).cases
    return case


def test_42_accepts_and_43_rejects_and_its_words_are_kept(store: Store) -> None:
    words = (
        '(feedback / "judgemessage.txt").write_text("for judges\\n")\n(feedback / "teammessage.txt").write_text("for teams")\n'
    )
    for code, expected in ((42, Verdict.AC), (43, Verdict.WA)):
        case = judged(store, f"{words}sys.exit({code})")
        assert (case.verdict, case.message, case.team_message) == (expected, "for judges", "for teams")


def test_it_sees_input_answer_output_and_flags(store: Store, tmp_path: Path) -> None:
    (tmp_path / "1.ans").write_bytes(b"answer")
    case = Case(name="1", input=b"input", answer=tmp_path / "1.ans", checker_flags=("a", "b c"))
    script = """
given = [pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2]).read_text(), sys.stdin.read(), sys.argv[4:]]
(feedback / "judgemessage.txt").write_text(repr([*given, list(feedback.iterdir())]))
sys.exit(42)
"""
    found = judged(store, script, replace(problem(), data=Group(items=(case,))))
    assert found.message == "['input', 'answer', 'out\\n', ['a', 'b c'], []]"


@pytest.mark.parametrize("inside", [True, False], ids=["of the package", "from elsewhere"])
@pytest.mark.parametrize("mode", [0o644, 0o600])
def test_files_are_shown_whoever_may_read_them_on_the_host(store: Store, tmp_path: Path, inside: bool, mode: int) -> None:
    root = tmp_path / "package"
    (root / "data").mkdir(parents=True)
    place = root / "data" / "1.in" if inside else tmp_path / "1.in"
    place.write_bytes(b"input")
    place.chmod(mode)
    of = replace(problem(), root=root, data=Group(items=(Case(name="1", input=place, answer=b""),)))
    script = """
try:
    open(sys.argv[1], "a")
except OSError:
    sys.exit(42 if open(sys.argv[1]).read() == "input" else 43)
"""
    assert judged(store, script, of).verdict is Verdict.AC


def test_only_a_run_that_ended_well_is_validated(store: Store) -> None:
    case = judged(store, "sys.exit(1)", text="exit 3")
    assert (case.verdict, case.message) == (Verdict.RTE, "")


@pytest.mark.parametrize(
    ("script", "words", "limit"),
    [
        ("sys.exit(1)", "the output validator exited with 1", None),
        ("pass", "the output validator exited with 0", None),
        ("print('why', file=sys.stderr); sys.exit(9)", "exited with 9: why", None),
        ("import os; os.abort()", "was ended by signal 6", None),
        ("while True: pass", "passed its", "validation time"),
        ("a = bytearray(300 << 20)", "passed its memory limit", "validation memory"),
        ("while True: print('x' * 9999)", "passed its output limit", "validation output"),
        ('(feedback / "score.txt").write_text("many"); sys.exit(42)', "wrote 'many' to score.txt", None),
        ('(feedback / "score.txt").write_text("nan"); sys.exit(42)', "wrote 'nan' to score.txt", None),
        ('(feedback / "judgemessage.txt").symlink_to("/etc/passwd"); sys.exit(42)', "feedback cannot be read", None),
    ],
)
def test_any_other_end_is_a_judge_error(store: Store, script: str, words: str, limit: str | None) -> None:
    limits = {"validation_seconds": 0.3 if limit == "validation time" else 10.0, "validation_memory_bytes": 100 << 20}
    case = judged(store, script, problem(**limits, validation_output_bytes=100_000))
    clock = {"validation cpu": "validation time", "validation wall": "validation time"}  # which is first is the machine's affair
    found = None if case.limit is None else clock.get(case.limit, case.limit)
    assert (case.verdict, found) == (Verdict.JE, limit), case
    assert words in case.message


def test_a_score_is_read(store: Store) -> None:
    case = judged(
        store,
        '(feedback / "score.txt").write_text(" 12.5\\n"); (feedback / "score_multiplier.txt").write_text("0.5"); sys.exit(42)',
    )
    assert (case.score, case.score_multiplier) == (12.5, 0.5)


def test_it_leaves_nothing_for_the_next_case(store: Store) -> None:
    script = 'seen = list(feedback.iterdir()) + list(pathlib.Path("/tmp").iterdir())\n(feedback / "x").write_text("")\n'
    script += 'pathlib.Path("/tmp/x").write_text("")\nsys.exit(43 if seen else 42)\n'
    of = problem({"1": (b"", b""), "2": (b"", b"")}, validator=START + script)
    assert verdict(store, bash("echo"), of).verdict is Verdict.AC


def test_a_validator_that_does_not_compile_is_a_judge_error(store: Store) -> None:
    judgement = verdict(store, bash("echo"), problem(validator="def"))
    assert judgement.verdict is Verdict.JE
    assert "the output validator validate.py does not compile" in judgement.message and "SyntaxError" in judgement.message


def test_a_submission_does_not_see_the_validator(store: Store) -> None:
    secret = "sys.exit(42 if 'xyzzy' not in sys.stdin.read() else 43)"
    text = "cat /programs/*/* /workspace/* /judge/*/* 2>/dev/null; ls /programs/ 2>/dev/null; true"
    assert judged(store, secret, text=text).verdict is Verdict.AC
