"""Policies of a program's closure: real programs run in the smallest root, and what is not in it is not there."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import compiled
import pytest
from boxes import Guests
from interpreters import prefix, venv

from sandbox_native import ExecError, Policy, PolicyError, Sandbox, Status
from sandbox_native.rules import SYSTEM


def output(policy: Policy, *argv: str) -> str:
    with Sandbox(policy) as sandbox:
        result = sandbox.run(argv)
    assert result.status is Status.OK, (result.status, result.signal, result.stderr)
    return result.text


def hosts(policy: Policy) -> list[str]:
    return [host for host, _ in policy.readable]


# ---- the fields ----


def test_the_system_is_left_out_and_the_callers_fields_are_kept(tmp_path: Path) -> None:
    policy = Policy.minimal_for("true", readable=[(tmp_path, "/data")], symlinks=[("/opt", "data")], hostname="small")
    assert not policy.system and (str(tmp_path), "/data") in policy.readable and ("/opt", "data") in policy.symlinks
    assert policy.hostname == "small" and policy.preset == "strict"
    assert os.path.realpath("/usr/bin/true") in hosts(policy)
    assert policy.path == () and Policy.minimal_for("true") == Policy.minimal_for("true")


def test_the_programs_directory_comes_first_in_path(tmp_path: Path) -> None:
    tool = tmp_path / "tools" / "tool"
    tool.parent.mkdir()
    shutil.copy("/bin/true", tool)
    shown = Policy.minimal_for(tool, extra=[tool.parent])
    assert shown.path == (str(tool.parent),)
    assert Policy.minimal_for(tool, extra=[tool.parent], path=["/a"]).path == (str(tool.parent), "/a")
    if str(tmp_path).startswith("/tmp/"):
        assert Policy.minimal_for(tool).path == ()  # the guest could write there


def test_what_the_caller_shows_elsewhere_is_not_shown_twice(tmp_path: Path) -> None:
    shell = os.path.realpath("/bin/sh")
    other = tmp_path / "sh"
    shutil.copy(shell, other)
    policy = Policy.minimal_for("sh", readable=[(other, shell)])
    assert [host for host, inside in policy.readable if inside == shell] == [str(other)]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: Policy.minimal_for("true", system=True), "Policy.system"),
        (lambda: Policy.minimal_for("no-such-program"), "program"),
        (lambda: Policy.minimal_for("true", extra=["no-such-program"]), "extra[0]"),
        (lambda: Policy.minimal_for("true", extra="sh"), "extra"),
        (lambda: Policy.strict(python="/bin/true"), "python"),
        (lambda: Policy.strict(python="/no/such/python3"), "python"),
        (lambda: Policy.strict(python=3), "python"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_policy_is_refused(call: object, field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        call()  # type: ignore[operator]
    assert caught.value.field == field and caught.value.reason and caught.value.remedy


def test_a_script_that_starts_an_interpreter_is_no_interpreter(tmp_path: Path) -> None:
    shim = tmp_path / "python3"
    shim.write_text('#!/bin/sh\nexec python3 "$@"\n')
    shim.chmod(0o755)
    with pytest.raises(PolicyError) as caught:
        Policy.strict(python=shim)
    assert "sys.executable" in caught.value.remedy


def test_strict_with_the_systems_python_adds_nothing() -> None:
    assert Policy.strict(python=os.path.realpath("/usr/bin/python3")) == Policy.strict()


def test_strict_with_a_virtual_environment_adds_what_the_system_has_not(tmp_path: Path) -> None:
    policy = Policy.strict(python=venv(tmp_path / "v"), readable=[(tmp_path, "/data")])
    assert policy.system and policy.path == (str(tmp_path / "v" / "bin"),)
    assert policy.readable == ((str(tmp_path / "v"), str(tmp_path / "v")), (str(tmp_path), "/data"))
    assert not [path for path in hosts(policy) if path.startswith((*SYSTEM, "/etc"))]


# ---- programs run ----


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_program_runs_and_nothing_else_is_there() -> None:
    policy = Policy.minimal_for("sh", extra=["/bin/ls"])
    assert output(policy, "/bin/ls", "/usr/bin").split() == sorted(
        {"ls", "sh", os.path.basename(os.path.realpath("/bin/sh"))} - {"bash"}
    )
    with Sandbox(policy) as sandbox:
        assert sandbox.run(["sh", "-c", "test -e /usr/bin/env || test -e /usr/share || test -e /usr/bin/python3"]).exit_code == 1
        with pytest.raises(ExecError) as caught:
            sandbox.run(["env"])
        assert "not in the box's PATH" in caught.value.hint


@pytest.mark.kernel
@pytest.mark.needs("userns", "git")
def test_git_runs() -> None:
    assert output(Policy.minimal_for("git"), "git", "--version").startswith("git version")
    repository = Policy.minimal_for("sh", extra=["git"])
    assert "On branch" in output(repository, "sh", "-c", "git init -q . && git status")


@pytest.mark.kernel
@pytest.mark.needs("userns", "cc")
def test_a_program_with_libraries_beside_it_runs(tmp_path: Path) -> None:
    compiled.library(tmp_path / "lib" / "libone.so", "one")
    program = compiled.program(
        tmp_path / "bin" / "prog", calls=("one",), libraries=tmp_path / "lib", flags=("-Wl,-rpath,$ORIGIN/../lib",)
    )
    with Sandbox(Policy.minimal_for(program)) as sandbox:
        assert sandbox.run([str(program)]).exit_code == 1


@pytest.mark.kernel
@pytest.mark.needs("userns", "musl-gcc")
def test_a_program_of_musl_runs(tmp_path: Path) -> None:
    program = compiled.program(tmp_path / "prog", cc="musl-gcc")
    assert output(Policy.minimal_for(program), str(program)) == ""


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_static_program_runs_with_nothing_but_itself(guest: Guests) -> None:
    policy = Policy.minimal_for(guest["verbs"])
    assert policy.readable == ((str(guest["verbs"]), str(guest["verbs"])),)
    with Sandbox(policy) as sandbox:
        assert sandbox.run([str(guest["verbs"]), "exit", "3"]).exit_code == 3


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_script_runs_with_its_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "run"
    script.write_text("#!/usr/bin/env -S sh -e\necho ran $0\n")
    script.chmod(0o755)
    assert output(Policy.minimal_for(script), str(script)) == f"ran {script}\n"


MODULES = "import ssl, sqlite3, ctypes, decimal, hashlib, zlib, lzma, bz2, json, sys; ctypes.CDLL(None); print(sys.prefix)"


@pytest.mark.kernel
@pytest.mark.needs("userns", "/usr/bin/python3")
def test_the_systems_python_imports_its_extension_modules() -> None:
    policy = Policy.minimal_for("python3")
    assert output(policy, "python3", "-c", MODULES) == "/usr\n"
    assert not {"/usr", "/usr/lib", "/usr/bin"} & set(hosts(policy))


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that only its owner may enter, as /root is, with installations in it."""
    closed = tmp_path_factory.mktemp("closed")
    closed.chmod(0o700)
    venv(closed / "of_system")
    venv(closed / "of_prefix", str(prefix(closed / "prefix")))
    return closed


@pytest.mark.kernel
@pytest.mark.needs("userns", "/usr/bin/python3")
@pytest.mark.parametrize("kind", ["minimal", "strict"])
@pytest.mark.parametrize(
    ("what", "module"), [("of_system", "mine"), ("prefix", "ours"), ("of_prefix", "mine"), ("of_prefix", "ours")]
)
def test_an_interpreter_outside_of_usr_runs_with_its_packages(closed: Path, what: str, module: str, kind: str) -> None:
    """Each root is shown by itself, so that no directory above it needs to be readable."""
    program = closed / what / "bin" / "python"
    policy = Policy.minimal_for(program) if kind == "minimal" else Policy.strict(python=program)
    code = f"{MODULES}; import {module}; print({module}.word, sys.executable)"
    assert output(policy, "python", "-I", "-c", code).splitlines() == [
        str(closed / what),
        f"of the {'venv' if module == 'mine' else 'prefix'} {program}",
    ]


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_interpreter_that_runs_us_can_be_used_inside() -> None:
    expression = "import sys; print(sys.version_info[:3], sys.prefix)"
    assert output(Policy.strict(python=sys.executable), "python3", "-c", expression) == f"{sys.version_info[:3]} {sys.prefix}\n"
