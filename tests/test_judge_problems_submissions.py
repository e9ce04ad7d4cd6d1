"""What a package expects of its submissions: by directory, by submissions.yaml, by DOMjudge's tags."""

from __future__ import annotations

from pathlib import Path

import pytest
from problem_packages import CURRENT, PROBLEMS, package

from sandbox_native.judge.problems import ProblemError, read_package
from sandbox_native.judge.problems.globs import expanded, matches
from sandbox_native.judge.values import Expectation, Requirement, Submission
from sandbox_native.judge.verdicts import Verdict

AC, WA, TLE, RTE = Verdict.AC, Verdict.WA, Verdict.TLE, Verdict.RTE


def submissions(place: Path, files: dict[str, str], yaml: str = "name: Small\n") -> dict[str, Submission]:
    problem = read_package(package(place, {"problem.yaml": yaml, **files}))
    return {submission.name: submission for submission in problem.submissions}


def expected(submission: Submission) -> Expectation:
    assert submission.expected is not None
    return submission.expected


def test_legacy_directories_say_the_verdict(tmp_path: Path) -> None:
    kinds = ["wrong_answer", "time_limit_exceeded", "run_time_error", "compiler_error", "no_output", "output_limit", "rejected"]
    found = submissions(tmp_path, {f"submissions/{kind}/a.py": "" for kind in kinds})
    verdicts = {name.partition("/")[0]: expected(submission).verdicts for name, submission in found.items()}
    assert verdicts["accepted"] == {AC} and verdicts["wrong_answer"] == {WA} == verdicts["no_output"]
    assert verdicts["time_limit_exceeded"] == {TLE} and verdicts["compiler_error"] == {Verdict.CE}
    assert verdicts["run_time_error"] == {RTE, Verdict.MLE, Verdict.OLE, Verdict.FS}
    assert verdicts["rejected"] == set(Verdict) - {AC, Verdict.JE}
    bounds = {name: [r.bounds_time for r in expected(submission).requirements] for name, submission in found.items()}
    assert bounds["accepted/echo.py"] == ["lower"] and bounds["time_limit_exceeded/a.py"] == ["upper"]


def test_partially_accepted_is_accepted_with_less_than_everything(tmp_path: Path) -> None:
    found = submissions(tmp_path, {"submissions/partially_accepted/a.py": ""}, "type: scoring\n")
    assert expected(found["partially_accepted/a.py"]).partial
    assert expected(found["partially_accepted/a.py"]).verdicts == {AC}


TAGS: list[tuple[str, set[Verdict]]] = [
    ("# @EXPECTED_RESULTS@: CORRECT, WRONG-ANSWER\n", {AC, WA}),
    ("/* @EXPECTED_RESULTS@: TIMELIMIT */", {TLE}),
    ("<!-- @expected_results@: time_limit_exceeded -->\n", {TLE}),
    ("// @EXPECTED_RESULTS@: RUN-ERROR\n", {RTE, Verdict.FS, Verdict.MLE}),
    ("# @EXPECTED_SCORE@: CORRECT\n", {AC}),
    ("# @EXPECTED_RESULTS@: \tcompiler-error  \r\n", {Verdict.CE}),
]


def test_a_tag_says_the_verdict_where_the_directory_does_not(tmp_path: Path) -> None:
    for number, (text, verdicts) in enumerate(TAGS):
        found = submissions(tmp_path / str(number), {"submissions/mixed/a.py": text})
        assert expected(found["mixed/a.py"]).verdicts == verdicts, text


def test_a_tag_is_found_in_any_file_of_a_submission_and_may_say_a_score(tmp_path: Path) -> None:
    found = submissions(
        tmp_path,
        {"submissions/mixed/two/a.py": "", "submissions/mixed/two/b.py": "# @EXPECTED_SCORE@: 42.5\n"},
        "type: scoring\n",
    )
    assert expected(found["mixed/two"]).score == 42.5 and expected(found["mixed/two"]).verdicts is None


def test_the_directory_counts_where_it_and_a_tag_speak(tmp_path: Path) -> None:
    found = submissions(tmp_path, {"submissions/wrong_answer/a.py": "# @EXPECTED_RESULTS@: WRONG-ANSWER, TIMELIMIT\n"})
    assert expected(found["wrong_answer/a.py"]).verdicts == {WA}


def test_a_tag_that_stands_there_twice_is_ignored_and_noted(tmp_path: Path) -> None:
    tags = "# @EXPECTED_RESULTS@: CORRECT\n# @EXPECTED_RESULTS@: TIMELIMIT\n"
    problem = read_package(package(tmp_path, {"submissions/mixed/a.py": tags}))
    assert problem.submissions[-1].expected is None
    assert any("more than once" in note for note in problem.notes)


def test_the_standard_directories_of_the_current_format_ask_for_cases(tmp_path: Path) -> None:
    kinds = ["rejected", "wrong_answer", "time_limit_exceeded", "run_time_error", "brute_force"]
    found = submissions(tmp_path, {f"submissions/{kind}/a.py": "" for kind in kinds}, CURRENT)
    asked = {name.partition("/")[0]: expected(submission).requirements for name, submission in found.items()}
    assert all(len(requirements) == 1 for requirements in asked.values())
    permitted = {name: requirements[0].permitted for name, requirements in asked.items()}
    required = {name: requirements[0].required for name, requirements in asked.items()}
    bounds = {name: requirements[0].bounds_time for name, requirements in asked.items()}
    assert permitted["accepted"] == {AC} and permitted["rejected"] is None and permitted["brute_force"] == {AC, RTE, TLE}
    assert required["accepted"] is None and required["rejected"] == {RTE, TLE, WA} and required["run_time_error"] == {RTE}
    assert bounds["accepted"] == bounds["wrong_answer"] == bounds["run_time_error"] == "lower"
    assert bounds["time_limit_exceeded"] == "upper" and bounds["brute_force"] is bounds["rejected"] is None


def test_rules_of_the_example_are_read() -> None:
    problem = read_package(PROBLEMS / "points")
    found = {submission.name: expected(submission).requirements for submission in problem.submissions}
    asked = {requirement.cases: requirement for requirement in found["partial/stepwise.py"] if not requirement.permitted}
    assert asked[""].score == (50.0, 50.0)
    assert asked["secret/group3"].required == {TLE} and asked["secret/group3"].bounds_time == "upper"
    assert asked["secret/group3"].origin == "submissions.yaml: partial/stepwise.py: secret/group3"
    assert [requirement.score for requirement in found["partial/small.py"] if requirement.score] == [(0.0, 30.0), (10.0, 10.0)]
    assert [requirement.score for requirement in found["accepted/square.c"]] == [None, (100.0, 100.0)]


def test_rules_give_language_and_entry_point_and_replace_a_directorys_own(tmp_path: Path) -> None:
    rules = "accepted: {permitted: [AC, WA]}\n'*/echo.py': {language: python3, entrypoint: echo.py, message: hello, authors: A}\n"
    found = submissions(tmp_path, {"submissions/submissions.yaml": rules}, CURRENT)["accepted/echo.py"]
    assert (found.language, found.entry_point) == ("python3", "echo.py")
    directory, own = expected(found).requirements
    assert directory.permitted == {AC, WA} and own == Requirement(message="hello", origin="submissions.yaml: */echo.py")


def test_a_submission_may_be_kept_from_the_time_limit(tmp_path: Path) -> None:
    for use, bounds in (("false", [None]), ("lower", ["lower", None]), ("upper", ["upper", None])):
        rules = f"accepted: {{use_for_time_limit: {use}}}\n"
        found = submissions(tmp_path / use, {"submissions/submissions.yaml": rules}, CURRENT)["accepted/echo.py"]
        assert [requirement.bounds_time for requirement in expected(found).requirements] == bounds, use


BAD_RULES = [
    ("accepted: 5\n", "accepted"),
    ("accepted/*: [AC]\n", "accepted/*"),
    ("'**/a': {permitted: [AC]}\n", "pattern"),
    ("'{a': {permitted: [AC]}\n", "pattern"),
    ("'[ab].py': {permitted: [AC]}\n", "pattern"),
    (f"'{'{a,b}' * 20}': {{permitted: [AC]}}\n", "pattern"),
    ("a: {permitted: []}\n", "a.permitted"),
    ("a: {permitted: [AC], required: [WA]}\n", "a.required"),
    ("a: {score: 5}\n", "a.score"),
    ("a: {use_for_time_limit: perhaps}\n", "a.use_for_time_limit"),
    ("a: {sample: AC}\n", "a.sample"),
    ("a: {sample: {permitted: [OLE]}}\n", "a.sample.permitted"),
    ("a: {sample: {language: c}}\n", "a.sample.language"),
]


def test_bad_rules_are_refused_by_their_field(tmp_path: Path) -> None:
    for number, (rules, field) in enumerate(BAD_RULES):
        with pytest.raises(ProblemError) as raised:
            submissions(tmp_path / str(number), {"submissions/submissions.yaml": rules}, CURRENT)
        error = raised.value
        assert error.field == field and error.file == "submissions/submissions.yaml" and error.remedy, rules


def test_a_bad_score_is_refused(tmp_path: Path) -> None:
    for score in ("[1, 2, 3]", "[2, 1]", "many", "[]"):
        rules = {"submissions/submissions.yaml": f"a: {{score: {score}}}\n"}
        with pytest.raises(ProblemError) as raised:
            submissions(tmp_path / score, rules, CURRENT + "type: scoring\n")
        assert raised.value.field == "a.score", score


def test_patterns_match_names_and_directories() -> None:
    assert matches("", "secret/1") and matches("secret", "secret/1") and matches("secret/*", "secret/g/1")
    assert matches("*/{simple,complex}.py", "accepted/complex.py") and matches("{a,b/{c,d}}", "b/d/e")
    assert matches("secret/*-easy", "secret/01-easy") and matches("*a*b*", "xaxxbx") and matches("*", "a.b")
    for pattern, path in (("*", ""), ("a*", "ba"), ("secret/*", "secret"), ("*b", "a/b"), ("a.c", "abc"), ("s", "secret")):
        assert matches(pattern, path) is (pattern == "*" and path == "")
    assert not matches("{a", "a") and not matches("a}", "a")


def test_patterns_cost_no_more_than_their_length() -> None:
    assert not matches("*a" * 200 + "b", "a" * 250)
    assert expanded("{" * 10_000) is None and expanded("{a,b}" * 90) is None and expanded("{a" * 100 + "}" * 100) is not None
    assert expanded("{" * 3_000 + "a" + "}" * 3_000) is None and not matches("{" * 3_000 + "a" + "}" * 3_000, "a")
    assert expanded("x{,y}z") == ["xz", "xyz"]
