"""git in boxes: it works with both ways of writing, but for what a later git of the host's would run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import sh

from sandbox_native import Policy, Sandbox, Writes

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "workspace", "changes", "opaque")]

GIT = "git -c user.name=x -c user.email=x@example.org"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture(params=["memory", "disk"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(Policy.strict(writes=Writes.COMMIT, changes=request.param)) as made:
        yield made


def test_git_works_but_for_its_hooks_and_config(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "file").write_text("1\n")
    script = (
        f"git init -q . && git config alias.x '!evil' && echo evil > .git/hooks/pre-commit && git add -A && {GIT} commit -qm one"
    )
    result = sandbox.run(sh(script), workspace=workspace)
    assert result.ok, result.stderr
    assert {denial.name for denial in result.denials} == {"/workspace/.git/config", "/workspace/.git/hooks"}
    assert not (workspace / ".git" / "hooks").exists() and not (workspace / ".git" / "config").exists()
    log = subprocess.run(["git", "log", "--format=%s"], cwd=workspace, capture_output=True, check=True)
    assert log.stdout == b"one\n"
    again = sandbox.run(sh(f"echo 2 >> file; {GIT} commit -qam two; git status --short"), workspace=workspace)
    assert again.stdout == b"" and again.denials == ()
    assert subprocess.run(["git", "log", "--format=%s"], cwd=workspace, capture_output=True, check=True).stdout == b"two\none\n"
    subprocess.run(["git", "fsck", "--strict"], cwd=workspace, check=True, capture_output=True)


def test_git_works_in_a_repository_of_the_hosts(sandbox: Sandbox, workspace: Path) -> None:
    for command in ("git init -q .", "git config user.name host", "git config user.email h@example.org", "touch a", "git add a"):
        subprocess.run(command.split(), cwd=workspace, check=True)
    config = (workspace / ".git" / "config").read_text()
    script = "git commit -qm one; git checkout -qb other; echo 1 > b; git add b; git commit -qm two; git gc -q; git stash list"
    result = sandbox.run(
        sh(script + "; echo evil >> .git/config; mv .git x; ln -s /x .git/hooks/pre-commit"), workspace=workspace
    )
    assert b"Read-only" in result.stderr and (workspace / ".git" / "config").read_text() == config
    log = subprocess.run(["git", "log", "--format=%s %an"], cwd=workspace, capture_output=True, check=True)
    assert log.stdout == b"two host\none host\n" and result.denials == ()


def test_git_works_with_direct_writes(workspace: Path) -> None:
    with Sandbox() as sandbox:
        script = f"git init -q . && echo 1 > a && git add -A && {GIT} commit -qm one && echo evil > .git/hooks/pre-commit"
        result = sandbox.run(sh(script), workspace=workspace)
        assert result.ok, result.stderr
        assert {denial.kind for denial in result.denials} == {"quarantine"}
        assert {denial.name for denial in result.denials} == {"/workspace/.git/config", "/workspace/.git/hooks"}
    assert not (workspace / ".git" / "hooks").exists()
    log = subprocess.run(["git", "log", "--format=%s"], cwd=workspace, capture_output=True, check=True)
    assert log.stdout == b"one\n"
    shutil.rmtree(workspace.parent / ".sandbox-native-quarantine")
