"""What is wrong with a package itself: its validators, tried on data that is there for it, and its time limit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from problem_packages import PROBLEMS

from sandbox_native.cli import main
from sandbox_native.judge import load_problem
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Group, Problem, ProblemLimits
from sandbox_native.judge.verification import output_faults, package_faults, timing_faults

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

Faults = Callable[[], list[str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return Path(shutil.copytree(PROBLEMS / "validation", tmp_path / "validation"))


@pytest.fixture
def faults(root: Path, tmp_path: Path) -> Faults:
    """Of the package as it is by then."""
    store = Store(tmp_path / "store")
    return lambda: list(package_faults(load_problem(root), Options(store=store)))


def test_the_example_is_verified(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["judge", str(root), "--all"]) == 0
    (root / "data" / "invalid_input" / "good.in").write_text("7\n")
    assert main(["judge", str(root), "--all"]) == 1
    printed = capsys.readouterr()
    assert "invalid_input/good.in: no input validator refuses it" in printed.err and "all as expected" in printed.err


def test_an_invalid_input_is_refused_by_one_of_the_validators(root: Path, faults: Faults) -> None:
    (root / "data" / "invalid_input" / "good.in").write_text("7\n")
    (root / "data" / "invalid_input" / "narrow" / "test_group.yaml").unlink()
    assert faults() == [
        "invalid_input/good.in: no input validator refuses it",
        "invalid_input/narrow/above.in: no input validator refuses it",
    ]


def test_a_validator_that_is_ended_has_not_refused_an_input(root: Path, faults: Faults) -> None:
    yaml = root / "problem.yaml"
    yaml.write_text(f"{yaml.read_text()}  validation_time: 1\n")
    (root / "input_validators" / "range.py").unlink()
    (root / "input_validators" / "short.sh").write_text("read n; case $n in 1|11|5?5) sleep 100;; esac; exit 42")
    lines = faults()
    assert len(lines) == 3 and all("passed its wall limit" in line and "invalid_input/" in line for line in lines)


def test_what_a_validator_that_cannot_be_run_would_refuse_is_not_guessed(root: Path, faults: Faults) -> None:
    (root / "input_validators" / "range.py").unlink()
    other = root / "input_validators" / "range.ctd"
    other.write_text("INT(2, 1000) NEWLINE EOF")
    assert faults() == []
    other.rename(other.with_suffix(".unknown"))
    lines = faults()
    assert len(lines) == 1 and "range.unknown cannot be run" in lines[0]


def test_outputs_come_with_valid_inputs(root: Path, faults: Faults) -> None:
    (root / "data" / "valid_output" / "lines.in").write_text("1006\n")
    lines = faults()
    assert lines[0].startswith("valid_output/lines.in: the input validator range.py exited with 43")
    assert "valid_output/lines.out: the output validator should have accepted it" in lines[-1]


def test_valid_outputs_are_accepted_and_invalid_ones_rejected(root: Path, faults: Faults) -> None:
    for name in ("invalid_output/sum.out", "valid_output/lines.out", "sample/1.out"):
        (root / "data" / name).write_text("2 3" if name.startswith("invalid") else "1 1")
    assert faults() == [
        "invalid_output/sum.out: the output validator should have rejected it, and said AC",
        *(
            f"{name}.out: the output validator should have accepted it, and said WA: not two positive numbers with that sum"
            for name in ("valid_output/lines", "sample/1")
        ),
    ]


def test_a_validator_that_crashes_has_neither_accepted_nor_rejected(root: Path, faults: Faults) -> None:
    (root / "output_validator" / "validate.py").write_text("raise SystemExit(7)")
    lines = faults()
    assert len(lines) == 4 and all("and said JE: the output validator exited with 7" in line for line in lines)
    (root / "output_validator" / "validate.py").write_text("if")
    assert len(faults()) == 1 and "does not compile" in faults()[0]


def test_the_default_validator_is_tried_as_well(root: Path, faults: Faults) -> None:
    shutil.rmtree(root / "output_validator")
    words = [line.partition(":")[0] for line in faults()]
    assert words == ["valid_output/lines.out", "sample/1.out"]  # the only answer is the one that is there
    (root / "data" / "valid_output" / "lines.yaml").write_text("output_validator_args: [float_tolerance, '3']")
    (root / "data" / "valid_output" / "lines.out").write_text("2\n4")
    assert [line.partition(":")[0] for line in faults()] == ["sample/1.out"]


def test_a_stated_limit_is_a_multiple_of_its_resolution_and_some_submission_is_fast_enough() -> None:
    problem = load_problem(PROBLEMS / "validation")
    assert list(timing_faults(problem)) == []
    uneven = replace(problem, limits=replace(problem.limits, cpu_seconds=1.5))
    assert list(timing_faults(uneven)) == ["problem.yaml: limits.time_limit: 1.5 is not a multiple of time_resolution, 1"]
    assert "lower bound" in next(iter(timing_faults(replace(problem, submissions=()))))
    legacy = Problem(name="p", format="legacy", data=Group(), limits=ProblemLimits(cpu_seconds=1.5))
    assert list(timing_faults(legacy)) == [] == list(output_faults(legacy, Options()))


def test_memory_that_the_machine_does_not_have_is_told(root: Path, faults: Faults) -> None:
    yaml = root / "problem.yaml"
    yaml.write_text(f"{yaml.read_text()}  memory: {1 << 20}\n  validation_memory: {1 << 20}\n")
    memory, validation = faults()
    assert memory.startswith("problem.yaml: limits.memory: 1 TiB, and this machine has ")
    assert validation.startswith("problem.yaml: limits.validation_memory: 1 TiB, and ")
