"""What is there to test a package's validators is read as the format states it."""

from __future__ import annotations

from pathlib import Path

import pytest
from problem_packages import CURRENT, PROBLEMS, package

from sandbox_native.judge.problems import ProblemError, read_package
from sandbox_native.judge.values import ValidationKind

INVALID, REJECTED, ACCEPTED = ValidationKind.INVALID_INPUT, ValidationKind.INVALID_OUTPUT, ValidationKind.VALID_OUTPUT
CASE = {"data/valid_output/a.in": "1", "data/valid_output/a.ans": "2", "data/valid_output/a.out": "3"}


def current(place: Path, files: dict[str, str | bytes | None], more: str = "") -> Path:
    return package(place, {"problem.yaml": CURRENT + more, **files})


def test_the_example_has_each_kind_and_judges_nothing_by_it() -> None:
    problem = read_package(PROBLEMS / "validation")
    assert [(one.kind, one.case.name) for one in problem.validation] == [
        (INVALID, "invalid_input/one"),
        (INVALID, "invalid_input/two_numbers"),
        (INVALID, "invalid_input/narrow/above"),
        (REJECTED, "invalid_output/sum"),
        (REJECTED, "invalid_output/zero"),
        (ACCEPTED, "valid_output/lines"),
        (ACCEPTED, "sample/1"),
    ]
    assert [case.name for case in problem.cases()] == ["sample/1", "secret/1000", "secret/2"] and problem.notes == ()
    by_name = {one.case.name: one for one in problem.validation}
    assert by_name["invalid_input/narrow/above"].case.input_validator_flags == ("10",)
    assert by_name["invalid_input/one"].case.input_validator_flags == () == by_name["valid_output/lines"].case.checker_flags
    assert by_name["invalid_output/zero"].case.description == "zero is not positive"


def test_settings_of_a_case_are_over_those_of_its_directory(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {
        **CASE,
        **{name.replace("/a.", "/below/b."): text for name, text in CASE.items()},
        "data/valid_output/test_group.yaml": "output_validator_args: [case_sensitive]\ninput_validator_args: [a]",
        "data/valid_output/a.yaml": "input_validator_args: {v: [b]}",
        "data/sample/1.in": "1",
        "data/sample/1.ans": "1",
        "data/sample/2.in": "1",
        "data/sample/2.ans": "1",
        "data/sample/2.out": "1",
        "data/sample/test_group.yaml": "output_validator_args: [space_change_sensitive]\nfull_feedback: true",
    }
    first, below, sample = read_package(current(tmp_path, files)).validation
    assert first.case.checker_flags == ("case_sensitive",) == below.case.checker_flags
    assert first.case.input_validator_flags == {"v": ("b",)} and below.case.input_validator_flags == ("a",)
    assert (sample.case.name, sample.case.checker_flags) == ("sample/2", ("space_change_sensitive",))


@pytest.mark.parametrize("gone", ["in", "ans", "out"])
def test_an_output_comes_with_input_and_answer(gone: str, tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match=f"valid_output/a.{gone}"):
        read_package(current(tmp_path, {**CASE, f"data/valid_output/a.{gone}": None}))


def test_an_invalid_input_comes_alone_and_keys_without_a_meaning_are_refused(tmp_path: Path) -> None:
    read_package(current(tmp_path, {"data/invalid_input/a.in": "1"}))
    with pytest.raises(ProblemError, match="max_score"):
        read_package(current(tmp_path, {"data/invalid_input/test_group.yaml": "max_score: 1"}))


def test_outputs_of_an_interactive_problem_are_left_alone(tmp_path: Path) -> None:
    files: dict[str, str | bytes | None] = {**CASE, "data/invalid_input/a.in": "1", "output_validator/v.py": ""}
    problem = read_package(current(tmp_path, files, "type: interactive\n"))
    assert [one.kind for one in problem.validation] == [INVALID]
    assert any("data/valid_output/" in note for note in problem.notes)


def test_a_legacy_package_has_none(tmp_path: Path) -> None:
    assert read_package(package(tmp_path, dict(CASE))).validation == ()
