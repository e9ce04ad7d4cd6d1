"""Every language that is called tested: a program that is right, wrong, slow, crashing and hungry, as its input says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import judged
import pytest

from sandbox_native import Limits, Sandbox, Status
from sandbox_native.judge.languages import builtin
from sandbox_native.judge.store import Store

MIB = 1 << 20
LIMITS = Limits(wall_seconds=60, memory_bytes=64 * MIB, stack_bytes=64 * MIB, processes=1)
SHORT = replace(LIMITS, cpu_seconds=0.3)
FILES = {
    "c": "behave.c",
    "cpp": "behave.cpp",
    "python": "behave.py",
    "java": "behave.java",
    "javascript": "behave.js",
    "go": "behave.go",
    "rust": "behave.rs",
    "perl": "behave.pl",
    "bash": "behave.sh",
}
CRASHES = (Status.SIGNALED, Status.NONZERO_EXIT)


def test_each_tested_language_is_tested_here() -> None:
    assert {one.name for one in builtin().values() if one.tested} == {*FILES, "generic"}


@pytest.mark.kernel
@pytest.mark.parametrize("name", FILES)
def test_a_language_runs_programs_that_behave_in_five_ways(name: str, tmp_path: Path, needs: Callable[[str], None]) -> None:
    for tool in builtin()[name].programs:
        needs(tool)
    done = judged.compiled(Store(tmp_path / "store"), {f"submitted{Path(FILES[name]).suffix}": judged.BEHAVIOURS / FILES[name]})
    assert done.program is not None and done.result.ok, done.result
    assert done.result.language == name
    program = done.program
    with Sandbox(program.policy(), program.limits(LIMITS)) as box:
        results = {
            word: box.run(program.argv(LIMITS), stdin=f"{word} 40 2\n".encode(), env=program.env)
            for word in ("accepted", "wrong", "crashing", "hungry")
        }
        slow = box.run(program.argv(LIMITS), stdin=b"slow 40 2\n", env=program.env, limits=program.limits(SHORT))
    assert (results["accepted"].status, results["accepted"].stdout) == (Status.OK, b"42\n"), results["accepted"]
    assert (results["wrong"].status, results["wrong"].stdout) == (Status.OK, b"38\n")
    assert slow.status is Status.CPU_LIMIT
    crashed, hungry = results["crashing"], results["hungry"]
    assert crashed.status in CRASHES and not program.lacked_memory(crashed), crashed
    assert hungry.status is Status.MEMORY_LIMIT or (hungry.status in CRASHES and program.lacked_memory(hungry)), hungry
