"""What a judge has done so far: what counts as done, and what as the same work."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graded import bash, problem

from sandbox_native import PolicyError
from sandbox_native.judge.journal import Journal, problem_digest, source_digest
from sandbox_native.judge.outcomes import (
    CaseResult,
    CompileFailure,
    CompileResult,
    Difference,
    GroupResult,
    Judgement,
    Noise,
)
from sandbox_native.judge.problems import read_folder
from sandbox_native.judge.setup import Options
from sandbox_native.judge.values import Expectation, Problem, Submission
from sandbox_native.judge.verdicts import Verdict

OPTIONS = Options()
ONE, TWO = bash("echo 1"), bash("echo 2")


def judgement(verdict: Verdict) -> Judgement:
    cases = (CaseResult(case="1", verdict=verdict, output=b"\xff"),)
    return Judgement(submission="main.sh", problem="test", verdict=verdict, cases=cases, message="why")


def test_what_was_written_is_there_again(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    for _ in range(2):
        with Journal(path, problem(), OPTIONS) as journal:
            assert journal.earlier(journal.id_of(TWO)) is None
            if journal.earlier(journal.id_of(ONE)) is None:
                journal.write(journal.id_of(ONE), judgement(Verdict.WA).to_dict())
    with Journal(path, problem(), OPTIONS) as journal:
        assert journal.earlier(journal.id_of(ONE)) == judgement(Verdict.WA).to_dict()
    assert len(Path(path).read_text().splitlines()) == 1


def test_a_judge_error_is_tried_again_and_the_last_line_counts(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for verdict in (Verdict.JE, Verdict.AC):
        with Journal(str(path), problem(), OPTIONS) as journal:
            assert journal.earlier(journal.id_of(ONE)) is None
            journal.write(journal.id_of(ONE), judgement(verdict).to_dict())
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(line["line"], line["verdict"], "error" in line) for line in lines] == [(1, "JE", True), (1, "AC", False)]
    with Journal(str(path), problem(), OPTIONS) as journal:
        assert (journal.earlier(journal.id_of(ONE)) or {})["verdict"] == "AC"


def test_a_torn_line_is_no_judgement(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    with Journal(str(path), problem(), OPTIONS) as journal:
        for source in (ONE, TWO):
            journal.write(journal.id_of(source), judgement(Verdict.AC).to_dict())
    path.write_bytes(path.read_bytes()[:-20])
    with Journal(str(path), problem(), OPTIONS) as journal:
        assert journal.earlier(journal.id_of(ONE)) is not None
        assert journal.earlier(journal.id_of(TWO)) is None


def test_the_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine"
    path.write_text("mine\n")
    with pytest.raises(PolicyError, match="--resume"):
        Journal(str(path), problem(), OPTIONS)
    assert path.read_text() == "mine\n"


@pytest.mark.parametrize(
    "other",
    [
        replace(ONE, files=TWO.files),
        replace(ONE, files=(replace(ONE.files[0], name="other.sh"),)),
        replace(ONE, files=(*ONE.files, replace(ONE.files[0], name="other.sh"))),
        replace(ONE, language="python"),
        replace(ONE, entry_point="other"),
        replace(ONE, expected=Expectation(verdicts=frozenset({Verdict.WA}))),
    ],
)
def test_another_program_is_other_work(other: Submission) -> None:
    assert source_digest(other, OPTIONS) != source_digest(ONE, OPTIONS) == source_digest(bash("echo 1"), OPTIONS)


def test_a_file_is_the_same_as_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "main.sh").write_text("echo 1")
    there = replace(ONE, files=(replace(ONE.files[0], content=tmp_path / "main.sh"),))
    assert source_digest(there, OPTIONS) == source_digest(ONE, OPTIONS)


@pytest.mark.parametrize(
    "change",
    [
        lambda of: replace(of, limits=replace(of.limits, memory_bytes=1 << 20)),
        lambda of: replace(of, checker=replace(of.checker, flags=("case_sensitive",))),
        lambda of: problem({"1": (b"", b"x")}),
    ],
)
def test_another_problem_is_other_work(change: Callable[[Problem], Problem]) -> None:
    of = problem()
    assert problem_digest(change(of), OPTIONS) != problem_digest(of, OPTIONS) == problem_digest(problem(), OPTIONS)


def test_other_options_and_changed_cases_are_other_work(tmp_path: Path) -> None:
    for name in ("1.in", "1.ans"):
        (tmp_path / name).write_text("1")
    of = read_folder(tmp_path)
    before = problem_digest(of, OPTIONS)
    assert before == problem_digest(read_folder(tmp_path), OPTIONS)
    assert before != problem_digest(of, Options(cpu_seconds=1.0)) != problem_digest(of, Options(run_all=True))
    (tmp_path / "1.ans").write_text("12")
    assert before != problem_digest(of, OPTIONS)


def changed(line: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {**line, **fields}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda line: changed(line, version=2), "the version 2, and not 1"),
        (lambda line: {name: value for name, value in line.items() if name != "cases"}, "cases: missing"),
        (lambda line: {name: value for name, value in line.items() if name != "partial"}, "partial: missing"),
        (lambda line: changed(line, more=1), "more: not known"),
        (lambda line: changed(line, cases="x"), "cases: not a list"),
        (lambda line: changed(line, cases=[1]), "cases: not an object"),
        (lambda line: changed(line, cases=[changed(line["cases"][0], cpu_seconds="1")]), "cases: cpu_seconds: '1' is not"),
        (lambda line: changed(line, cases=[changed(line["cases"][0], cpu_seconds=10**400)]), "cases: cpu_seconds: "),
        (lambda line: changed(line, cases=[changed(line["cases"][0], output={"hex": ""})]), "cases: output: "),
        (lambda line: changed(line, verdict=["AC"]), "verdict: "),
        (lambda line: changed(line, verdict="OK"), "verdict: 'OK' is not of the kind Verdict"),
        (lambda line: changed(line, id="x"), "no id of a judgement"),
        (lambda line: changed(line, id={**line["id"], "problem": 1}), "no id of a judgement"),
        (lambda line: {"line": 2, "id": "x", "version": 1, "status": "ok"}, "no id of a judgement"),
    ],
)
def test_a_line_that_is_no_judgement_is_refused(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], reason: str
) -> None:
    path = tmp_path / "journal"
    with Journal(str(path), problem(), OPTIONS) as journal:
        journal.write(journal.id_of(ONE), judgement(Verdict.WA).to_dict())
    content = path.read_text() + json.dumps(change(json.loads(path.read_text()))) + "\n"
    path.write_text(content)
    with pytest.raises(PolicyError, match="line 2 is no result") as raised:
        Journal(str(path), problem(), OPTIONS)
    assert reason in raised.value.reason and str(path) in raised.value.value and raised.value.remedy
    assert path.read_text() == content


def test_every_judgement_has_the_shape_that_is_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    case = CaseResult(
        case="1",
        verdict=Verdict.AC,
        score=1.0,
        noise=Noise(runs=(1.0,), core=1),
        difference=Difference(line=1, column=1, expected=b"\xff", got=None),
    )
    full = replace(
        judgement(Verdict.AC),
        cases=(case,),
        compilation=CompileResult(failure=CompileFailure.TIME, command=("cc",)),
        groups=(GroupResult(group="", verdict=Verdict.AC),),
        notes=("one",),
    )
    with Journal(path, problem(), OPTIONS) as journal:
        journal.write(journal.id_of(ONE), full.to_dict())
    with Journal(path, problem(), OPTIONS) as journal:
        assert journal.earlier(journal.id_of(ONE)) == full.to_dict()
