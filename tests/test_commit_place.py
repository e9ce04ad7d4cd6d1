"""Where a commit is staged and how it is locked, in directories that others change: no guest has a part in it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import scope
from hosttrees import kept, opened
from overlays import Layers, in_a_namespace, tmpfs

from sandbox_native import Policy, PolicyError, SetupError, state
from sandbox_native.commit import journal, lock, place
from sandbox_native.commit.recovery import recover, recover_fd


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    made = Layers.beneath(tmp_path)
    made.write("file", "1")
    return made


def lock_of(layers: Layers) -> Path:
    return kept(layers.lower)[lock.NAME]


def leave(layers: Layers, steps: list[object], spoil: Callable[[Path], object] = lambda new: None) -> Path:
    """A journal with these steps, and what it says is staged, as a host leaves them that is killed. `spoil` changes what is."""
    with opened(layers.lower) as root, place.locked(root) as locked:
        staging = place.make(locked)
        for slot in ("1", "2"):
            (Path(staging.path) / "new" / slot).write_text("evil")
        spoil(Path(staging.path) / "new")
        journal.write(locked, staging, ())
        path = Path(staging.path)
        staging.close()
    told = kept(layers.lower)[journal.NAME].read_text().splitlines()
    lines = [told[0], *map(json.dumps, steps), told[-1]]
    kept(layers.lower)[journal.NAME].write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", [f"{place.NAME}-{{ino}}", f"{place.NAME}-0123456789ab", "{dev:x}-{ino:x}"])
def test_what_a_guest_left_beside_the_directory_or_in_it_has_no_effect(layers: Layers, name: str) -> None:
    """As a guest can that works on a directory around it."""
    status = layers.lower.stat()
    name = name.format(ino=status.st_ino, dev=status.st_dev)
    forged = [layers.lower.parent / name, layers.lower / name]
    with opened(layers.lower) as fd:
        head = [2, state.identity(fd), name, []]
    for path in forged:
        (path / "new").mkdir(parents=True, mode=0o700)
        (path / "old").mkdir()
        path.chmod(0o700)
        (path / "new" / "1").write_text("evil")
        for lines in ([head, ["put", "evil", 1], "end"], [{"version": 1, "root": head[1]}, ["put", "evil", 1], "end"]):
            (path / journal.NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))
            assert not recover(layers.lower)
    layers.commit()
    assert (layers.lower / "file").exists() and not (layers.lower / "evil").exists()
    assert all((path / "journal").exists() for path in forged)


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".git/hooks/evil",
            ".bashrc",
            "sub/.git/config",
            "sub/.bashrc",
            ".sandbox-native-x",
            "sub/.Sandbox-native-x",
            ".GIT/hooks",
        ),
        *("Makefile", "lock", "secret/file", "sub/Makefile"),
    ],
)
def test_a_journal_changes_nothing_that_is_protected_by_now(layers: Layers, path: str) -> None:
    layers.host(".git/hooks/other", "mine")
    layers.host("sub/.git/HEAD", "mine")
    (layers.lower / "sub/.git/objects").mkdir()
    (layers.lower / "sub/.git/refs").mkdir()
    (layers.lower / "secret").mkdir()
    (layers.lower / ".GIT").mkdir()
    *above, name = path.split("/")
    down, up = [["down", part] for part in above], [["up"] for _ in above]
    staging = leave(layers, [*down, ["put", name, 1], *up, ["put", "fine", 2]])
    policy = Policy.strict(deny_write=["Makefile"], protected=["/workspace/lock"], hidden=["/workspace/secret"])
    fd = os.open(layers.lower, os.O_RDONLY)
    assert recover_fd(fd, policy)
    os.close(fd)
    assert not (layers.lower / path).exists() and not staging.exists() and (layers.lower / "fine").exists()


def test_a_journal_takes_nothing_away_that_is_protected_by_now(layers: Layers) -> None:
    layers.host(".git/hooks/other", "mine")
    layers.host(".config/fish/config.fish", "mine")
    layers.host("other", "mine")
    leave(layers, [["drop", ".git", 1], ["put", ".config", 1], ["drop", "other", 2]])
    assert recover(layers.lower)
    assert (layers.lower / ".git/hooks/other").exists() and (layers.lower / ".config/fish").is_dir()
    assert not (layers.lower / "other").exists()


def _set_id(new: Path) -> None:
    (new / "1").chmod(0o4755)


def _deep_set_id(new: Path) -> None:
    (new / "1").unlink()
    (new / "1" / "x").mkdir(parents=True)
    (new / "1" / "x" / "file").touch()
    (new / "1" / "x" / "file").chmod(0o2755)


def _hooks(new: Path) -> None:
    (new / "1").unlink()
    (new / "1" / ".git" / "hooks").mkdir(parents=True)
    (new / "1" / ".git" / "hooks" / "evil").touch()


@pytest.mark.parametrize("spoil", [_set_id, _deep_set_id, _hooks, lambda new: ((new / "1").unlink(), os.mkfifo(new / "1"))])
def test_what_somebody_staged_brings_nothing_that_is_refused(layers: Layers, spoil: Callable[[Path], object]) -> None:
    leave(layers, [["put", "evil", 1], ["put", "fine", 2]], spoil)
    assert recover(layers.lower)
    assert not os.path.lexists(layers.lower / "evil") and (layers.lower / "fine").exists()


def test_a_mode_from_a_journal_has_no_set_id_bit(layers: Layers) -> None:
    (layers.lower / "dir").mkdir()
    leave(layers, [["dress", "dir", 0o6755, 0, {}]])
    assert recover(layers.lower) and (layers.lower / "dir").stat().st_mode & 0o7777 == 0o755


BAD = [
    "[" * 100_000,
    '["put", "a\\u0000b", 1]',
    '["put", "\\ud800", 1]',
    '["put", "x", true]',
    '["put", "x", -1]',
    '["put", "x", 1' + "0" * 5000 + "]",
    '["put", ["x"], 1]',
    '["up"]',
    '["down", "x"]',
    '["dress", "x", "y", 0, {}]',
    '["dress", "x", 493, 1e400, {}]',
    '["dress", "x", 493, 0, []]',
    '["dress", "x", 493, 0, {"trusted.x": ""}]',
    '["dress", "x", 493, 0, {"user.overlay.opaque": "eQ=="}]',
    "17",
    "{}",
    "\0",
]


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_a_malformed_journal_is_thrown_away_whatever_is_in_it(layers: Layers, line: str) -> None:
    staging = leave(layers, [["put", "evil", 1]])
    path = kept(layers.lower)[journal.NAME]
    text = path.read_text().splitlines()
    path.write_text("\n".join([text[0], line, *text[1:]]) + "\n")
    assert recover(layers.lower) and not (layers.lower / "evil").exists() and not staging.exists()
    layers.commit()
    assert (layers.lower / "file").exists()


@pytest.mark.parametrize("make", ["a file", "open to others", "a link", "gone"])
def test_what_is_not_staged_as_we_do_it_is_not_used(layers: Layers, tmp_path: Path, make: str) -> None:
    staging = leave(layers, [["put", "evil", 1]])
    if make == "open to others":
        staging.chmod(0o755)
    else:
        staging.rename(tmp_path / "elsewhere")
    if make == "a file":
        staging.touch()
    elif make == "a link":
        staging.symlink_to("elsewhere")
    (told,) = recover(layers.lower).denials
    assert "beside the directory" in told.reason and not (layers.lower / "evil").exists()
    layers.commit()
    assert (layers.lower / "file").exists()


def require(root: Path) -> None:
    fd = os.open(root, os.O_RDONLY)
    try:
        os.close(place.require(fd, str(root), field="Policy.writes", value="commit", remedy="another"))
    finally:
        os.close(fd)


@pytest.mark.needs("root")
def test_a_mount_point_has_no_place_to_stage(layers: Layers) -> None:
    def inside() -> None:
        tmpfs(layers.lower)
        with pytest.raises(PolicyError, match=f"the directory above, {layers.lower.parent}, is on another file system"):
            require(layers.lower)

    in_a_namespace(inside)


def test_a_reader_of_the_directory_holds_up_no_commit(layers: Layers) -> None:
    fd = os.open(layers.lower, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    layers.commit()
    os.close(fd)
    assert (layers.lower / "file").exists()


def test_the_lock_is_nobodys_to_read_and_goes_with_the_commit(layers: Layers) -> None:
    fd = os.open(layers.lower, os.O_RDONLY)
    with place.locked(fd):
        assert lock_of(layers).stat().st_mode & 0o7777 == 0o200
    os.close(fd)
    assert not kept(layers.lower)


def test_a_lock_that_is_kept_is_an_error_that_names_who_has_it(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.05)
    with opened(layers.lower) as root:
        kept_there = state.enter(root)
        (path := Path(kept_there.path(lock.NAME))).touch(0o200)
        kept_there.close()
    fd = os.open(path, os.O_WRONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(SetupError, match=f"{path}.*process {os.getpid()} has held the lock"):
        layers.commit()
    os.close(fd)
    layers.commit()
    assert (layers.lower / "file").exists()


def test_a_lease_on_a_file_that_has_to_be_read_is_an_error(layers: Layers) -> None:
    """A gitfile that could not be read is not one that is not there."""
    layers.host("store/.keep")
    gitfile = layers.host("repository/.git", "gitdir: ../store/deep.git\n")
    layers.write("store/deep.git/config", "evil")
    ready, release = os.pipe(), os.pipe()

    def holder() -> None:
        fd = os.open(gitfile, os.O_RDONLY)
        fcntl.fcntl(fd, 10, 63)  # SIGIO becomes a signal that does nothing
        import signal

        signal.signal(signal.SIGIO, signal.SIG_IGN)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        os.write(ready[1], b"x")
        os.close(release[1])
        os.read(release[0], 1)

    pid = scope.child(holder)
    os.read(ready[0], 1)
    try:
        with pytest.raises(SetupError, match="lease"):
            layers.commit()
    finally:
        for fd in (*ready, *release):
            os.close(fd)
        os.waitpid(pid, 0)
    assert not (layers.lower / "store/deep.git/config").exists()
