"""What is at a list of names, without following a link."""

from __future__ import annotations

import os
from pathlib import Path

from hosttrees import make, opened

from sandbox_native.snapshots import State, look, snapshot, trie


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
