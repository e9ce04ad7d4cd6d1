"""What is guarded in a writable directory: what exists, what leads there, and where links and git's pointers lead."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import boxes
import pytest
from hosttrees import kinds, make, protection

from sandbox_native.protection import Guard


def test_what_exists_is_read_only_and_every_directory_on_the_way_is_kept(tmp_path: Path) -> None:
    make(tmp_path, ".bashrc", ".git/hooks/", ".git/config", ".config/fish/config.fish", "other/file")
    found = protection(tmp_path)
    assert kinds(found) == {
        ".bashrc": "read-only",
        ".config": "kept",
        ".git": "kept",
        ".config/fish": "kept",
        ".git/config": "read-only",
        ".git/hooks": "read-only",
        ".config/fish/config.fish": "read-only",
    }
    depths = [guard.name.count("/") for guard in found.guards]
    assert depths == sorted(depths), "what lies around others first"
    for guard in found.guards:
        status = (tmp_path / guard.name).lstat()
        assert (guard.device, guard.inode, guard.directory) == (status.st_dev, status.st_ino, (tmp_path / guard.name).is_dir())
    assert ".ssh" in found.absent
    assert ".bashrc" not in found.absent


def test_repositories_in_it_have_the_same_names(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c/.git/hooks/", "a/b/c/.bashrc", "a/b/c/d/.git/hooks/", "a/.bashrc")
    found = protection(tmp_path)
    assert {name for name, kind in kinds(found).items() if kind == "read-only"} == {"a/b/c/.git/hooks", "a/b/c/.bashrc"}
    assert "a/b/c/.npmrc" in found.names


def test_the_policys_own_names_are_added(tmp_path: Path) -> None:
    make(tmp_path, "a/deep/secret", "keys/", "repo/.git/", "repo/keys/", "shown/x")
    found = protection(tmp_path, deny_write=("keys",), protected=("a/deep",), hidden=("shown/x",), roots=("other/root",))
    assert kinds(found) == {
        "a": "kept",
        "a/deep": "read-only",
        "keys": "read-only",
        "repo": "kept",
        "repo/keys": "read-only",
        "shown": "kept",
        "shown/x": "mask",
    }
    assert "shown/x" in found.names - found.denied


def test_what_leads_to_another_root_is_kept(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c/")
    assert kinds(protection(tmp_path, roots=("a/b/c",))) == {"a": "kept", "a/b": "kept"}


def test_what_is_another_roots_has_no_guard_here(tmp_path: Path) -> None:
    make(tmp_path, "a/b/c/", "a/.git/hooks/", "a/b/.bashrc")
    assert kinds(protection(tmp_path, protected=("a/b/.bashrc",), roots=("a", "a/b/c"))) == {}


def test_nothing_beneath_a_guard_needs_one_but_to_be_covered(tmp_path: Path) -> None:
    make(tmp_path, ".vscode/a/secret", ".vscode/b", "dark/.git/hooks/")
    found = protection(tmp_path, protected=(".vscode/b",), hidden=(".vscode/a/secret", "dark"))
    assert kinds(found) == {".vscode": "read-only", "dark": "mask", ".vscode/a/secret": "mask"}


# ---- what cannot be looked at ----


def test_what_the_caller_may_not_look_into_is_read_only_as_a_whole() -> None:
    """Its owner, the guest, could open it again during the run."""

    def work() -> None:
        boxes.become_plain()
        top = Path(f"/tmp/protection-{os.getpid()}")
        make(top, "repo/.git/hooks/", ".git/hooks/", ".git/config")
        (top / "repo").chmod(0)
        (top / ".git").chmod(0o444)
        try:
            assert kinds(protection(top)) == {".git": "read-only", "repo": "read-only"}
            top.chmod(0o444)
            with pytest.raises(PermissionError):
                protection(top)
        finally:
            for path in (top, top / "repo", top / ".git"):
                path.chmod(0o755)
            subprocess.run(["rm", "-r", str(top)], check=True)

    boxes.in_a_host(work)


def test_a_guard_is_made_of_what_was_there(tmp_path: Path) -> None:
    make(tmp_path, ".npmrc")
    status = (tmp_path / ".npmrc").stat()
    assert protection(tmp_path).guards == (Guard(".npmrc", status.st_dev, status.st_ino, True, False, False),)
