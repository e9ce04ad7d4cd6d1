"""Packages are read as the format states it: the examples of tests/data, and single rules on the spot."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from problem_packages import CURRENT, LEAST, PROBLEMS, package

from sandbox_native.judge.problems import ProblemError, load_problem, read_package
from sandbox_native.judge.values import (
    CheckerKind,
    FlagGrading,
    Group,
    OnReject,
    PointsGrading,
    Problem,
    ProgramGrading,
    ScoreMode,
)

EXAMPLES = ("different", "scoring", "points", "interactive", "multipass", "validatorcpp", "validatorpython", "grader")


def example(name: str) -> Problem:
    return read_package(PROBLEMS / name)


def group(problem: Problem, name: str) -> Group:
    return next(group for group in problem.data.groups() if group.name == name)


def refused(root: Path) -> ProblemError:
    with pytest.raises(ProblemError) as raised:
        read_package(root)
    return raised.value


def test_an_example_is_read_without_notes_and_with_an_expectation_for_each_submission() -> None:
    for name in EXAMPLES:
        problem = example(name)
        assert problem.notes == () and problem.title and problem.root == PROBLEMS / name
        assert problem.submissions and all(submission.expected for submission in problem.submissions)
        assert problem.limits.cpu_seconds == 1.0


def test_a_pass_fail_package_is_read() -> None:
    problem = example("different")
    assert (problem.name, problem.title, problem.format) == ("different", "A Different Problem", "legacy")
    assert [case.name for case in problem.cases()][:2] == ["sample/1", "secret/01_equal"]
    assert problem.cases()[0].sample and problem.cases()[-1].hint == "A difference need not fit 32 bits."
    assert problem.limits.memory_bytes == 256 << 20
    assert problem.checker.kind is CheckerKind.DEFAULT and not problem.scoring
    parts = next(submission for submission in problem.submissions if submission.name == "accepted/parts")
    assert [file.name for file in parts.files] == ["__main__.py", "reading.py"]
    assert [program.name for program in problem.input_validators] == ["validate.py"]


def test_legacy_groups_inherit_and_override() -> None:
    problem = example("scoring")
    root, secret, second = (group(problem, name).grading for name in ("", "secret", "secret/group2"))
    assert isinstance(root, FlagGrading) and isinstance(secret, FlagGrading) and isinstance(second, FlagGrading)
    assert root.ignore_sample and not secret.ignore_sample and secret.accept_if_any_accepted
    assert (second.score_mode, second.accept_score, second.score_range) == (ScoreMode.MIN, 70.0, (0.0, 70.0))
    assert group(problem, "secret").on_reject is OnReject.CONTINUE
    assert group(problem, "secret/group1").on_reject is OnReject.BREAK


def test_flags_of_the_root_are_inherited_but_for_ignoring_samples(tmp_path: Path) -> None:
    yaml = "on_reject: continue\ngrader_flags: ignore_sample max no_errors\n"
    problem = read_package(package(tmp_path, {"problem.yaml": "type: scoring\n", "data/testdata.yaml": yaml}))
    root, secret = problem.data.grading, group(problem, "secret").grading
    assert isinstance(root, FlagGrading) and isinstance(secret, FlagGrading)
    assert (root.ignore_sample, root.score_mode) == (True, ScoreMode.MAX)
    assert (secret.ignore_sample, secret.score_mode) == (False, ScoreMode.MAX)


def test_points_of_the_current_format_are_read() -> None:
    problem = example("points")
    last = group(problem, "secret/group3").grading
    assert last == PointsGrading(max_score=50.0, require_pass=("sample", "secret/group1"))
    assert group(problem, "secret/group2").on_reject is OnReject.CONTINUE
    assert group(problem, "sample").grading == PointsGrading(max_score=0.0)
    assert problem.cases()[-1].hint == "Square and multiply." and problem.scoring


def test_constants_are_put_into_programs() -> None:
    problem = example("points")
    source = next(submission for submission in problem.submissions if submission.name == "accepted/square.c").files[0].content
    assert isinstance(source, bytes) and b"1000007" in source and b"{{" not in source
    assert isinstance(problem.submissions[-1].files[0].content, Path)  # nothing to replace: it stays where it is


def test_interactive_and_multi_pass_packages_are_read() -> None:
    interactive, multi_pass = example("interactive"), example("multipass")
    assert interactive.interactive and interactive.checker.kind is CheckerKind.PROGRAM
    assert interactive.checker.program is not None
    assert [file.name for file in interactive.checker.program.files] == ["referee.cpp"]
    assert multi_pass.multi_pass and multi_pass.limits.passes == 2
    assert multi_pass.checker.program is not None and multi_pass.checker.program.name == "validate.py"


def test_validators_keep_their_files_and_flags() -> None:
    cpp, python = example("validatorcpp"), example("validatorpython")
    assert cpp.checker.program is not None and python.checker.program is not None
    assert [file.name for file in cpp.checker.program.files] == ["divisor.cpp", "feedback.h"]
    assert {case.checker_flags for case in cpp.cases()} == {("proper",)}
    assert [case.checker_flags for case in python.cases()] == [("sample",), (), ()]
    assert python.validator_scores and python.limits.validation_seconds == 20.0


def test_a_grader_of_the_package_is_read() -> None:
    problem = example("grader")
    assert problem.grader is not None and problem.grader.name == "medals.py"
    assert isinstance(problem.data.grading, ProgramGrading) and problem.data.grading.flags == ("medals",)
    assert isinstance(group(problem, "sample").grading, FlagGrading)


def test_an_empty_problem_yaml_is_enough(tmp_path: Path) -> None:
    problem = read_package(package(tmp_path, {"problem.yaml": ""}))
    assert (problem.format, problem.title, problem.limits.cpu_seconds) == ("legacy", "", None)
    grading = problem.data.grading
    assert isinstance(grading, FlagGrading) and math.isinf(grading.score_range[1])


def test_drafts_may_have_the_test_data_of_either_format(tmp_path: Path) -> None:
    yaml = "problem_format_version: 2023-07-draft\nname: Small\ntype: scoring\n"
    old = read_package(package(tmp_path / "old", {"problem.yaml": yaml, "data/secret/testdata.yaml": "accept_score: 7\n"}))
    new = read_package(package(tmp_path / "new", {"problem.yaml": yaml, "data/secret/test_group.yaml": "max_score: 7\n"}))
    assert isinstance(group(old, "secret").grading, FlagGrading)
    assert group(new, "secret").grading == PointsGrading(score_mode=ScoreMode.SUM, max_score=7.0)


def test_cases_have_arguments_files_and_flags_of_their_own(tmp_path: Path) -> None:
    files = {
        "problem.yaml": CURRENT,
        "data/secret/test_group.yaml": "args: [-v]\noutput_validator_args: [case_sensitive]\n",
        "data/secret/1.yaml": "args: [-x, a b]\noutput_validator_args: [float_tolerance, 1e-6]\nfull_feedback: true\n",
        "data/secret/1.files/words.txt": "a\n",
        "data/secret/1.files/more/deep.txt": "b\n",
        "data/secret/deep/2.in": "2\n",
        "data/secret/deep/2.ans": "2\n",
    }
    first, second = read_package(package(tmp_path, files)).cases()
    assert first.arguments == ("-x", "a b")
    assert first.checker_flags == ("float_tolerance", "1e-6")
    assert [file.name for file in first.files] == ["more/deep.txt", "words.txt"]
    assert (second.name, second.arguments, second.checker_flags) == ("secret/deep/2", ("-v",), ("case_sensitive",))


def test_order_is_by_base_name(tmp_path: Path) -> None:
    names = ["a", "a-b", "a.b", "a1", "b"]
    files = {f"data/secret/{name}.{ending}": "1\n" for name in names for ending in ("in", "ans")}
    files |= {"data/secret/aa/1.in": "1\n", "data/secret/aa/1.ans": "1\n"}
    problem = read_package(package(tmp_path, {**files, "data/secret/1.in": None, "data/secret/1.ans": None}))
    assert [item.name for item in group(problem, "secret").items] == [
        f"secret/{name}" for name in ["a", "a-b", "a.b", "a1", "aa", "b"]
    ]


def test_files_for_statements_are_no_cases(tmp_path: Path) -> None:
    endings = ("interaction", "in.statement", "ans.download", "out", "png", "desc", "hint", "md5")
    files = {f"data/secret/1.{ending}": "x\n" for ending in endings} | {"data/sample/1.interaction": ">1\n", "data/readme": "x\n"}
    problem = read_package(package(tmp_path, files))
    assert [case.name for case in problem.cases()] == ["secret/1"] and problem.cases()[0].description == "x"


def test_the_oldest_packages_say_grading_in_problem_yaml(tmp_path: Path) -> None:
    yaml = "type: scoring\ngrading: {on_reject: grade, accept_score: 5, range: 0 50, objective: min}\n"
    problem = read_package(package(tmp_path, {"problem.yaml": yaml}))
    assert problem.minimise and problem.data.on_reject is OnReject.CONTINUE
    grading = group(problem, "secret").grading
    assert isinstance(grading, FlagGrading) and (grading.accept_score, grading.score_range) == (5.0, (0.0, 50.0))


def test_what_is_ignored_is_noted(tmp_path: Path) -> None:
    files = {
        "data/bad_inputs/1.in": "1\n",
        "output_validators/v.py": "",
        "submissions/odd/a.py": "",
        "submissions/accepted/echo.py": None,
    }
    notes = "\n".join(read_package(package(tmp_path, files)).notes)
    for part in ("data/bad_inputs/", "output_validators/ is not used", "submissions/odd/a.py", "submissions/accepted/ is empty"):
        assert part in notes


def test_a_validator_of_build_and_run_scripts_is_executable(tmp_path: Path) -> None:
    files = {"problem.yaml": "validation: custom\n", "output_validators/v/build": "#!/bin/sh\n", "output_validators/v/v.src": ""}
    program = read_package(package(tmp_path, files)).checker.program
    assert program is not None and {file.name: file.executable for file in program.files} == {"build": True, "v.src": False}


def test_several_files_may_lie_in_the_validators_directory(tmp_path: Path) -> None:
    files = {
        "problem.yaml": "validation: custom\n",
        "output_validators/v.cpp": "",
        "output_validators/testlib.h": "",
        "output_validators/README.md": "",
    }
    program = read_package(package(tmp_path, files)).checker.program
    assert program is not None and program.name == "v.cpp"
    assert {file.name for file in program.files} == {"v.cpp", "testlib.h", "README.md"}


def test_included_files_go_by_language(tmp_path: Path) -> None:
    files = {"include/cpp/grader.h": "", "include/python3/lib/a.py": "", "include/loose.txt": ""}
    include = read_package(package(tmp_path, files)).include
    assert {code: [file.name for file in found] for code, found in include.items()} == {
        "cpp": ["grader.h"],
        "python3": ["lib/a.py"],
    }


SCORING = CURRENT + "type: scoring\n"
GROUP = "data/secret/test_group.yaml"
TWICE = "output_validator_args: [float_tolerance, 1, float_tolerance, 1]\n"


UNFIT: list[tuple[dict[str, str], str]] = [
    ({"data/1.in": "1\n", "data/1.ans": "1\n"}, "case"),
    ({"data/secret/1/2.in": "1\n", "data/secret/1/2.ans": "1\n"}, "name"),
    ({"data/secret/empty/readme": ""}, "files"),
    ({"submissions/partially_accepted/a.py": ""}, "type"),
    ({"submissions/accepted/none/.hidden": ""}, "files"),
    ({".timelimit": "2\n", "domjudge-problem.ini": "timelimit=3\n"}, "timelimit"),
    ({".timelimit": "2\n", "problem.yaml": "limits: {time_limit: 3}\n"}, "timelimit"),
    ({"problem.yaml": CURRENT, "output_validators/v.py": ""}, "problem_format_version"),
    ({"problem.yaml": CURRENT, "static_validator/v.py": ""}, "problem_format_version"),
    ({"problem.yaml": CURRENT, "data/sample/test_group.yaml": "max_score: 1\n"}, "max_score"),
    ({"problem.yaml": CURRENT, GROUP: "max_score: 1\n"}, "max_score"),
    ({"problem.yaml": CURRENT, GROUP: "static_validation_score: 1\n"}, "static_validation_score"),
    ({"problem.yaml": CURRENT, "data/secret/1.yaml": "arg: [x]\n"}, "arg"),
    ({"problem.yaml": CURRENT, "data/secret/1.yaml": TWICE}, "output_validator_args"),
    ({"problem.yaml": SCORING, GROUP: "max_score: -1\n"}, "max_score"),
    ({"problem.yaml": SCORING, GROUP: "score_aggregation: avg\n"}, "score_aggregation"),
    ({"problem.yaml": SCORING, GROUP: "require_pass: secret/a\n"}, "require_pass"),
]


def test_what_does_not_fit_together_is_refused_by_its_field(tmp_path: Path) -> None:
    for number, (files, field) in enumerate(UNFIT):
        error = refused(package(tmp_path / str(number), files))
        assert error.field == field and error.file and error.remedy, files


POINTS = [
    ("max_score: 100\n", "", "max_score"),
    ("max_score: 100\n", "score_aggregation: sum\n", "max_score"),
    ("max_score: unbounded\n", "", "max_score"),
    ("score_aggregation: pass-fail\n", "max_score: 1\nscore_aggregation: sum\n", "score_aggregation"),
    ("", "max_score: 1\nrequire_pass: secret/g\n", "require_pass"),
    ("score_aggregation: pass-fail\nmax_score: unbounded\n", "max_score: 1\n", "max_score"),
]


def test_points_of_groups_must_fit_those_of_secret(tmp_path: Path) -> None:
    for number, (secret, inner, field) in enumerate(POINTS):
        files: dict[str, str | None] = {
            "problem.yaml": SCORING,
            "output_validator/v.py": "",
            "data/secret/test_group.yaml": secret,
            "data/secret/g/test_group.yaml": inner,
            "data/secret/g/1.in": "1\n",
            "data/secret/g/1.ans": "1\n",
            "data/secret/1.in": None,
            "data/secret/1.ans": None,
        }
        assert refused(package(tmp_path / str(number), files)).field == field, (secret, inner)


def test_a_directory_with_a_problem_yaml_is_a_package_and_any_other_a_folder(tmp_path: Path) -> None:
    root = package(tmp_path)
    assert load_problem(root).format == "legacy"
    assert load_problem(root / "data/secret").format == "folder"
    assert load_problem(package(tmp_path / "ini", {"problem.yaml": None, "domjudge-problem.ini": "name='X'\n"})).title == "X"
    assert len(LEAST) == 4
