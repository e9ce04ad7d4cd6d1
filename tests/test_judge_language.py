"""A language as a value: what its commands become, what it asks of a box, what it refuses to be."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import interpreters
import pytest

from sandbox_native import Limits, PolicyError
from sandbox_native.judge.language import Language

MIB = 1 << 20
PLAIN = Language(
    name="plain",
    title="Plain",
    extensions=(".pl",),
    compile=("tool", "-o{entry}.out", "{sources}", "-x"),
    run=("{directory}/main",),
)


def test_placeholders_of_a_compilation() -> None:
    assert PLAIN.compile_command(["a.pl", "b/c.pl"], "a.pl") == ("tool", "-oa.pl.out", "a.pl", "b/c.pl", "-x")
    assert PLAIN.compile_command([], "a.pl") == ("tool", "-oa.pl.out", "-x")


@pytest.mark.parametrize("name", ["-o", "@list", "+x", ".hidden", "$HOME"])
def test_no_file_is_taken_for_an_option(name: str) -> None:
    assert PLAIN.compile_command([name], "x")[2] == f"./{name}"


def test_placeholders_of_a_run() -> None:
    language = replace(PLAIN, run=("x", "{directory}/{entry}", "{memory_mib}m", "{stack_mib}-{stack_kib}", "{", "}{"))
    limits = Limits(memory_bytes=100 * MIB + 1, stack_bytes=2 * MIB)
    assert language.run_command("/programs/a", "{entry}", limits) == ("x", "/programs/a/{entry}", "100m", "2-1984", "{", "}{")
    assert PLAIN.run_command("/programs/a", "", limits) == ("/programs/a/main",)
    large = language.run_command("", "", Limits(stack_bytes=8 << 30))
    assert large[3] == "1024-8388544", "java's stacks have an upper bound"


def test_limits_leave_room_for_the_run_time() -> None:
    limits = Limits(cpu_seconds=1, wall_seconds=3, memory_bytes=64 * MIB, processes=1, address_space_bytes=64 * MIB)
    assert PLAIN.limits(limits) == limits
    given = replace(PLAIN, memory_extra_bytes=MIB, processes=20, time_factor=2.5).limits(limits)
    assert (given.cpu_seconds, given.wall_seconds, given.memory_bytes) == (2.5, 7.5, 65 * MIB)
    assert (given.processes, given.address_space_bytes) == (20, None)
    assert replace(PLAIN, processes=20).limits(replace(limits, processes=30)).processes == 30


def test_a_policy_has_the_languages_fields_and_the_callers() -> None:
    language = replace(PLAIN, readable=("/srv/tool",), path=("/srv/tool/bin",), syscalls=("numa",))
    policy = language.policy(readable=["/srv/more"], syscalls=["numa", "sync"], hostname="judge")
    assert [host for host, _ in policy.readable] == ["/srv/tool", "/srv/more"] and policy.path == ("/srv/tool/bin",)
    assert policy.syscalls == ("numa", "sync") and policy.hostname == "judge" and policy.deterministic


def test_an_interpreter_brings_its_installation(tmp_path: Path) -> None:
    python = interpreters.venv(tmp_path / "env")
    policy = replace(PLAIN, python=str(python)).policy(readable=["/srv"])
    assert str(tmp_path / "env" / "bin") in policy.path
    assert [host for host, _ in policy.readable if "env" in host] and ("/srv", "/srv") in policy.readable


def test_last_words_tell_refused_memory() -> None:
    language = replace(PLAIN, memory_words=("^Out of memory", "no room"))
    assert language.lacked_memory(b"x\nOut of memory!\n") and language.lacked_memory(b"there is no room")
    assert not language.lacked_memory(b"said: Out of memory") and not PLAIN.lacked_memory(b"Out of memory")
    assert not language.lacked_memory(b"Out of memory\n" + b"x" * 5000), "these were not its last words"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "No Name"}, "language No Name: name='No Name': not a name; give lower-case letters"),
        ({"run": ()}, "language plain: run=.*: empty; give the argv that runs a program"),
        ({"extensions": ("py",)}, "language plain: extensions='py': not an extension; begin it with a dot"),
        ({"run": ("{sources}",)}, r"run='{sources}': {sources} stands for nothing there; there are {directory}, {entry}"),
        ({"compile": ("{directory}",)}, r"compile='{directory}': {directory} stands for nothing there"),
        ({"compile": ()}, "language plain: compile=.*: empty; give the argv that compiles, or keep_sources = true"),
        ({"memory_words": ("(",)}, r"memory_words='\(': not a regular expression: missing \), unterminated"),
        ({"processes": 0}, "language plain: processes=0: below 1"),
        ({"memory_extra_bytes": -1}, "language plain: memory_extra_bytes=-1: below 0"),
        ({"time_factor": float("nan")}, "language plain: time_factor=nan: not above 0"),
    ],
)
def test_a_language_that_makes_no_sense_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        replace(PLAIN, **change)  # type: ignore[arg-type]


def test_languages_can_be_pickled_and_compared() -> None:
    assert pickle.loads(pickle.dumps(PLAIN)) == PLAIN and len({PLAIN, replace(PLAIN), replace(PLAIN, title="x")}) == 2
