"""Programs that a box starts: what the host found, compared with what the box opens, and found anew when it changed."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from elves import foreign, script

from sandbox_native import ExecError, ExecutableResolver, Policy, ReadPolicy, Sandbox, Status, Writes
from sandbox_native.executables import _LINES, Executable

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    tmp_path.chmod(0o755)
    return tools


@pytest.fixture
def box(tools: Path) -> Iterator[Sandbox]:
    with Sandbox(Policy.strict(readable=[(tools, "/mnt/tools")], path=["/mnt/tools"])) as sandbox:
        yield sandbox


def test_the_box_runs_what_was_found(box: Sandbox, tools: Path) -> None:
    script(tools / "run")
    (tools / "link").symlink_to("run")
    for program in ("run", "/mnt/tools/link", "/mnt/tools/../tools/run"):
        assert box.run([program]).text == "ran run\n"


def test_a_program_that_is_replaced_between_two_runs_is_found_anew(box: Sandbox, tools: Path) -> None:
    script(tools / "run")
    assert box.run(["run"]).text == "ran run\n"
    script(tools / "other").rename(tools / "run")
    assert box.run(["run"]).text == "ran other\n"
    (tools / "run").unlink()
    with pytest.raises(ExecError) as caught:
        box.run(["run"])
    assert caught.value.errno == errno.ENOENT and "not in the box's PATH" in caught.value.hint
    script(tools / "run").chmod(0o4755)
    with pytest.raises(ExecError) as caught:
        box.run(["run"])
    assert caught.value.errno == errno.EPERM


def test_another_file_than_the_host_looked_at_is_not_started(box: Sandbox, tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when it is replaced after the look: once, and the run is repeated; again and again, and it is an error."""
    script(tools / "run")
    real, looks = ExecutableResolver.find, []

    def too_early(self: ExecutableResolver, program: str, cwd: str, workspace: str | None) -> Executable:
        found = real(self, program, cwd, workspace)
        looks.append(found)
        if len(looks) <= replaced:
            script(tools / f"new{len(looks)}").rename(tools / "run")
        return found

    monkeypatch.setattr(ExecutableResolver, "find", too_early)
    replaced = 1
    assert box.run(["run"]).text == "ran new1\n" and len(looks) == 2
    replaced = 9
    script(tools / "fresh").rename(tools / "run")
    with pytest.raises(ExecError) as caught:
        box.run(["run", "again"], stdin=b"data")
    assert caught.value.errno == errno.ESTALE and "was replaced" in caught.value.hint
    replaced = 0
    assert box.run(["run"]).status is Status.OK


def test_a_repeated_run_asks_the_host_for_one_stat(box: Sandbox, tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tools / "run")
    box.run(["run"])
    calls: list[str] = []
    for name in ("stat", "lstat", "open", "readlink", "getxattr", "access", "listdir"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *words, _real=real, _name=name, **more: (calls.append(_name), _real(*words, **more))[1]
        )
    box._encoder.body(["run"])
    assert calls == ["stat"]
    calls.clear()
    box._encoder.body(["run", "with other arguments"])
    assert calls == ["stat"]


def test_what_the_kernel_says_of_nested_interpreters_is_what_we_say(box: Sandbox, tools: Path) -> None:
    before = "/bin/sh"
    for number in range(_LINES + 1):
        script(tools / f"s{number}", f"#!{before}")
        before = f"/mnt/tools/s{number}"
    assert box.run([f"s{_LINES - 1}"]).ok
    # The kernel itself, asked by a guest:
    asked = f"import os\ntry: os.execv('/mnt/tools/s{_LINES}', ['s'])\nexcept OSError as error: print(error.errno)"
    assert box.run(["python3", "-c", asked]).text == f"{errno.ELOOP}\n"


def test_a_workspaces_programs_run_and_are_refused_as_others(tmp_path: Path) -> None:
    script(tmp_path / "run")
    (tmp_path / "arm").write_bytes(foreign())
    shutil.copy("/bin/true", tmp_path / "su")
    for name, mode in (("arm", 0o755), ("su", 0o4755)):
        (tmp_path / name).chmod(mode)
    with Sandbox() as sandbox:
        for _ in range(2):  # the second time from what is remembered
            assert sandbox.run(["./run"], workspace=tmp_path).text == "ran run\n"
        for name, error in (("arm", errno.ENOEXEC), ("su", errno.EPERM), ("none", errno.ENOENT)):
            with pytest.raises(ExecError) as caught:
                sandbox.run([f"./{name}"], workspace=tmp_path)
            assert caught.value.errno == error
        other = tmp_path / "other"
        other.mkdir()
        script(other / "run", "#!/bin/sh -e")
        assert sandbox.run(["./run"], workspace=other).text == "ran run\n"
        assert sandbox.run(["./run"], files={"run": b"#!/bin/sh\necho placed\n"}).text == "placed\n"
    assert stat.S_IMODE((tmp_path / "su").stat().st_mode) == 0o4755


@pytest.mark.needs("overlay", "changes", "workspace")
def test_programs_run_from_every_kind_of_root(tools: Path) -> None:
    """An overlay has device and inode numbers of its own: there nothing is compared, and everywhere else it is."""
    script(tools / "run")
    shown: list[tuple[Policy, str, Path | None]] = [
        (Policy.strict(readable=[(tools, "/mnt/t")]), "/mnt/t/run", None),
        (Policy.strict(readable=[(tools, "/tmp/t")]), "/tmp/t/run", None),
        (Policy.strict(readable=[(tools, "/mnt/t")], host_sockets="hide"), "/mnt/t/run", None),
        (Policy.strict(readable=[(tools, "/tmp/t")], host_sockets="hide"), "/tmp/t/run", None),
        (Policy.strict(readable=[(tools / "run", "/mnt/run")]), "/mnt/run", None),
        (Policy.strict(writable=[(tools, "/mnt/t")]), "/mnt/t/run", None),
        (Policy.strict(writable=[(tools, "/mnt/t")], protected=["/mnt/t/run"]), "/mnt/t/run", None),
        (Policy.strict(writable=[(tools, "/mnt/t")], writes=Writes.COMMIT), "/mnt/t/run", None),
        (Policy.strict(), "./run", tools),
        (Policy.strict(writes=Writes.COMMIT), "./run", tools),
        (Policy.strict(read=ReadPolicy.HOST), "sh", None),
        (Policy.light(), "sh", None),
    ]
    for policy, program, workspace in shown:
        with Sandbox(policy) as sandbox:
            result = sandbox.run([program, "-c", "echo ran run"], workspace=workspace)
        assert result.text == "ran run\n", (policy, program, result)


def test_a_root_that_was_replaced_since_the_sandbox_was_made_is_told_so(box: Sandbox, tools: Path) -> None:
    """The box goes on showing the directory that was looked at; the host by its name finds another."""
    script(tools / "run")
    tools.rename(tools.with_name("old"))
    tools.mkdir()
    script(tools / "run")
    with pytest.raises(ExecError) as caught:
        box.run(["run"])
    assert caught.value.errno == errno.ESTALE and "make a new Sandbox" in caught.value.hint
