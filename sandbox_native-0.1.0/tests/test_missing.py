"""What is said of a program that cannot be started: missing, of the host only, without its interpreter, or no program."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from elves import foreign

from sandbox_native import ExecError, Policy, Sandbox, SetupError
from sandbox_native.environment import BASE
from sandbox_native.missing import View, explain


def view(
    policy: Policy | None = None, cwd: str = "", workspace: str | None = None, placed: dict[str, bytes] | None = None
) -> View:
    return View(policy=policy or Policy.strict(), path=BASE["PATH"], cwd=cwd, workspace=workspace, placed=placed or {})


def words(program: str, seen: View, error: int = errno.ENOENT) -> tuple[str, str]:
    found = explain(ExecError("exec", error, "/first/candidate", "unknown"), program, seen)
    assert isinstance(found, ExecError) and found.errno == error
    return found.item, found.hint


def test_a_name_is_told_with_the_path_it_was_sought_in() -> None:
    assert words("nosuch", view()) == ("nosuch", f"'nosuch' is not in the box's PATH ({BASE['PATH']})")


def test_where_only_the_box_can_know_nothing_is_claimed() -> None:
    assert words("/etc/no-such-program", view())[1] == "unknown"
    assert words("/proc/self/exe", view())[1] == "unknown"
    assert "no such program" in words("/tmp/x", view())[1]  # that is empty when the program starts


def test_a_program_of_the_host_is_told_with_the_directory_to_show(tmp_path: Path) -> None:
    program = tmp_path / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.symlink_to("/usr/bin/env")
    hint = words(str(program), view())[1]
    assert "on the host" in hint and "Policy.readable" in hint and f"[{str(tmp_path / 'venv')!r}]" in hint
    assert f"Policy.strict(python={str(program)!r})" in hint
    assert "no such program" in words("/no/such/program", view())[1]


def test_a_hidden_program_is_told_as_one_that_the_box_does_not_show() -> None:
    hint = words("/usr/bin/env", view(Policy.strict(hidden=["/usr/bin/env"])))[1]
    assert "on the host, but the box does not show it" in hint


def test_the_home_of_a_user_is_never_what_should_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "bin" / "tool"
    program.parent.mkdir()
    program.write_text("")
    assert f"[{str(program)!r}]" in words(str(program), view())[1]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"#!/no/such/sh -e\n", "its interpreter '/no/such/sh' is not in the box"),
        (b"#!/bin/sh\r\necho hi\r\n", "carriage return"),
        (b"#!/root/bin/tool\n", "its interpreter '/root/bin/tool' is not in the box"),
        (b"#!/bin/sh\n", "its interpreter does not"),  # it was there when we looked
    ],
)
def test_of_a_script_the_interpreter_is_named(data: bytes, said: str) -> None:
    item, hint = words("./run", view(placed={"run": data}))
    assert item == "./run" and said in hint


@pytest.mark.parametrize(
    ("error", "data", "said"),
    [
        (errno.ENOEXEC, foreign(), "it is an ELF program for 64-bit IBM S/390, big-endian, and this machine is"),
        (errno.ENOEXEC, foreign(kind=1), "it is an ELF program for 64-bit IBM S/390, big-endian"),
        (errno.ENOEXEC, b"", "it is empty"),
        (errno.EACCES, b"\xef\xbb\xbf#!/bin/sh\n", "byte order mark"),
        (errno.ENOEXEC, b"echo hi\n", "unknown"),
        (errno.EACCES, b"echo hi\n", "unknown"),
    ],
    ids=["foreign", "foreign object", "empty", "byte order mark", "text", "not executable"],
)
def test_what_no_kernel_starts_is_told_from_its_first_bytes(error: int, data: bytes, said: str) -> None:
    assert said in words("./run", view(placed={"run": data}), error)[1]


def test_what_lies_in_a_workspace_is_read_there(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(foreign())
    assert "S/390" in words("./run", view(workspace=str(tmp_path)), errno.ENOEXEC)[1]
    assert "no such program" in words("./other", view(workspace=str(tmp_path)))[1]


def test_other_errors_stay_as_they_are() -> None:
    for error in (ExecError("exec", errno.EACCES, "x", "y"), SetupError("mount", errno.ENOENT, "x", "y")):
        assert explain(error, "ls", view()) is error


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_box_says_the_same(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "tool"
    program.parent.mkdir()
    os.symlink("/usr/bin/env", program)
    with Sandbox() as sandbox:
        for argv, files, said in (
            (["nosuch"], None, "'nosuch' is not in the box's PATH (/usr/local/bin:"),
            (["./nosuch"], None, "no such program in the box"),
            ([str(program)], None, "Policy.readable"),
            (["./run"], {"run": b"#!/bin/sh\r\n"}, "carriage return"),
            (["./run"], {"run": foreign()}, "for 64-bit IBM S/390, big-endian"),
            (["./run"], {"run": b"\xef\xbb\xbf#!/bin/sh\n"}, "byte order mark"),
        ):
            with pytest.raises(ExecError) as caught:
                sandbox.run(argv, files=files)
            assert said in str(caught.value) and "Exec format" not in str(caught.value)
            assert caught.value.item == argv[0]
