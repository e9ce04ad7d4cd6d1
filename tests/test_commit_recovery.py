"""A host that is killed in the middle of a commit: afterwards all of it happened or nothing, and nothing twice."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import scope
from hosttrees import kept
from killed import killed_at
from overlays import Layers, snapshot

from sandbox_native import PolicyError
from sandbox_native.commit import durable, place
from sandbox_native.commit.recovery import recover

OURS = "the host's own, from after the kill"


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """In memory: what a kill leaves is the same, and each of hundreds of commits waits for no disk."""
    path = Path(tempfile.mkdtemp(dir="/dev/shm"))
    yield path
    shutil.rmtree(path)


def make(directory: Path) -> Layers:
    directory.mkdir()
    layers = Layers.beneath(directory)
    for name in ("modified", "deleted", "dir/kept", "dir/modified", "gone/deep/file", "becomes-dir", "becomes-link/file"):
        layers.host(name, "old")
    layers.write("modified", "new", 0o755)
    layers.write("dir/modified", "new")
    layers.write("dir/added", "new")
    layers.write("new/deep/file", "new")
    layers.write("becomes-dir/file", "new")
    (layers.upper / "becomes-link").symlink_to("new")
    os.link(layers.upper / "dir" / "added", layers.upper / "second-name")
    (layers.upper / "dir").chmod(0o750)
    os.setxattr(layers.upper / "new", "user.colour", b"red")
    layers.remove("deleted")
    layers.remove("gone")
    return layers


def leftovers(layers: Layers) -> list[str]:
    names = [name for name in (*os.listdir(layers.lower.parent), *os.listdir(layers.lower)) if name.startswith(place.RESERVED)]
    return [*names, *kept(layers.lower)]


@pytest.fixture(params=["few", "many"])
def layers(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Layers:
    """Both ways of writing things out: one by one, and with their whole file system."""
    monkeypatch.setattr(durable, "FEW", 0 if request.param == "many" else 1000)
    return make(tmp_path / "0")


def test_a_kill_at_every_step_leaves_all_or_nothing(layers: Layers, tmp_path: Path) -> None:
    before, outcomes = without_times(snapshot(layers.lower)), set()
    after = without_times(snapshot(committed(tmp_path / "whole")))
    number = 0
    while killed_at(number, layers.commit):
        had_happened = "journal" in kept(layers.lower)
        recover(layers.lower)
        found = without_times(snapshot(layers.lower))
        assert found == (after if had_happened else before) or (found == after and not leftovers(layers)), number
        assert not leftovers(layers) and not recover(layers.lower), number
        outcomes.add(found == after)
        number += 1
        layers = make(tmp_path / str(number))
    assert outcomes == {True, False} and number > 40
    assert without_times(snapshot(layers.lower)) == after


def committed(directory: Path) -> Path:
    layers = make(directory)
    layers.commit()
    return layers.lower


def without_times(found: dict[str, object]) -> dict[str, object]:
    return {name: [*facts[:2], *facts[3:]] for name, facts in found.items()}  # type: ignore[index,misc]


def test_a_kill_of_the_recovery_too_leaves_all_or_nothing(tmp_path: Path) -> None:
    after = without_times(snapshot(committed(tmp_path / "whole")))
    chance, completed = random.Random(1), 0
    for trial in range(25):
        layers = make(tmp_path / str(trial))
        before = without_times(snapshot(layers.lower))
        killed_at(chance.randrange(60, 180), layers.commit)
        for _ in range(3):
            killed_at(chance.randrange(0, 25), lambda layers=layers: recover(layers.lower))  # type: ignore[misc]
        recover(layers.lower)
        found = without_times(snapshot(layers.lower))
        assert found in (before, after) and not leftovers(layers), trial
        completed += found == after
    assert 0 < completed < 25


def test_what_was_done_before_the_kill_is_not_done_again(tmp_path: Path) -> None:
    """What somebody on the host does between the kill and the recovery to what had arrived already stays."""
    seen = 0
    for number in range(110, 220):
        layers = make(tmp_path / str(number))
        if not killed_at(number, layers.commit):
            break
        changed, removed = layers.lower / "modified", layers.lower / "deleted"
        arrived = changed.read_text() == "new" and not removed.exists()
        if not arrived:
            continue
        seen += 1
        changed.write_text(OURS)
        removed.write_text(OURS)
        recover(layers.lower)
        assert changed.read_text() == removed.read_text() == OURS, number
    assert seen > 3


def test_kills_at_any_moment_leave_all_or_nothing(tmp_path: Path) -> None:
    """Not between two steps of the interpreter, but whenever."""
    after = without_times(snapshot(committed(tmp_path / "whole")))
    for trial in range(12):
        layers = make(tmp_path / str(trial))
        before = without_times(snapshot(layers.lower))
        pid = scope.child(layers.commit)  # type: ignore[arg-type]
        time.sleep(0.0015 * trial)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        recover(layers.lower)
        assert without_times(snapshot(layers.lower)) in (before, after) and not leftovers(layers)


def interrupted(layers: Layers) -> Path:
    """Killed right after the journal came to its place; where that is."""
    number = 80
    while True:
        assert killed_at(number, layers.commit)
        if (path := kept(layers.lower).get("journal")) is not None:
            return path
        recover(layers.lower)
        number += 1


def test_the_next_commit_completes_an_earlier_one(tmp_path: Path) -> None:
    layers = make(tmp_path / "0")
    interrupted(layers)
    shutil.rmtree(layers.upper)
    layers.upper.mkdir()
    layers.write("another", "1")
    listing = layers.commit()
    assert [change.path for change in listing.added] == ["another"]
    assert (layers.lower / "modified").read_text() == "new" and not leftovers(layers)


def test_a_journal_of_another_directory_is_thrown_away(tmp_path: Path) -> None:
    """The inode number came to be used again."""
    layers = make(tmp_path / "0")
    path = interrupted(layers)
    lines = path.read_text().splitlines()
    head = json.loads(lines[0])
    head[1][2] += 1
    path.write_text("\n".join([json.dumps(head), *lines[1:]]) + "\n")
    before = snapshot(layers.lower)
    assert recover(layers.lower) and snapshot(layers.lower) == before and not leftovers(layers)


def test_a_staging_directory_that_took_the_name_of_the_staged_one_is_not_used(tmp_path: Path) -> None:
    layers = make(tmp_path / "0")
    interrupted(layers)
    (staged,) = layers.lower.parent.glob(f"{place.NAME}-*")
    staged.rename(layers.lower.parent / "moved")
    shutil.copytree(layers.lower.parent / "moved", staged, symlinks=True)
    staged.chmod(0o700)
    before = snapshot(layers.lower)
    (told,) = recover(layers.lower).denials
    assert "what is left of that commit is lost" in told.reason
    assert snapshot(layers.lower) == before and not leftovers(layers)


@pytest.mark.parametrize("damage", ["cut", "word", "name", "kind", "slot", "no text"])
def test_a_damaged_journal_is_thrown_away(tmp_path: Path, damage: str) -> None:
    layers = make(tmp_path / "0")
    path = interrupted(layers)
    lines = path.read_text().splitlines()
    put = next(at for at, line in enumerate(lines) if line.startswith('["put"'))
    lines = {
        "cut": lines[:-1],
        "word": [*lines[:-1], "{"],
        "name": [*lines[:put], '["put", "../../x", 1]', *lines[put + 1 :]],
        "kind": [*lines[:put], '["run", "x", 1]', *lines[put + 1 :]],
        "slot": [*lines[:put], '["put", "x", "../../1"]', *lines[put + 1 :]],
        "no text": [*lines[:put], "\x80", *lines[put + 1 :]],
    }[damage]
    path.write_text("\n".join(lines) + "\n", encoding="latin-1")
    before = snapshot(layers.lower)
    assert recover(layers.lower) and snapshot(layers.lower) == before and not leftovers(layers)


def test_a_commit_under_way_is_not_taken_for_an_interrupted_one(tmp_path: Path) -> None:
    """Recovery waits for its lock; a forked child that holds a copy of it does not make it wait."""
    layers = make(tmp_path / "0")
    interrupted(layers)
    root = os.open(layers.lower, os.O_RDONLY)
    with place.locked(root):
        pid = scope.child(lambda: assert_true(recover(layers.lower)))
        time.sleep(0.05)
        assert os.waitpid(pid, os.WNOHANG) == (0, 0) and leftovers(layers)
    os.close(root)
    assert os.waitpid(pid, 0)[1] == 0 and not leftovers(layers)


def assert_true(value: bool) -> None:
    assert value


def test_where_nothing_was_interrupted_there_is_nothing_to_do(tmp_path: Path) -> None:
    assert not recover(tmp_path)


def test_what_is_no_directory_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("nowhere", "file"):
        with pytest.raises(PolicyError, match=f"{name}.*workspace"):
            recover(tmp_path / name)
