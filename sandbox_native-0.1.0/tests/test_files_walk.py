"""Collecting: which names a pattern brings back, and that a tree made by somebody hostile hands out nothing else."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native import Limits, files, paths


def gather(root: Path, *patterns: str, limits: Limits | None = None) -> files.Collection:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return files.collect(fd, files.parse(paths.patterns(patterns)), limits or Limits())
    finally:
        os.close(fd)


def matches(pattern: str, name: str) -> bool:
    """Whether the walk would take a file of that name."""
    states = {(parts, 0) for parts in files.parse([pattern]).parsed}
    *above, last = name.split("/")
    for directory in above:
        states, _, _ = files._advance(states, directory)
    return files._advance(states, last)[1]


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("a", "a", True),
        ("a", "A", False),
        ("a", "a/b", False),
        ("a/b", "b", False),
        ("*", "a", True),
        ("*", ".a", True),
        ("*", "a/b", False),
        ("*.txt", "x.txt", True),
        ("*.txt", "d/x.txt", False),
        ("d/*.txt", "d/x.txt", True),
        ("?", "ab", False),
        ("[ab]", "b", True),
        ("[!ab]", "b", False),
        ("[", "[", True),
        ("**", "a", True),
        ("**", "a/b/c", True),
        ("a/**", "a", False),
        ("a/**", "a/b", True),
        ("a/**", "a/b/c", True),
        ("a/**", "b/c", False),
        ("**/c", "c", True),
        ("**/c", "a/b/c", True),
        ("**/c", "a/b/d", False),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c", True),
        ("a/**/**/c", "a/c", True),
        ("a/**/c/*", "a/c/c/d", True),
        ("a/**/c/*", "a/c/c", True),
        ("a/**/c", "x/a/c", False),
    ],
)
def test_what_a_pattern_means(pattern: str, name: str, expected: bool) -> None:
    assert matches(pattern, name) is expected


def test_many_stars_against_a_deep_name_take_no_time_to_speak_of() -> None:
    # Exponential in the number of ** for a matcher that tries each in turn.
    assert not matches("**/a/" * 30 + "b", "/".join(["a"] * 200))


@given(st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=6), st.data())
def test_a_name_with_parts_replaced_by_stars_still_matches(parts: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(parts) - 1))
    end = data.draw(st.integers(start + 1, len(parts)))
    assert matches("/".join([*parts[:start], "**", *parts[end:]]), "/".join(parts))
    assert matches("/".join(["*"] * len(parts)), "/".join(parts))
    assert not matches("/".join(["*"] * (len(parts) + 1)), "/".join(parts))


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
        (["absent/*", "a.txt/*", "absent?"], []),
    ],
)
def test_what_matches_comes_back(tree: Path, patterns: list[str], names: list[str]) -> None:
    found = gather(tree, *patterns)
    assert found.refused == {}
    assert found.files == {name: name.encode() for name in names}


def test_a_name_that_is_spelt_out_is_never_passed_over(tree: Path) -> None:
    (tree / "link").symlink_to("d")
    found = gather(tree, "a.txt", "absent", "a.txt/x", "d/no", "link/c.txt", "d")
    missing = dict.fromkeys(("absent", "a.txt/x", "d/no"), "no such file")
    assert found.refused == {**missing, "link": "a link", "d": "a directory: use d/**"}
    assert found.files == {"a.txt": b"a.txt"}


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
        "dir": "a directory: use dir/**",
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
