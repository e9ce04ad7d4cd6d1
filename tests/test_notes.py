"""What is written down beside a root, and what becomes of it when the host is killed."""

from __future__ import annotations

import os
import signal
import stat
import time
from pathlib import Path

import pytest
from hosttrees import make, opened

from sandbox_native import Policy, Sandbox, recover
from sandbox_native.mandatory import QUARANTINE
from sandbox_native.notes import Notes
from sandbox_native.snapshots import State

STRICT = Policy.strict()


@pytest.fixture
def w(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def notes(w: Path) -> Path:
    return w.parent / f"{QUARANTINE}-{w.stat().st_ino}"


def left(w: Path, absent: set[str], before: dict[str, State]) -> None:
    """By a host that is gone."""
    with opened(w) as fd, Notes(fd, ()) as beside:
        note = beside.write(frozenset(absent), before)
    assert note is not None
    note.close()


def settled(w: Path) -> set[str]:
    with opened(w) as fd, Notes(fd, ()) as beside:
        return {denial.name for denial in beside.settle(STRICT, "/workspace")}


def test_a_note_is_the_callers_alone_and_gone_with_the_run(w: Path) -> None:
    with opened(w) as fd, Notes(fd, ()) as beside:
        note = beside.write(frozenset([".bashrc"]), {})
        assert note is not None
        assert stat.S_IMODE(notes(w).stat().st_mode) == 0o700
        assert stat.S_IMODE((notes(w) / note.name).stat().st_mode) == 0o600
        make(w, ".bashrc")
        assert settled(w) == set()  # its host is at work
        note.remove()
    assert not notes(w).exists()


def test_what_was_absent_is_moved_away_and_nothing_else(w: Path) -> None:
    make(w, ".git/config", ".npmrc")
    left(w, {".bashrc", ".git/hooks", ".vscode"}, {".git": State("directory", 0, 0), ".npmrc": State("file", 0, 0)})
    make(w, ".bashrc", ".git/hooks/pre-commit", "notes")
    assert settled(w) == {"/workspace/.bashrc", "/workspace/.git/hooks"}
    assert sorted(os.listdir(w)) == [".git", ".npmrc", "notes"]
    assert not notes(w).exists()
    assert settled(w) == set()


def test_a_link_is_told_and_put_where_no_file_says(w: Path) -> None:
    left(w, set(), {".vscode": State("link", 0, 0, "code")})
    (w / ".vscode").symlink_to("evil")
    assert settled(w) == {"/workspace/.vscode"}
    assert os.readlink(w / ".vscode") == "evil"


def test_a_note_that_nobody_finished_is_dropped(w: Path) -> None:
    left(w, set(), {})
    next(notes(w).iterdir()).write_text("{")
    assert settled(w) == set()
    assert not notes(w).exists()


def test_recover_settles_what_a_host_left(w: Path) -> None:
    left(w, {".bashrc"}, {})
    make(w, ".bashrc")
    assert recover(w)
    assert not (w / ".bashrc").exists()
    assert not recover(w)


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_after_a_kill_the_next_run_moves_away_what_the_guest_made(w: Path) -> None:
    if (pid := os.fork()) == 0:
        with Sandbox(STRICT) as sandbox:
            sandbox.run(["sh", "-c", "cd /workspace; mkdir .vscode; echo EVIL > .bashrc; sleep 20"], workspace=w)
        os._exit(0)
    deadline = time.monotonic() + 20
    while not (w / ".bashrc").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    time.sleep(0.3)
    with Sandbox(STRICT) as sandbox:
        denials = sandbox.run(["true"], workspace=w).denials
    assert {denial.name for denial in denials} == {"/workspace/.bashrc", "/workspace/.vscode"}
    assert os.listdir(w) == []
    assert not notes(w).exists()


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_a_guest_makes_no_name_of_ours(w: Path) -> None:
    with Sandbox(STRICT) as sandbox:
        made = sandbox.run(["sh", "-c", "cd /workspace; mkdir .sandbox-native-x; touch .zshrc .bashrc ok"], workspace=w)
    names = [".bashrc", ".sandbox-native-x", ".zshrc"]
    assert [denial.name for denial in made.denials] == [f"/workspace/{name}" for name in names]
    assert os.listdir(w) == ["ok"]
