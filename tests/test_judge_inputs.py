"""A package's input validators are run on its inputs, and what they object to is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graded import problem
from judged import submission
from problem_packages import package

from sandbox_native import SandboxError
from sandbox_native.judge.inputs import input_faults
from sandbox_native.judge.problems import read_package
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Group, Problem, ProgramSource, SourceFile

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

CASES = {"sample/1": (b"1\n", b""), "secret/2": (b"22\n", b"")}
DIGIT = "read n; [[ $n = [0-9] ]] && exit 42; echo not a digit; exit 43"


def validator(name: str, text: str) -> ProgramSource:
    return replace(submission({name: text}), name=name)


def faults(tmp_path: Path, *validators: ProgramSource, of: Problem | None = None, **limits: Any) -> list[str]:
    made = replace(of or problem(CASES, **limits), input_validators=validators)
    return list(input_faults(made, Options(store=Store(tmp_path / "store"))))


def test_42_is_accepted_and_nothing_else(tmp_path: Path) -> None:
    assert faults(tmp_path) == [] == faults(tmp_path, validator("all.sh", "exit 42"))
    assert faults(tmp_path, validator("digit.sh", DIGIT), validator("all.sh", "exit 42")) == [
        "secret/2.in: the input validator digit.sh exited with 43: not a digit"
    ]
    assert faults(tmp_path, validator("none.sh", "exit 0")) == [
        f"{name}.in: the input validator none.sh exited with 0" for name in CASES
    ]


def test_a_validator_that_is_ended_accepts_nothing(tmp_path: Path) -> None:
    killed, slow = faults(tmp_path, validator("slow.sh", "read n; [ $n = 1 ] && kill -9 $$; sleep 100"), validation_seconds=0.3)
    assert "signal 9" in killed and "wall limit" in slow


def test_flags_are_for_all_or_by_name(tmp_path: Path) -> None:
    needing = validator("flags.sh", '[ "$*" = "-n 5" ] && exit 42')
    made = problem(CASES)
    for flags, count in ((("-n", "5"), 0), ({"flags": ("-n", "5")}, 0), ({"flags.sh": ("-n", "5")}, 0), ({"other": ("-n",)}, 2)):
        cases = tuple(replace(case, input_validator_flags=flags) for case in made.cases())
        assert len(faults(tmp_path, needing, of=replace(made, data=Group(items=cases)))) == count


def test_what_cannot_be_run_is_told_and_the_others_are(tmp_path: Path) -> None:
    broken, unknown = validator("broken.sh", "if"), validator("input.unknown", "INT(1, 9) NEWLINE EOF")
    first, second, third = faults(tmp_path, broken, unknown, validator("digit.sh", DIGIT))
    assert "broken.sh cannot be run: " in first and "does not compile" in first
    assert "input.unknown cannot be run: " in second and third.startswith("secret/2.in: ")


@pytest.mark.parametrize("name", ["input.ctd", "input.viva"])
def test_a_validator_for_another_tool_is_noted_and_no_fault(tmp_path: Path, name: str) -> None:
    assert faults(tmp_path, validator(name, "INT(1, 9) NEWLINE EOF")) == []
    root = package(tmp_path, {f"input_validators/{name}": "EOF\n"})
    (note,) = read_package(root).notes
    assert note.startswith(f"the input validator {name} is not run: ")


def test_its_own_files_and_those_of_the_case_are_in_its_working_directory(tmp_path: Path) -> None:
    made = problem({"secret/1": (b"", b"")})
    (case,) = made.cases()
    case = replace(case, arguments=("-a",), input_validator_flags=("-f",))
    there = '[ "$*" = "-f -a" ] && [ "$(cat x/y.txt; ls -A)" = "$(echo deep; echo v.sh; echo x)" ]'
    reading = validator("v.sh", f"{there} && exit 42; ls -A")
    for name, fault in (("x/y.txt", None), ("v.sh", "secret/1.in: v.sh: a file of the case and of the input validator v.sh")):
        files = (SourceFile(name=name, content=b"deep\n"),)
        found = faults(tmp_path, reading, of=replace(made, data=Group(items=(replace(case, files=files),))))
        assert found == ([] if fault is None else [fault])


def test_an_input_that_is_gone_is_an_error(tmp_path: Path) -> None:
    made = problem(CASES)
    cases = tuple(replace(case, input=tmp_path / "gone.in") for case in made.cases())
    with pytest.raises((SandboxError, OSError), match=r"gone\.in"):
        faults(tmp_path, validator("all.sh", "exit 42"), of=replace(made, data=Group(items=cases)))
