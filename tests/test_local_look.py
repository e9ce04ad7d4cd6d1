"""What explain asks the host of paths that a guest chose."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_native.backends.denials import LocalLook
from sandbox_native.hostmounts import Mounts


def test_kinds_are_told_behind_links(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d/file").write_text("")
    (tmp_path / "link").symlink_to("d/../d")
    (tmp_path / "round").symlink_to("round")
    os.mkfifo(tmp_path / "fifo")
    look = LocalLook()
    kinds = {"d": "directory", "d/file": "file", "link": "directory", "link/file": "file", "fifo": "other"}
    nothing = dict.fromkeys(("round", "none", "d/\0"))
    for name, kind in {**kinds, **nothing}.items():
        assert look.kind(f"{tmp_path}/{name}") == kind


@pytest.mark.parametrize("kind", ["autofs", "nfs4", "fuse.sshfs"])
def test_nothing_is_asked_beneath_a_mount_that_may_wait(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "net/file").write_text("")
    (tmp_path / "link").symlink_to("net/file")
    assert LocalLook().kind(f"{tmp_path}/link") == "file"
    lines = [f"9 1 0:1 / / rw - {kind} none rw", f"10 9 0:2 / {tmp_path}/net rw - {kind} none rw"]
    monkeypatch.setattr(Mounts, "read", lambda: Mounts(lines))
    look = LocalLook()
    assert [look.kind(f"{tmp_path}/{name}") for name in ("net", "net/file", "link", "")] == [None, None, None, "directory"]
