"""A commit as a whole: afterwards the host's directory is what the guest saw, but for what was refused."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from boxes import in_a_host
from overlays import Layers, in_a_namespace, refused, snapshot, tmpfs

from sandbox_native import SetupError, state
from sandbox_native.commit.removal import remove_tree


@pytest.fixture(params=["copied", "moved"])
def layers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Layers]:
    """The upper layer in memory, and on the host directory's own file system."""
    memory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    memory.chmod(0o755)
    made = Layers.beneath(tmp_path)
    if request.param == "copied":
        made.upper = memory / "upper"
        made.upper.mkdir()
    yield made
    for top in (tmp_path / "host", tmp_path / "changes", memory):
        above = os.open(top.parent, os.O_RDONLY)
        remove_tree(above, top.name)
        os.close(above)


def beside(layers: Layers) -> set[str]:
    """What lies in the directory above the host's."""
    return set(os.listdir(layers.lower.parent))


def test_every_kind_of_change_arrives(layers: Layers) -> None:
    for name in ("modified", "deleted", "kept", "dir/kept", "gone/deep/file", "becomes-dir", "becomes-link/file"):
        layers.host(name, "old")
    layers.write("modified", "new", 0o755)
    layers.remove("deleted")
    layers.remove("gone")
    layers.write("new/deep/file", "1", 0o600)
    layers.write("dir/added", "2")
    layers.write("becomes-dir/file", "3")
    (layers.upper / "becomes-link").symlink_to("kept")
    (layers.upper / "dir").chmod(0o750)
    (layers.upper / "empty").mkdir(0o711)
    before = beside(layers)
    layers.commit()
    found = snapshot(layers.lower, times=False)
    assert {name: facts for name, facts in found.items() if name in ("dir", "empty", "becomes-link")} == {
        "dir": ["drwxr-x---"],
        "empty": ["drwx--x--x"],
        "becomes-link": ["lrwxrwxrwx", "kept"],
    }
    contents = {name: facts[0:2] for name, facts in found.items() if str(facts[0]).startswith("-")}  # type: ignore[index]
    assert contents == {
        "modified": ["-rwxr-xr-x", b"new"],
        "kept": ["-rw-r--r--", b"old"],
        "dir/kept": ["-rw-r--r--", b"old"],
        "dir/added": ["-rw-r--r--", b"2"],
        "new/deep/file": ["-rw-------", b"1"],
        "becomes-dir/file": ["-rw-r--r--", b"3"],
    }
    assert beside(layers) == before


def test_times_come_along(layers: Layers) -> None:
    layers.host("dir/file", "old")
    for name in ("dir/file", "new/file"):
        os.utime(layers.write(name, "new"), ns=(1_000_000_001, 2_000_000_002))
    (layers.upper / "link").symlink_to("x")
    os.utime(layers.upper / "link", ns=(3, 4), follow_symlinks=False)
    for name in ("dir", "new"):
        os.utime(layers.upper / name, ns=(5_000_000_005, 6_000_000_006))
    layers.commit()
    times = {name: (layers.lower / name).lstat().st_mtime_ns for name in ("dir", "new", "dir/file", "new/file", "link")}
    assert times == {
        "dir": 6_000_000_006,
        "new": 6_000_000_006,
        "dir/file": 2_000_000_002,
        "new/file": 2_000_000_002,
        "link": 4,
    }


def test_what_did_not_change_is_not_touched(layers: Layers) -> None:
    layers.host("file", "same")
    layers.host("dir/file", "same")
    for name in ("file", "dir/file"):
        layers.write(name, "same")
    os.utime(layers.upper / "dir", ns=(1, 1))
    os.mkfifo(layers.upper / "dir" / "refused")
    before = [(path.stat().st_ino, path.stat().st_ctime_ns) for path in sorted(layers.lower.rglob("*"))]
    layers.commit()
    assert [(path.stat().st_ino, path.stat().st_ctime_ns) for path in sorted(layers.lower.rglob("*"))] == before


def test_hard_links_stay_links(layers: Layers) -> None:
    layers.host("sub/other", "x")
    os.link(layers.write("one", "1"), layers.upper / "two")
    (layers.upper / "sub").mkdir()
    os.link(layers.upper / "one", layers.upper / "sub" / "three")
    (layers.upper / "new").mkdir()
    os.link(layers.upper / "one", layers.upper / "new" / "four")
    layers.commit()
    shutil.rmtree(layers.upper)
    inodes = {(layers.lower / name).stat().st_ino for name in ("one", "two", "sub/three", "new/four")}
    assert len(inodes) == 1 and (layers.lower / "one").stat().st_nlink == 4


def test_holes_stay_holes(layers: Layers) -> None:
    with open(layers.upper / "sparse", "wb") as file:
        file.truncate(1 << 40)
        for at in (0, 5 << 30, (1 << 40) - 4096):
            file.seek(at)
            file.write(b"data")
    layers.commit()
    status = (layers.lower / "sparse").stat()
    assert status.st_size == 1 << 40 and status.st_blocks * 512 < 1 << 20
    with open(layers.lower / "sparse", "rb") as file:
        assert [os.pread(file.fileno(), 4, at) for at in (0, 5 << 30, 4096, (1 << 40) - 4096)] == [
            b"data",
            b"data",
            bytes(4),
            b"data",
        ]


def test_attributes_come_along_and_the_kernels_marks_do_not(layers: Layers) -> None:
    layers.host("dir/file", "1")
    os.setxattr(layers.lower / "dir", "user.gone", b"1")
    for path in (layers.write("new", "1"), layers.write("dir/new", "1"), layers.upper / "dir"):
        os.setxattr(path, "user.colour", b"red")
        os.setxattr(path, "user.overlay.origin", b"x")
    layers.commit()
    for name in ("new", "dir/new", "dir"):
        assert os.listxattr(layers.lower / name) == ["user.colour"]


def test_a_file_is_replaced_and_not_written_into(layers: Layers, tmp_path: Path) -> None:
    """A hard link elsewhere, and whoever has it open, keep the old content."""
    os.link(layers.host("file", "old"), tmp_path / "elsewhere")
    layers.write("file", "new")
    layers.commit()
    assert (tmp_path / "elsewhere").read_text() == "old" and (layers.lower / "file").read_text() == "new"


def test_links_of_the_hosts_are_not_followed(layers: Layers, tmp_path: Path) -> None:
    """Where the guest saw a directory, somebody on the host made a link meanwhile."""
    (tmp_path / "outside").mkdir()
    layers.write("dir/file", "1")
    layers.write("file", "1")
    (layers.lower / "dir").symlink_to(tmp_path / "outside")
    (layers.lower / "file").symlink_to(tmp_path / "outside" / "target")
    layers.commit()
    assert os.listdir(tmp_path / "outside") == []
    assert (layers.lower / "dir" / "file").read_text() == "1" and not (layers.lower / "file").is_symlink()


def test_directories_that_their_owner_may_not_write_are_written(layers: Layers) -> None:
    layers.host("shut/file", "old")
    layers.host("gone/deep/file", "old")
    layers.write("shut/file", "new")
    layers.write("new/file", "1")
    layers.remove("gone")
    for path, mode in (
        (layers.upper / "shut", 0o555),
        (layers.upper / "new", 0),
        (layers.lower / "shut", 0o555),
        (layers.lower / "gone" / "deep", 0o555),
        (layers.lower / "gone", 0o555),
    ):
        path.chmod(mode)

    def commit() -> None:
        assert refused(layers.commit()) == {}

    if os.geteuid() == 0:
        commit_as_plain_user(layers, commit)
    else:
        commit()
    assert stat.S_IMODE((layers.lower / "shut").stat().st_mode) == 0o555
    assert stat.S_IMODE((layers.lower / "new").stat().st_mode) == 0
    (layers.lower / "new").chmod(0o700)
    assert (layers.lower / "shut" / "file").read_text() == "new" and (layers.lower / "new" / "file").read_text() == "1"
    assert not (layers.lower / "gone").exists()


def commit_as_plain_user(layers: Layers, commit: Callable[[], None]) -> None:
    top = layers.lower.parent
    for path in (top, *top.rglob("*"), layers.upper, *layers.upper.rglob("*")):
        os.chown(path, 12345, 12345, follow_symlinks=False)
    for path in top.parents:
        if path != Path("/") and not path.stat().st_mode & 0o001:
            path.chmod(path.stat().st_mode | 0o011)

    def plain() -> None:
        os.environ[state.VARIABLE] = str(top / "state")
        os.setgroups([])
        os.setresgid(12345, 12345, 12345)
        os.setresuid(12345, 12345, 12345)
        commit()

    in_a_host(plain)


@pytest.mark.needs("root")
def test_what_the_box_user_owns_becomes_the_callers(layers: Layers) -> None:
    layers.host("dir/file", "1")
    os.chown(layers.lower / "dir", 0, 4321)
    (layers.lower / "dir").chmod(0o2775)
    for path in (layers.write("new/file", "1"), layers.write("dir/sub/file", "1"), layers.write("dir/file", "2")):
        os.chown(path, 0x70000000, 0x70000000)
    (layers.upper / "link").symlink_to("x")
    for path in layers.upper.rglob("*"):
        os.chown(path, 0x70000000, 0x70000000, follow_symlinks=False)
    layers.commit()
    owners = {str(path.relative_to(layers.lower)): (path.lstat().st_uid, path.lstat().st_gid) for path in layers.lower.rglob("*")}
    assert owners == {
        **dict.fromkeys(("new", "new/file", "link"), (0, 0)),
        **dict.fromkeys(("dir", "dir/sub", "dir/sub/file", "dir/file"), (0, 4321)),
    }
    assert [stat.S_IMODE((layers.lower / name).stat().st_mode) for name in ("dir", "dir/sub", "new")] == [0o2755, 0o2755, 0o755]


def test_the_guests_version_wins_over_what_changed_meanwhile(layers: Layers) -> None:
    layers.host("theirs", "after the start")
    layers.host("both", "after the start")
    layers.host("dir-there/file", "after the start")
    layers.write("both", "the guest's")
    layers.write("dir-gone/file", "the guest's")
    layers.write("dir-there", "the guest's")
    layers.remove("gone-already")
    layers.commit()
    assert (layers.lower / "theirs").read_text() == "after the start"
    for name in ("both", "dir-gone/file", "dir-there"):
        assert (layers.lower / name).read_text() == "the guest's"


def test_two_commits_at_once_wait_for_one_another(layers: Layers, tmp_path: Path) -> None:
    other = Layers(layers.lower, tmp_path / "other" / "upper")
    other.upper.mkdir(parents=True)
    for number in range(40):
        layers.write(f"one/{number}", "1")
        other.write(f"two/{number}", "2")
        layers.write(f"both/{number}", "1")
        other.write(f"both/{number}", "2")
    threads = [threading.Thread(target=one.commit) for one in (layers, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(layers.lower.rglob("*"))) == 3 + 120
    assert len({(layers.lower / "both" / str(number)).read_text() for number in range(40)}) == 1


@pytest.mark.needs("root")
def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path) -> None:
    def full() -> None:
        tmpfs(tmp_path / "small")
        layers = Layers(tmp_path / "small" / "host", tmp_path / "upper")
        for path in (layers.lower, layers.upper):
            path.mkdir()
        layers.host("file", "old")
        layers.write("file", "new")
        layers.write("large").write_bytes(bytes(300 << 20))
        before = snapshot(layers.lower)
        with pytest.raises(SetupError, match="make room"):
            layers.commit()
        assert snapshot(layers.lower) == before and beside(layers) == {"host"}
        layers.write("large").write_bytes(bytes(1 << 20))
        layers.commit()
        assert (layers.lower / "file").read_text() == "new"

    in_a_namespace(full)


@pytest.mark.needs("root")
def test_to_a_directory_that_is_a_mount_point_nothing_is_committed(tmp_path: Path) -> None:
    def inside() -> None:
        tmpfs(tmp_path / "mount")
        layers = Layers(tmp_path / "mount", tmp_path / "upper")
        layers.upper.mkdir()
        layers.host("file", "old")
        layers.write("file", "new")
        layers.write("dir/file", "new")
        layers.remove("gone")
        with pytest.raises(SetupError, match="same mount"):
            layers.commit()
        assert (layers.lower / "file").read_text() == "old" and set(snapshot(layers.lower)) == {"file"}
        assert sorted(os.listdir(tmp_path)) == ["mount", "upper"]

    in_a_namespace(inside)
