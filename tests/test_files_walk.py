"""Collecting: which names a pattern brings back, and that a tree made by somebody hostile hands out nothing else."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sandbox_native import Limits, files, paths


def gather(root: Path, *patterns: str, limits: Limits | None = None) -> files.Collection:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return files.collect(fd, files.parse(paths.patterns(patterns)), limits or Limits())
    finally:
        os.close(fd)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.bin", "d/c.txt", "d/e/f.txt", ".hidden/x.txt"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("patterns", "names"),
    [
        (["a.txt"], ["a.txt"]),
        (["*"], ["a.txt", "b.bin"]),
        (["*.txt"], ["a.txt"]),
        (["d/*"], ["d/c.txt"]),
        (["*/*.txt"], [".hidden/x.txt", "d/c.txt"]),
        (["**"], [".hidden/x.txt", "a.txt", "b.bin", "d/c.txt", "d/e/f.txt"]),
        (["**/*.txt"], [".hidden/x.txt", "a.txt", "d/c.txt", "d/e/f.txt"]),
        (["**/e/**"], ["d/e/f.txt"]),
        (["d/**/f.txt"], ["d/e/f.txt"]),
        (["[ab].*"], ["a.txt", "b.bin"]),
        (["a.txt", "a*", "**/a.txt"], ["a.txt"]),
        (["absent", "absent/*", "a.txt/x", "a.txt/*"], []),
    ],
)
def test_patterns_name_what_paths_says_they_do(tree: Path, patterns: list[str], names: list[str]) -> None:
    found = gather(tree, *patterns)
    assert found.refused == {}
    assert found.files == {name: name.encode() for name in names}
    every = [str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()]
    assert sorted(names) == sorted(name for name in every if any(paths.matches(pattern, name) for pattern in patterns))


def test_only_regular_files_come_back(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "dirlink").symlink_to("/etc")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "dir").mkdir()
    directory = os.open(tmp_path, os.O_RDONLY)  # the whole path may be too long for a socket's name
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{directory}/socket")
        os.close(directory)
        found = gather(tmp_path, "link", "dirlink/hostname", "fifo", "dir", "socket", "**/passwd")
    assert found.files == {}
    assert found.refused == {
        "link": "a link",
        "dirlink": "a link",
        "fifo": "a FIFO",
        "dir": "a directory",
        "socket": "a socket",
    }


@pytest.mark.needs("root")
def test_devices_are_not_opened(tmp_path: Path) -> None:
    os.mknod(tmp_path / "zero", 0o20666, os.makedev(1, 5))
    assert gather(tmp_path, "*").refused == {"zero": "a device"}


def test_bytes_and_files_are_bounded(tmp_path: Path) -> None:
    with (tmp_path / "giant").open("wb") as file:
        file.truncate(1 << 40)
    for number in range(5):
        (tmp_path / f"small{number}").write_bytes(bytes(300))
    found = gather(tmp_path, "*", limits=Limits(collect_bytes=1000, collect_files=2))
    assert sorted(found.files) == ["small0", "small1"]
    assert "collect_bytes" in found.refused["giant"]
    assert all("collect_files" in found.refused[f"small{number}"] for number in (2, 3, 4))
    found = gather(tmp_path, "*", limits=Limits(collect_bytes=1000))
    assert sorted(found.files) == ["small0", "small1", "small2"]
    assert "collect_bytes" in found.refused["small3"]


def test_refusals_are_bounded(tmp_path: Path) -> None:
    for number in range(300):
        os.symlink("x", tmp_path / f"link{number:03}")
    assert len(gather(tmp_path, "*").refused) == 257


def test_a_deep_tree_ends_somewhere(tmp_path: Path) -> None:
    here = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    before = len(os.listdir("/proc/self/fd"))
    refused = gather(tmp_path, "**").refused
    assert list(refused.values()) == ["more than 64 directories deep"]
    assert len(os.listdir("/proc/self/fd")) == before


def test_names_that_are_no_utf_8_come_back(tmp_path: Path) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).write_bytes(b"odd")
    assert gather(tmp_path, "*").files == {os.fsdecode(b"\xff"): b"odd"}
