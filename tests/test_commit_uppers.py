"""Where changes are kept on disk: beside the directory, and gone when nobody wants them any more."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import scope
from hosttrees import kept
from overlays import in_a_namespace, tmpfs

from sandbox_native import PolicyError
from sandbox_native.commit import uppers
from sandbox_native.commit.recovery import recover
from sandbox_native.commit.uppers import Upper


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@contextmanager
def made(root: Path) -> Iterator[Upper]:
    fd = os.open(root, os.O_RDONLY)
    try:
        upper = uppers.make(fd, str(root), (os.geteuid(), os.getegid()))
        try:
            yield upper
        finally:
            upper.close(remove=True)
    finally:
        os.close(fd)


def test_it_lies_beside_the_directory_and_is_nobody_elses(root: Path) -> None:
    with made(root) as upper:
        path = Path(upper.path)
        assert path.parent == root.parent and path.stat().st_mode & 0o7777 == 0o700 and os.listdir(root) == []
        assert (path.stat().st_dev, path.stat().st_ino) == (upper.device, upper.inode)
        (path / "0" / "work").mkdir(parents=True)
        (path / "0" / "work").chmod(0)
    assert os.listdir(root.parent) == ["root"]
    upper.close(remove=True)


@pytest.mark.needs("root")
def test_it_is_the_boxs(root: Path) -> None:
    fd = os.open(root, os.O_RDONLY)
    upper = uppers.make(fd, str(root), (12345, 12346))
    assert (os.stat(upper.path).st_uid, os.stat(upper.path).st_gid) == (12345, 12346)
    upper.close(remove=True)
    os.close(fd)


def test_one_that_a_killed_host_left_is_removed_and_others_stay(root: Path) -> None:
    def host() -> None:
        with made(root) as upper:
            (Path(upper.path) / "file").write_text("1")
            os._exit(0)

    scope.succeeds(host)
    with made(root) as other:
        assert len(os.listdir(root.parent)) == 3
        assert recover(root)
        assert set(os.listdir(root.parent)) == {"root", os.path.basename(other.path)}
        assert not recover(root)
    assert os.listdir(root.parent) == ["root"] and not kept(root)


def test_what_a_guest_left_under_such_a_name_has_no_effect(root: Path) -> None:
    forged = root.parent / f".sandbox-native-upper-{root.stat().st_ino}-1"
    forged.mkdir()
    assert not recover(root)
    with made(root):
        assert not recover(root)
    assert forged.exists()


@pytest.mark.needs("root")
def test_a_mount_point_has_no_room_beside_it(root: Path) -> None:
    def inside() -> None:
        tmpfs(root)
        with pytest.raises(PolicyError, match="on another file system.*on the same mount"), made(root):
            pass

    in_a_namespace(inside)


def test_a_directory_above_that_is_not_the_callers_is_refused(root: Path) -> None:
    def plain() -> None:
        if os.geteuid() == 0:
            os.chdir(root)
            os.setgroups([])
            os.setresgid(12345, 12345, 12345)
            os.setresuid(12345, 12345, 12345)
        fd = os.open(".", os.O_RDONLY)
        with pytest.raises(PolicyError, match="may not be written"):
            uppers.make(fd, str(root), (12345, 12345))

    root.parent.chmod(0o555)
    os.chdir(root)
    scope.succeeds(plain)
    root.parent.chmod(0o755)
