"""Every kind of bad package is refused with a message that names file, field, value, reason and remedy."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import NamedTuple

import pytest
from problem_packages import PROBLEMS, package

from sandbox_native.errors import PolicyError
from sandbox_native.judge.problems import ProblemError, read_package

BAD = PROBLEMS / "bad"


class Fault(NamedTuple):
    file: str
    field: str
    value: str
    reason: str
    remedy: str


FAULTS = {
    "noyaml": Fault("noyaml", "files", "problem.yml", "a package has a problem.yaml", "add the file"),
    "syntax": Fault("problem.yaml", "line 4", "output: 8", "not YAML", "correct that line"),
    "bomb": Fault("problem.yaml", "line", "5", "aliases expanded", "write the values out"),
    "tag": Fault("problem.yaml", "line", "1", "python/object/apply:os.system", "write the values out"),
    "twice": Fault("problem.yaml", "limits", "limits", "twice, again in line 4", "keep one"),
    "unknownkey": Fault("problem.yaml", "limits.memroy", "512", "no such key", "did you mean 'memory'?"),
    "unit": Fault("problem.yaml", "limits.memory", "512 MB", "whole number", "without a unit"),
    "version": Fault("problem.yaml", "problem_format_version", "2031-01", "not known", "2025-09"),
    "types": Fault("problem.yaml", "type", "scoring", "exclude each other", "keep one"),
    "nosecret": Fault("data/secret/", "files", "[]", "at least one case", "1.in and 1.ans"),
    "noanswer": Fault("data/secret/2.in", "answer", "data/secret/2.ans", "needs an answer", "add the answer"),
    "noinput": Fault("data/secret/2.ans", "input", "data/secret/2.in", "belongs to an input", "add the input"),
    "novalidator": Fault("problem.yaml", "validation", "custom", "no output validator", "output_validators/"),
    "validators": Fault("output_validators/", "output validator", "one.py, two.py", "there are 2", "keep one"),
    "interaction": Fault("problem.yaml", "type", "interactive", "output validator of its own", "output_validator/"),
    "onreject": Fault("data/secret/testdata.yaml", "on_reject", "stop", "no such choice", "break, continue"),
    "scores": Fault("data/secret/testdata.yaml", "accept_score", "10", "scoring problems only", "type: scoring"),
    "range": Fault("data/testdata.yaml", "range", "100 0", "above the greatest", "lower one first"),
    "graderflags": Fault("data/testdata.yaml", "grader_flags", "median", "no flag 'median'", "grading: custom"),
    "nograder": Fault("data/testdata.yaml", "grading", "custom", "no grader", "graders/"),
    "tolerance": Fault("problem.yaml", "validator_flags", "1e-6x", "needs a number behind it", "correct it"),
    "expected": Fault("submissions/mixed/perhaps.py", "@EXPECTED_RESULTS@", "PERHAPS", "spells a verdict", "WRONG-ANSWER"),
    "contradiction": Fault("submissions/wrong_answer/right.py", "@EXPECTED_RESULTS@", "AC", "says WA", "submissions/mixed"),
    "timelimit": Fault(".timelimit", "timelimit", "2 s", "number of seconds", "2.5"),
    "mixture": Fault("data/secret/1.in", "case", "secret/1", "groups or cases, not both", "test_group.yaml"),
    "dependency": Fault("data/secret/a/test_group.yaml", "require_pass", "secret/b", "earlier group", "ordered by name"),
    "unbounded": Fault("data/secret/test_group.yaml", "max_score", "unbounded", "must give scores", "output_validator/"),
    "rules": Fault("submissions/submissions.yaml", "accepted/*.permitted", "PE", "some of AC, WA, TLE, RTE", "[AC, TLE]"),
    "oldname": Fault("data/secret/testdata.yaml", "name", "testdata.yaml", "calls it test_group.yaml", "rename it"),
}


def refused(root: Path) -> ProblemError:
    with pytest.raises(ProblemError) as raised:
        read_package(root)
    return raised.value


def test_a_bad_package_is_refused_with_all_that_one_needs_to_mend_it() -> None:
    for kind, fault in FAULTS.items():
        error = refused(BAD / kind)
        assert (error.file, error.field) == (fault.file, fault.field), kind
        assert fault.value in error.value and fault.reason in error.reason and fault.remedy in error.remedy, kind
        message = str(error)
        assert all(part in message for part in (error.file, error.field, error.value, error.reason, error.remedy)), kind


def test_there_is_a_package_for_each_kind_and_a_kind_for_each_package() -> None:
    assert set(FAULTS) == {entry.name for entry in BAD.iterdir()} and len(FAULTS) >= 15


def test_the_error_is_a_policy_error_and_survives_pickling() -> None:
    with pytest.raises(PolicyError) as raised:
        read_package(BAD / "unit")
    again = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(again, ProblemError) and str(again) == str(raised.value) and again.file == "problem.yaml"


def test_nothing_of_a_bad_package_has_run() -> None:
    assert not Path("/tmp/owned").exists()


VALUES = [
    ("problem.yaml", "type: scoring pass-fail", "type"),
    ("problem.yaml", "type: [a]", "type"),
    ("problem.yaml", "nmae: a", "nmae"),
    ("problem.yaml", "name: [a]", "name"),
    ("problem.yaml", "- a\n- b", "content"),
    ("problem.yaml", "just words", "content"),
    ("problem.yaml", "limits: 5", "limits"),
    ("problem.yaml", "limits: {memory: 0}", "limits.memory"),
    ("problem.yaml", "limits: {memory: 99999999999}", "limits.memory"),
    ("problem.yaml", "limits: {memory: 1.5}", "limits.memory"),
    ("problem.yaml", "limits: {time_multiplier: nan}", "limits.time_multiplier"),
    ("problem.yaml", "limits: {time_limit: -1}", "limits.time_limit"),
    ("problem.yaml", "limits: {validation_time: [1]}", "limits.validation_time"),
    ("problem.yaml", "validation: custom score", "validation"),
    ("problem.yaml", "validation: default interactive", "validation"),
    ("problem.yaml", "validation: none", "validation"),
    ("problem.yaml", "grading: {objective: most}", "grading.objective"),
    ("problem.yaml", "grading: {show_test_data_groups: true}", "grading.show_test_data_groups"),
    ("problem.yaml", "grading: {on_reject: never}", "grading.on_reject"),
    ("problem.yaml", "validator_flags: case_insensitive", "validator_flags"),
    ("problem.yaml", "problem_format_version: [1]", "problem_format_version"),
    ("problem.yaml", "problem_format_version: 2025-09\ntype: [submit-answer]", "type"),
    ("problem.yaml", "problem_format_version: 2025-09\ntype: [scoring, scoring]", "type"),
    ("problem.yaml", "problem_format_version: 2025-09\nvalidator_flags: x", "validator_flags"),
    ("problem.yaml", "problem_format_version: 2025-09\nlimits: {validation_passes: 3}", "limits.validation_passes"),
    ("problem.yaml", "problem_format_version: 2025-09\nlimits: {time_limit: 1.5, time_resolution: 1}", "limits.time_limit"),
    ("problem.yaml", "problem_format_version: 2025-09\nconstants: {1a: 5}", "constants.1a"),
    ("problem.yaml", "problem_format_version: 2025-09\nconstants: {a: {tex: 5}}", "constants.a"),
    ("problem.yaml", "problem_format_version: 2025-09\nallow_file_writing: perhaps", "allow_file_writing"),
    ("data/testdata.yaml", "on_reject: [break]", "on_reject"),
    ("data/testdata.yaml", "grading: none", "grading"),
    ("data/testdata.yaml", "output_validator_flags: float_tolerance", "output_validator_flags"),
    ("data/secret/testdata.yaml", "grader_flags: ignore_sample", "grader_flags"),
    ("data/secret/testdata.yaml", "input_validator_flags: {name: a, flag: b}", "input_validator_flags.flag"),
    ("domjudge-problem.ini", "timelimit = soon", "timelimit"),
]


def test_a_bad_value_is_refused_by_its_field(tmp_path: Path) -> None:
    for number, (name, text, field) in enumerate(VALUES):
        error = refused(package(tmp_path / str(number), {name: text}))
        assert error.field == field and error.reason and error.file and error.remedy, (name, text)


def test_a_validator_gives_scores_in_scoring_problems_only(tmp_path: Path) -> None:
    files = {"problem.yaml": "validation: custom score\n", "output_validators/v.py": ""}
    with pytest.raises(ProblemError, match="in scoring problems only"):
        read_package(package(tmp_path, files))
