"""What is guarded in a writable directory: what exists, what leads there, and where links and git's pointers lead."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boxes
import pytest

from sandbox_native import survey
from sandbox_native.protection import Guard, Protection, Wanted, protect, snapshot
from sandbox_native.survey import Bound


def protection(root: Path, **wanted: Any) -> Protection:
    with opened(root) as fd:
        seen = survey.walk(fd, Bound(names=10_000, seconds=30), deep=False)
        return protect(fd, Wanted(host=str(root), **wanted), seen)


@contextmanager
def opened(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def kinds(found: Protection) -> dict[str, str]:
    return {guard.name: "mask" if guard.mask else "read-only" if guard.read_only else "kept" for guard in found.guards}


def make(root: Path, *paths: str) -> None:
    """A name with a slash at its end is a directory."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            (root / path).write_text("was here")


def git(*words: str | Path) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *map(str, words)], check=True, capture_output=True)


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


def test_nothing_beneath_a_guard_needs_one_but_to_be_covered(tmp_path: Path) -> None:
    make(tmp_path, ".vscode/a/secret", ".vscode/b", "dark/.git/hooks/")
    found = protection(tmp_path, protected=(".vscode/b",), hidden=(".vscode/a/secret", "dark"))
    assert kinds(found) == {".vscode": "read-only", "dark": "mask", ".vscode/a/secret": "mask"}


# ---- links and pointers ----


def test_what_a_link_leads_to_is_guarded_and_the_link_remembered(tmp_path: Path) -> None:
    make(tmp_path, "dotfiles/bashrc", "code/settings", "real/fish/config.fish")
    (tmp_path / ".bashrc").symlink_to("dotfiles/../dotfiles/bashrc")
    (tmp_path / ".vscode").symlink_to(tmp_path / "code")
    (tmp_path / ".config").symlink_to("real")
    found = protection(tmp_path)
    assert kinds(found) == {
        "code": "read-only",
        "dotfiles": "kept",
        "dotfiles/bashrc": "read-only",
        "real": "kept",
        "real/fish": "kept",
        "real/fish/config.fish": "read-only",
    }
    assert found.links == (".bashrc", ".config", ".vscode")
    assert found.before[".vscode"].text == str(tmp_path / "code")


def test_links_that_lead_out_or_round_in_circles_lead_to_no_guard(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "out").mkdir()
    texts = {".ssh": "../out", ".vscode": "/etc", ".idea": ".idea", ".npmrc": "nowhere/at/all", ".kshrc": ".."}
    for name, text in texts.items():
        (tmp_path / "w" / name).symlink_to(text)
    found = protection(tmp_path / "w")
    assert kinds(found) == {}
    assert {str(tmp_path / "out"), "/etc", str(tmp_path)} <= found.outside
    assert "nowhere/at/all" in found.absent


def test_a_worktrees_pointer_and_where_it_leads_are_guarded(tmp_path: Path) -> None:
    git("init", "-q", tmp_path / "main")
    git("-C", tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", tmp_path / "main", "worktree", "add", "-q", tmp_path / "tree")
    found = kinds(protection(tmp_path))
    for name in ("tree/.git", "main/.git/worktrees/tree/commondir", "main/.git/config", "main/.git/hooks"):
        assert found[name] == "read-only"
    for name in ("tree", "main", "main/.git", "main/.git/worktrees", "main/.git/worktrees/tree"):
        assert found[name] == "kept"


def test_a_worktree_by_itself_names_where_its_repository_is(tmp_path: Path) -> None:
    git("init", "-q", tmp_path / "main")
    git("-C", tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", tmp_path / "main", "worktree", "add", "-q", tmp_path / "tree")
    found = protection(tmp_path / "tree")
    assert kinds(found) == {".git": "read-only"}
    assert str(tmp_path / "main" / ".git" / "worktrees" / "tree") in found.outside


def test_a_submodule_is_guarded_where_its_pointer_leads(tmp_path: Path) -> None:
    make(tmp_path, "lib/.git", ".git/modules/lib/hooks/", ".git/modules/lib/config")
    (tmp_path / "lib/.git").write_text("gitdir: ../.git/modules/lib\r\n")
    found = kinds(protection(tmp_path))
    assert {"lib/.git", ".git/modules/lib/hooks", ".git/modules/lib/config"} <= found.keys()
    assert found["lib/.git"] == "read-only"


@pytest.mark.parametrize("text", [b"", b"gitdir: \0", b"nothing of the kind", b"gitdir: " + b"x/" * 4000])
def test_a_pointer_that_says_nothing_is_only_guarded_itself(tmp_path: Path, text: bytes) -> None:
    (tmp_path / ".git").write_bytes(text)
    assert kinds(protection(tmp_path)) == {".git": "read-only"}


def test_a_bare_repository_is_guarded(tmp_path: Path) -> None:
    git("init", "-q", "--bare", tmp_path / "x.git")
    found = kinds(protection(tmp_path))
    assert (found["x.git/hooks"], found["x.git/config"], found["x.git"]) == ("read-only", "read-only", "kept")


def test_a_link_to_a_repository_is_followed(tmp_path: Path) -> None:
    make(tmp_path, "store/hooks/", "store/config")
    (tmp_path / ".git").symlink_to("store")
    found = protection(tmp_path)
    assert kinds(found) == {"store": "kept", "store/config": "read-only", "store/hooks": "read-only"}
    assert found.links == (".git",)


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


def test_a_snapshot_follows_no_link(tmp_path: Path) -> None:
    make(tmp_path, "real/.git/hooks/")
    (tmp_path / "link").symlink_to("real")
    with opened(tmp_path) as fd:
        found, shut = snapshot(fd, ["link/.git/hooks", "real/.git/hooks"])
    assert sorted(found) == ["link", "real", "real/.git", "real/.git/hooks"]
    assert not shut
