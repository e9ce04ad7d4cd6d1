"""Where a commit is staged and how it is locked, in directories that others change: no guest has a part in it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import scope
from overlays import Layers, in_a_namespace, tmpfs

from sandbox_native import Policy, PolicyError, SetupError
from sandbox_native.commit import lock, place
from sandbox_native.commit.recovery import recover, recover_fd


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    made = Layers.beneath(tmp_path)
    made.write("file", "1")
    return made


def staging_of(layers: Layers) -> Path:
    return layers.lower.parent / f"{place.NAME}-{layers.lower.stat().st_ino}"


def lock_of(layers: Layers) -> Path:
    return layers.lower.parent / f"{place.RESERVED}lock-{layers.lower.stat().st_ino}"


def forge(layers: Layers, steps: list[object], at: Path | None = None) -> Path:
    """A whole journal, as if a commit had left it."""
    staging = at or staging_of(layers)
    (staging / "new").mkdir(parents=True)
    (staging / "old").mkdir()
    staging.chmod(0o700)
    for slot in ("1", "2"):
        (staging / "new" / slot).write_text("evil")
    fd = os.open(layers.lower, os.O_RDONLY)
    head = {"version": 1, "root": place.identity(fd)}
    os.close(fd)
    (staging / "journal").write_text("".join(json.dumps(line) + "\n" for line in (head, *steps, "end")))
    return staging


@pytest.mark.parametrize("name", [place.NAME, "as beside"])
def test_what_a_guest_made_inside_has_no_effect(layers: Layers, name: str) -> None:
    inside = layers.lower / (place.NAME if name == place.NAME else staging_of(layers).name)
    forge(layers, [["put", "evil", 1]], inside)
    assert not recover(layers.lower) and not (layers.lower / "evil").exists()
    layers.commit()
    assert (layers.lower / "file").exists() and (inside / "journal").exists()


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
def test_a_journal_that_somebody_made_up_changes_no_protected_name(layers: Layers, path: str) -> None:
    layers.host(".git/hooks/other", "mine")
    layers.host("sub/.git/HEAD", "mine")
    (layers.lower / "sub/.git/objects").mkdir()
    (layers.lower / "sub/.git/refs").mkdir()
    (layers.lower / "secret").mkdir()
    (layers.lower / ".GIT").mkdir()
    *above, name = path.split("/")
    down, up = [["down", part] for part in above], [["up"] for _ in above]
    staging = forge(layers, [*down, ["put", name, 1], *up, ["put", "fine", 2]])
    policy = Policy.strict(deny_write=["Makefile"], protected=["/workspace/lock"], hidden=["/workspace/secret"])
    fd = os.open(layers.lower, os.O_RDONLY)
    assert recover_fd(fd, policy)
    os.close(fd)
    assert not (layers.lower / path).exists() and not staging.exists() and (layers.lower / "fine").exists()


def test_a_journal_that_somebody_made_up_takes_no_protected_name_away(layers: Layers) -> None:
    layers.host(".git/hooks/other", "mine")
    layers.host(".config/fish/config.fish", "mine")
    layers.host("other", "mine")
    forge(layers, [["drop", ".git", 1], ["put", ".config", 1], ["drop", "other", 2]])
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
    spoil(forge(layers, [["put", "evil", 1], ["put", "fine", 2]]) / "new")
    assert recover(layers.lower)
    assert not os.path.lexists(layers.lower / "evil") and (layers.lower / "fine").exists()


def test_a_mode_from_a_journal_has_no_set_id_bit(layers: Layers) -> None:
    (layers.lower / "dir").mkdir()
    forge(layers, [["dress", "dir", 0o6755, 0, {}]])
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
    staging = forge(layers, [["put", "evil", 1]])
    text = (staging / "journal").read_text().splitlines()
    (staging / "journal").write_text("\n".join([text[0], line, *text[1:]]) + "\n")
    assert recover(layers.lower) and not (layers.lower / "evil").exists() and not staging.exists()
    layers.commit()
    assert (layers.lower / "file").exists()


def _file(staging: Path, name: str) -> None:
    shutil.rmtree(staging / name)
    (staging / name).touch()


def _directory(staging: Path) -> None:
    (staging / "journal").unlink()
    (staging / "journal").mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda staging: _file(staging, "new"),
        lambda staging: _file(staging, "old"),
        _directory,
        lambda staging: (staging / "journal").chmod(0o666),
        lambda staging: os.link(staging / "journal", staging / "second"),
        lambda staging: ((staging / "journal").unlink(), os.mkfifo(staging / "journal")),
        lambda staging: (os.rename(staging / "journal", staging / "x"), os.symlink("x", staging / "journal")),
    ],
)
def test_a_staging_directory_that_no_commit_of_ours_made_is_thrown_away(layers: Layers, spoil: Callable[[Path], object]) -> None:
    staging = forge(layers, [["put", "evil", 1]])
    spoil(staging)
    assert recover(layers.lower) and not (layers.lower / "evil").exists() and not staging.exists()
    layers.commit()
    assert (layers.lower / "file").exists()


@pytest.mark.needs("root")
@pytest.mark.parametrize("make", ["another's", "open to others", "a link"])
def test_a_staging_directory_that_is_not_ours_is_refused(layers: Layers, tmp_path: Path, make: str) -> None:
    theirs = staging_of(layers)
    if make == "a link":
        (tmp_path / "elsewhere").mkdir()
        theirs.symlink_to(tmp_path / "elsewhere")
    else:
        theirs.mkdir()
        os.chown(theirs, 1234 if make == "another's" else 0, 0)
        theirs.chmod(0o700 if make == "another's" else 0o777)
        (theirs / "journal").write_text("evil")
    assert not recover(layers.lower)
    with pytest.raises(SetupError, match=f"{theirs}.*remove it"):
        layers.commit()
    with pytest.raises(PolicyError, match=f"{theirs} is not a directory of the caller's alone.*remove it"):
        require(layers.lower)
    assert not (layers.lower / "file").exists() and os.path.lexists(theirs)


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
    assert not lock_of(layers).exists()


def test_a_lock_that_is_kept_is_an_error_that_names_who_has_it(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.05)
    lock_of(layers).touch(0o200)
    fd = os.open(lock_of(layers), os.O_WRONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(SetupError, match=f"{lock_of(layers)}.*process {os.getpid()} has held the lock"):
        layers.commit()
    os.close(fd)
    layers.commit()
    assert (layers.lower / "file").exists()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink("x", path), lambda path: path.touch(0o666)])
def test_what_has_the_name_of_a_lock_is_named(layers: Layers, make: Callable[[Path], object]) -> None:
    make(lock_of(layers))
    assert not recover(layers.lower)
    with pytest.raises(SetupError, match=f"{lock_of(layers)}.*remove it"):
        layers.commit()


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
