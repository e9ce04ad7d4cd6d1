"""What is at a list of names, without following a link."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hosttrees import make, opened

from sandbox_native import snapshots
from sandbox_native.snapshots import DEEPEST, State, UnreadError, look, snapshot, trie


def test_names_share_the_directories_on_their_way() -> None:
    assert trie(["a/b", "a/c/d", "e"]) == {"a": {"b": {}, "c": {"d": {}}}, "e": {}}


def test_each_kind_of_thing_is_told_apart(tmp_path: Path) -> None:
    make(tmp_path, "directory/", "file")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "fifo")
    with opened(tmp_path) as fd:
        found = {name: look(fd, name) for name in ("directory", "file", "link", "fifo", "nothing", "file/x", "n" * 300)}
    status = (tmp_path / "file").stat()
    assert found["file"] == State("file", status.st_dev, status.st_ino)
    assert {name: state.kind for name, state in found.items() if state} == {
        "directory": "directory",
        "file": "file",
        "link": "link",
        "fifo": "other",
    }
    assert found["link"] is not None and found["link"].text == "file"


def test_a_snapshot_follows_no_link(tmp_path: Path) -> None:
    make(tmp_path, "real/.git/hooks/")
    (tmp_path / "link").symlink_to("real")
    with opened(tmp_path) as fd:
        found, shut = snapshot(fd, ["link/.git/hooks", "real/.git/hooks"])
    assert sorted(found) == ["link", "real", "real/.git", "real/.git/hooks"]
    assert not shut


@pytest.mark.parametrize("name", ["..", "a/../b", "/a", "a//b", "", ".", "a/.", "a/", "a\0b"])
def test_a_name_that_does_not_lead_downwards_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="does not lie beneath"):
        trie(["fine", name])


def test_too_deep_and_too_many_are_errors_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    trie(["/".join("a" * DEEPEST)])
    with pytest.raises(UnreadError, match="directories deep"):
        trie(["/".join("a" * (DEEPEST + 1))])
    monkeypatch.setattr(snapshots, "MOST", 10)
    trie(f"a/{number}" for number in range(9))
    with pytest.raises(UnreadError, match="more than 10 names"):
        trie(f"a/{number}" for number in range(10))


def test_a_deep_name_takes_few_descriptors(tmp_path: Path) -> None:
    names = ["/".join("a" * DEEPEST), "/".join("a" * 30) + "/b/c"]
    make(tmp_path, *names)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 15, limits[1]))
    try:
        with opened(tmp_path) as fd:
            found, _ = snapshot(fd, names)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert set(names) < found.keys() and len(found) == DEEPEST + 2
