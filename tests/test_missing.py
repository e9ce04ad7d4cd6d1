"""What is said of a program that is not there: missing, of the host only, or with a missing interpreter."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from sandbox_native import ExecError, Policy, Sandbox, SetupError
from sandbox_native.environment import BASE
from sandbox_native.missing import View, explain


def view(policy: Policy | None = None, path: str = BASE["PATH"], cwd: str = "", workspace: str | None = None) -> View:
    return View(policy=policy or Policy.strict(), path=path, cwd=cwd, workspace=workspace, placed={"placed": b""})


def words(program: str, seen: View) -> tuple[str, str]:
    found = explain(ExecError("exec", errno.ENOENT, "/first/candidate", "unknown"), program, seen)
    assert isinstance(found, ExecError) and found.errno == errno.ENOENT
    return found.item, found.hint


@pytest.mark.parametrize(
    ("program", "cwd", "known"),
    [
        ("/usr/bin/env", "", True),
        ("/usr/bin/no-such-program", "", False),
        ("./placed", "", True),
        ("./other", "", False),
        ("./env", "/usr/bin", True),
        ("/mnt/elsewhere", "", False),
        ("/tmp/x", "", False),
        ("/etc/no-such-program", "", None),
        ("/proc/self/exe", "", None),
    ],
)
def test_whether_a_program_is_there_is_said_only_where_it_is_known(program: str, cwd: str, known: bool | None) -> None:
    seen = view(cwd=cwd)
    assert seen.holds(seen.tried(program)[0]) is known


def test_what_the_policy_and_the_workspace_show_is_looked_at_where_it_is_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("")

    shown = view(Policy.strict(readable=[(tmp_path, "/mnt/tools")]))
    assert (shown.holds("/mnt/tools/tool"), shown.holds("/mnt/tools/none")) == (True, False)
    (tmp_path / "away").symlink_to(Path(__file__))
    assert shown.holds("/mnt/tools/away") is False  # the box does not show what it leads to
    (tmp_path / "dangling").symlink_to("/etc/made-up")
    assert shown.holds("/mnt/tools/dangling") is None
    assert view(workspace=str(tmp_path)).holds("/workspace/tool") is True


def test_a_name_is_told_with_the_path_it_was_sought_in() -> None:
    assert words("nosuch", view()) == ("nosuch", f"'nosuch' is not in the box's PATH ({BASE['PATH']})")
    assert words("ls", view(path="/nowhere"))[1] == "'ls' is not in the box's PATH (/nowhere)"


def test_a_bad_interpreter_is_that_of_the_first_that_is_there() -> None:
    item, hint = words("env", view(path="/nowhere:/usr/bin"))
    assert item == "/usr/bin/env" and "its interpreter does not" in hint


def test_a_program_of_the_host_is_told_with_the_directory_to_show(tmp_path: Path) -> None:
    program = tmp_path / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.symlink_to("/usr/bin/env")
    hint = words(str(program), view())[1]
    assert "on the host" in hint and "Policy.readable" in hint and f"[{str(tmp_path / 'venv')!r}]" in hint
    assert "no such program" in words("/no/such/program", view())[1]


def test_the_home_of_a_user_is_never_what_should_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    program = tmp_path / "bin" / "tool"
    program.parent.mkdir()
    program.write_text("")
    assert f"[{str(program)!r}]" in words(str(program), view())[1]


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
        for argv, env, said in (
            (["nosuch"], None, "'nosuch' is not in the box's PATH (/usr/local/bin:"),
            (["ls"], {"PATH": "/nowhere"}, "'ls' is not in the box's PATH (/nowhere)"),
            ([str(program)], None, "Policy.readable"),
        ):
            with pytest.raises(ExecError) as caught:
                sandbox.run(argv, env=env)
            assert said in str(caught.value) and "interpreter" not in str(caught.value)
            assert caught.value.item == argv[0]
