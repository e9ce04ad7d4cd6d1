"""What is written down of a run, and what becomes of it when the host is killed."""

from __future__ import annotations

import errno
import json
import os
import signal
from pathlib import Path

import boxes
import pytest
from hosttrees import kept, make, opened
from running import nap, sleepers

from sandbox_native import Policy, Sandbox, SetupError, notes, recover, state
from sandbox_native.snapshots import State

STRICT = Policy.strict()


def left(w: Path, absent: set[str], before: dict[str, State]) -> None:
    """By a host that is gone."""
    with opened(w) as fd:
        notes.write(fd, frozenset(absent), before).close()


def settled(w: Path) -> set[str]:
    with opened(w) as fd:
        return {denial.name for denial in notes.settle(fd, STRICT, "/workspace")}


def test_a_note_is_gone_with_the_run(w: Path) -> None:
    with opened(w) as fd:
        note = notes.write(fd, frozenset([".bashrc"]), {})
        make(w, ".bashrc")
        assert settled(w) == set()  # its host is at work
        note.remove()
    assert not kept(w) and os.listdir(w.parent) == ["w"]


def test_what_was_absent_is_moved_away_and_nothing_else(w: Path) -> None:
    make(w, ".git/config", ".npmrc")
    left(w, {".bashrc", ".git/hooks", ".vscode"}, {".git": State("directory", 0, 0), ".npmrc": State("file", 0, 0)})
    make(w, ".bashrc", ".git/hooks/pre-commit", "notes")
    assert settled(w) == {"/workspace/.bashrc", "/workspace/.git/hooks"}
    assert sorted(os.listdir(w)) == [".git", ".npmrc", "notes"]
    assert not kept(w)
    assert settled(w) == set()


def test_a_note_of_a_directory_that_is_gone_is_dropped(w: Path) -> None:
    """A later one has its number."""
    left(w, {".bashrc"}, {})
    (note,) = kept(w).values()
    note.chmod(0o600)
    told = json.loads(note.read_text())
    told["root"][2] += 1
    note.write_text(json.dumps(told) + "\n")
    make(w, ".bashrc")
    assert settled(w) == set()
    assert (w / ".bashrc").exists() and not kept(w)


def test_a_link_is_told_and_put_where_no_file_says(w: Path) -> None:
    left(w, set(), {".vscode": State("link", 0, 0, "code")})
    (w / ".vscode").symlink_to("evil")
    assert settled(w) == {"/workspace/.vscode"}
    assert os.readlink(w / ".vscode") == "evil"


def test_a_note_that_nobody_finished_is_dropped(w: Path) -> None:
    left(w, {".bashrc"}, {})
    make(w, ".bashrc")
    (note,) = kept(w).values()
    note.chmod(0o600)
    note.write_text(note.read_text()[:-1])
    assert settled(w) == set()
    assert not kept(w)


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc", "a//b", ".", "", "a/./b"])
def test_a_name_that_does_not_lead_downwards_is_an_error(w: Path, name: str) -> None:
    make(w.parent, "x")
    left(w, {name, ".bashrc"}, {})
    make(w, ".bashrc")
    with pytest.raises(SetupError, match=f"{state.path()}/.*-note-.*remove the file"):
        settled(w)
    assert (w.parent / "x").exists() and len(kept(w)) == 1
    for path in kept(w).values():
        path.unlink()


@pytest.mark.parametrize("text", ["{}\n", "[" * 100_000 + "\n", "{\n", "\x80\n", '{"root": [], "absent": 1, "there": {}}\n'])
def test_a_note_that_cannot_be_understood_is_an_error(w: Path, text: str) -> None:
    left(w, set(), {})
    (note,) = kept(w).values()
    note.chmod(0o600)
    note.write_text(text, encoding="latin-1")
    for ask in (settled, recover):
        with pytest.raises(SetupError, match=f"{note}.*remove the file"):
            ask(w)
    for path in kept(w).values():
        path.unlink()


def test_a_note_is_written_whole_or_not_at_all(w: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data)[:7]))
    many = {f"d{number:05}{'y' * 200}/.bashrc" for number in range(200)}
    left(w, {".bashrc", *many}, {})
    monkeypatch.undo()
    make(w, ".bashrc")
    assert settled(w) == {"/workspace/.bashrc"}

    def full(fd: int, data: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SetupError, match=f"{state.path()}/.*-note-.*No space"):
        left(w, {".bashrc"}, {})
    assert not kept(w)


def test_recover_settles_what_a_host_left(w: Path) -> None:
    left(w, {".bashrc"}, {})
    make(w, ".bashrc")
    recovered = recover(w)
    assert recovered and [denial.name for denial in recovered.denials] == ["/workspace/.bashrc"]
    assert not (w / ".bashrc").exists()
    assert not recover(w)


FORGE = """
import json, os
ino = os.stat("/workspace/a/sub").st_ino
note = json.dumps({"root": [], "absent": ["../../../victim", "src"], "there": {}}) + "\\n"
for name in (f".sandbox-native-quarantine-{ino}", f"{os.stat('/workspace').st_dev:x}-{ino:x}-note-1"):
    os.mkdir(f"/workspace/a/{name}", 0o700)
    open(f"/workspace/a/{name}/note-1", "w").write(note)
"""


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
@pytest.mark.parametrize("ask", ["a run", "recover"])
def test_what_a_guest_left_beside_a_directory_is_no_note(w: Path, ask: str) -> None:
    make(w, "a/sub/src/file")
    make(w.parent, "victim/key")
    with Sandbox(STRICT) as sandbox:
        assert sandbox.run(["python3", "-c", FORGE], workspace=w).ok
        if ask == "recover":
            assert not recover(w / "a/sub")
        else:
            assert sandbox.run(["true"], workspace=w / "a/sub").denials == ()
    assert (w / "a/sub/src/file").exists() and (w.parent / "victim/key").exists()


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_after_a_kill_the_next_run_moves_away_what_the_guest_made(w: Path) -> None:
    script = f"cd /workspace; mkdir .vscode; echo EVIL > .bashrc; sleep {nap(315)}"
    if (pid := os.fork()) == 0:
        with Sandbox(STRICT) as sandbox:
            sandbox.run(["sh", "-c", script], workspace=w)
        os._exit(0)
    boxes.until(lambda: bool(sleepers(315)), boxes.PATIENCE, "the guest's work")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    boxes.until(lambda: not sleepers(315), boxes.PATIENCE, "the guest's end")
    with Sandbox(STRICT) as sandbox:
        denials = sandbox.run(["true"], workspace=w).denials
    assert {denial.name for denial in denials} == {"/workspace/.bashrc", "/workspace/.vscode"}
    assert os.listdir(w) == []
    assert not kept(w)


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_a_guest_makes_no_name_of_ours(w: Path) -> None:
    with Sandbox(STRICT) as sandbox:
        made = sandbox.run(["sh", "-c", "cd /workspace; mkdir .sandbox-native-x; touch .zshrc .bashrc ok"], workspace=w)
    names = [".bashrc", ".sandbox-native-x", ".zshrc"]
    assert [denial.name for denial in made.denials] == [f"/workspace/{name}" for name in names]
    assert os.listdir(w) == ["ok"]
