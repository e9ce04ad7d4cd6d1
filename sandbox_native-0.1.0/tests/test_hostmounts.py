"""The mount table: what a path is on, and where else the same file is seen."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import boxes
import pytest

from sandbox_native.hostmounts import Location, Mounts

LINES = """\
21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:5 / /proc rw - proc proc rw
23 21 8:1 /data/my\\040files /srv/my\\040files rw shared:3 - ext4 /dev/sda1 rw
24 21 0:40 / /net rw - fuse.sshfs somebody@somewhere rw
"""


def test_a_line_says_what_is_mounted_where() -> None:
    mounts = Mounts(LINES.splitlines())
    found = {mount.point: (mount.device, mount.root, mount.kind) for mount in mounts._by_id.values()}
    assert found == {
        "/": ("8:1", "/", "ext4"),
        "/proc": ("0:5", "/", "proc"),
        "/srv/my files": ("8:1", "/data/my files", "ext4"),
        "/net": ("0:40", "/", "fuse"),
    }


def test_a_place_holds_what_lies_beneath_it_on_the_same_device() -> None:
    assert Location("8:1", "/a").holds(Location("8:1", "/a/b"))
    assert not Location("8:1", "/a").holds(Location("8:1", "/ab"))
    assert not Location("8:1", "/").holds(Location("8:2", "/a"))


def test_a_descriptor_is_on_the_mount_that_was_walked_through() -> None:
    fd = os.open("/proc/self", os.O_PATH)
    try:
        mount = Mounts.read().of(fd)
    finally:
        os.close(fd)
    assert mount is not None
    assert (mount.kind, mount.point) == ("proc", "/proc")


pytestmark = pytest.mark.kernel


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


@pytest.mark.needs("root")
def test_what_another_mount_covers_is_not_beneath(tmp_path: Path) -> None:
    def work() -> None:
        boxes.own_mounts()
        for name in ("a", "a/inner", "b"):
            (tmp_path / name).mkdir(parents=True)
        mount("-t", "tmpfs", "none", str(tmp_path / "b"))
        mount("-t", "tmpfs", "none", str(tmp_path / "a"))
        (tmp_path / "a" / "inner").mkdir()
        mount("-t", "tmpfs", "none", str(tmp_path / "a" / "inner"))
        assert points() == ["b", "a", "a/inner"]
        mount("-t", "tmpfs", "none", str(tmp_path / "a"))
        assert sorted(points()) == ["a", "b"]

    def points() -> list[str]:
        return [mount.point[len(str(tmp_path)) + 1 :] for mount in Mounts.read().beneath(str(tmp_path))]

    boxes.in_a_host(work)


@pytest.mark.needs("root")
def test_a_file_is_found_at_every_place_where_a_mount_shows_it(tmp_path: Path) -> None:
    def work() -> None:
        boxes.own_mounts()
        (tmp_path / "home" / "keys").mkdir(parents=True)
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "covered").mkdir()
        mount("--bind", str(tmp_path / "home"), str(tmp_path / "elsewhere"))
        mount("--bind", str(tmp_path / "home"), str(tmp_path / "covered"))
        mount("-t", "tmpfs", "none", str(tmp_path / "covered"))
        mounts = Mounts.read()
        assert mounts.other_places(str(tmp_path / "home" / "keys")) == [str(tmp_path / "elsewhere" / "keys")]
        assert mounts.location(str(tmp_path / "home")) == mounts.location(str(tmp_path / "elsewhere"))
        assert mounts.location(str(tmp_path / "nothing")) is None

    boxes.in_a_host(work)
