"""Down and up a tree with few descriptors; and that collecting keeps to them in a tree that somebody hostile made deep."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boxes
import pytest

from sandbox_native import Limits, files
from sandbox_native.descent import Descent


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def held() -> int:
    return len(os.listdir("/proc/self/fd"))


def make(root: int, depth: int) -> None:
    """d/d/d/…, and a file in each."""
    with Descent(root) as place:
        for _ in range(depth):
            os.mkdir("d", dir_fd=place.fd)
            place.down("d")
            os.close(os.open("file", os.O_CREAT, dir_fd=place.fd))


def level(tmp_path: Path, depth: int) -> Path:
    return tmp_path.joinpath(*["d"] * depth)


def test_a_deep_tree_takes_few_descriptors(root: int) -> None:
    before = held()
    make(root, 600)
    with Descent(root) as place:
        seen = [os.fstat(place.fd).st_ino]
        for _ in range(600):
            place.down("d")
            seen.append(os.fstat(place.fd).st_ino)
            assert held() - before <= 8
        assert place.path("x") == "d/" * 600 + "x"
        while len(seen) > 1:
            assert os.fstat(place.fd).st_ino == seen.pop()
            place.up()
            assert held() - before <= 8
        assert (place.fd, place.path("x")) == (root, "x")
    assert held() == before


def test_no_link_is_followed_and_nothing_moves_on_a_failure(root: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    with Descent(root) as place:
        for name in ("link", "absent"):
            with pytest.raises(OSError):
                place.down(name)
            assert (place.fd, place.path("x")) == (root, "x")


def test_the_way_up_from_a_directory_that_was_moved_is_no_way(root: int, tmp_path: Path) -> None:
    make(root, 30)
    before = held()
    with Descent(root) as place:
        for _ in range(30):
            place.down("d")
        level(tmp_path, 10).rename(tmp_path / "elsewhere")
        for _ in range(20):
            place.up()
        with pytest.raises(OSError) as caught:
            place.up()
    assert caught.value.errno == errno.ESTALE
    assert held() == before


@pytest.mark.needs("userns")
def test_a_directory_that_may_not_be_entered_is_left_again(root: int, tmp_path: Path) -> None:
    make(root, 12)
    tmp_path.chmod(0o755)
    level(tmp_path, 12).chmod(0o444)

    def work() -> None:
        boxes.become_plain()
        with Descent(root) as place:
            for _ in range(12):
                place.down("d")
            with pytest.raises(PermissionError):
                os.stat("file", dir_fd=place.fd)
            for _ in range(12):
                place.up()

    try:
        boxes.in_a_host(work)
    finally:
        level(tmp_path, 12).chmod(0o755)


@pytest.mark.needs("userns")
def test_collecting_from_a_deep_tree_needs_few_descriptors(root: int) -> None:
    make(root, 64)

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (60, 60))
        found = files.collect(root, files.parse(["**/file"]), Limits())
        assert (len(found.files), found.refused) == (64, {})

    boxes.in_a_host(work)


def test_collecting_ends_where_a_directory_was_moved_and_says_so(
    root: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(root, 30)
    read: Callable[..., None] = files._Walk._read

    def read_and_move(walk: Any, name: str, path: str, seen: os.stat_result) -> None:
        read(walk, name, path, seen)
        if path.count("/") == 30:
            level(tmp_path, 10).rename(tmp_path / "elsewhere")

    monkeypatch.setattr(files._Walk, "_read", read_and_move)
    found = files.collect(root, files.parse(["**/file"]), Limits())
    assert len(found.files) == 21  # what sorts before "file" was gone into first
    assert list(found.refused) == ["."] and "ended early" in found.refused["."]
