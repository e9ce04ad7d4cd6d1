"""A folder of files and a list of cases are problems too."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_native.judge.problems import ProblemError, load_problem, problem_of_cases, read_folder
from sandbox_native.judge.values import Case, Checker, CheckerKind, OnReject, ProblemLimits


def fill(place: Path, names: list[str]) -> Path:
    for name in names:
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))
    return place


def test_cases_of_a_folder_come_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    names = ["10", "2", "1", "big/1", "a", "b2", "b10"]
    problem = read_folder(fill(tmp_path, [f"{name}.{ending}" for name in names for ending in ("in", "ans")]))
    assert [case.name for case in problem.cases()] == ["1", "2", "10", "a", "b2", "b10", "big/1"]
    assert problem.cases()[0].input == tmp_path / "1.in" and problem.format == "folder"


def test_answers_may_end_in_out(tmp_path: Path) -> None:
    problem = load_problem(fill(tmp_path, ["1.in", "1.out"]))
    assert problem.cases()[0].answer == tmp_path / "1.out"


@pytest.mark.parametrize(
    ("names", "field"), [([], "cases"), (["readme.txt"], "cases"), (["1.in"], "answer"), (["1.out"], "input")]
)
def test_a_folder_without_whole_cases_is_refused(tmp_path: Path, names: list[str], field: str) -> None:
    with pytest.raises(ProblemError) as raised:
        load_problem(fill(tmp_path, names))
    error = raised.value
    assert error.field == field and error.remedy


@pytest.mark.parametrize(("name", "missing"), [("3.in", "3.ans"), ("3.ans", "3.in"), ("sub/3.in", "sub/3.ans")])
def test_the_file_that_lacks_is_named_as_it_would_lie_there(tmp_path: Path, name: str, missing: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).touch()
    with pytest.raises(ProblemError) as caught:
        read_folder(tmp_path)
    assert caught.value.value == repr(missing)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="no such directory"):
        load_problem(tmp_path / "missing")


def test_pairs_of_texts_or_bytes_or_paths_are_cases(tmp_path: Path) -> None:
    path = fill(tmp_path, ["x"]) / "x"
    problem = problem_of_cases([("é", b"2"), (path, path), Case(name="own", input=b"1")])
    first, second, third = problem.cases()
    assert (first.name, first.input, first.answer) == ("1", "é".encode(), b"2")
    assert (second.name, second.input) == ("2", path) and third.name == "own"
    assert problem.data.on_reject is OnReject.BREAK and not problem.scoring


def test_limits_and_checker_are_taken() -> None:
    limits, checker = ProblemLimits(cpu_seconds=0.5), Checker(kind=CheckerKind.EXACT)
    problem = problem_of_cases([("", "")], limits=limits, checker=checker, scoring=True)
    assert (problem.limits, problem.checker, problem.data.on_reject) == (limits, checker, OnReject.CONTINUE)


@pytest.mark.parametrize(
    ("cases", "field"),
    [([], "cases"), ([("a",)], "cases[0]"), ([("a", "b"), "ab"], "cases[1]"), ([Case(name="2"), ("a", "b")], "name")],
)
def test_bad_lists_of_cases_are_refused(cases: list[object], field: str) -> None:
    with pytest.raises(ProblemError) as raised:
        problem_of_cases(cases)  # type: ignore[arg-type]
    assert raised.value.field == field and raised.value.remedy


def test_a_case_of_a_folder_may_have_any_name_that_can_be_shown(tmp_path: Path) -> None:
    names = ["case 2", "tëst3", "-4", "5 (copy)", "sub folder/é"]
    problem = read_folder(fill(tmp_path, [f"{name}.{ending}" for name in names for ending in ("in", "ans")]))
    assert {case.name for case in problem.cases()} == set(names) and problem.notes == ()


@pytest.mark.parametrize("name", [b"2\n.in", b"2\xff.ans", b"a\x1b[2J.in"])
def test_a_case_whose_name_cannot_be_shown_is_refused(tmp_path: Path, name: bytes) -> None:
    fill(tmp_path, ["1.in", "1.ans", os.fsdecode(name)])
    with pytest.raises(ProblemError, match="cannot be shown") as raised:
        read_folder(tmp_path)
    assert raised.value.field == "name" and str(raised.value).isprintable()


def test_what_belongs_to_no_case_is_noted(tmp_path: Path) -> None:
    fill(tmp_path, ["1.in", "1.ans", "1.hint", ".hidden.in", ".git/config", "2.input", "3.out", "read me.txt"])
    assert read_folder(tmp_path).notes == (
        "2.input, 3.out, read me.txt: of no case: ignored",
        ".git: its name begins with a dot or cannot be shown: ignored",
        ".hidden.in: its name begins with a dot or cannot be shown: ignored",
    )


def test_many_notes_are_counted(tmp_path: Path) -> None:
    fill(tmp_path, ["1.in", "1.ans", *(f".{number:02}" for number in range(25)), *(f"{number:02}.txt" for number in range(25))])
    notes = read_folder(tmp_path).notes
    assert len(notes) == 22 and notes[0].endswith("and 15 more: of no case: ignored") and notes[-1] == "5 more names are ignored"


@pytest.mark.parametrize("file", ["problem.yaml", "domjudge-problem.ini"])
def test_a_folder_with_a_package_in_it_is_refused(tmp_path: Path, file: str) -> None:
    fill(tmp_path, ["1.in", "1.ans", "a/b/data/secret/1.in", "a/b/data/secret/1.ans"])
    (tmp_path / "a/b" / file).write_text("")
    with pytest.raises(ProblemError, match="one lies in it") as raised:
        load_problem(tmp_path)
    assert str(tmp_path / "a/b") in raised.value.remedy
    assert load_problem(tmp_path / "a/b").format != "folder"
