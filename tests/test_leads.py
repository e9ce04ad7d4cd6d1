"""Where links and git's own pointers lead, and that it is guarded there."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hosttrees import git, kinds, make, protection

from sandbox_native.snapshots import UnreadError


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


def test_what_a_worktree_elsewhere_relies_on_is_guarded(tmp_path: Path) -> None:
    git("init", "-q", tmp_path / "main")
    git("-C", tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", tmp_path / "main", "worktree", "add", "-q", tmp_path / "tree")
    found = kinds(protection(tmp_path / "main"))
    assert found[".git/worktrees/tree/commondir"] == "read-only"
    assert found[".git/worktrees/tree"] == "kept"


def test_a_worktree_by_itself_has_its_pointer_guarded(tmp_path: Path) -> None:
    git("init", "-q", tmp_path / "main")
    git("-C", tmp_path / "main", "commit", "-q", "--allow-empty", "-m", "x")
    git("-C", tmp_path / "main", "worktree", "add", "-q", tmp_path / "tree")
    found = protection(tmp_path / "tree")
    assert kinds(found) == {".git": "read-only"}


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


@pytest.mark.parametrize("depth", [57, 61, 2000])
def test_what_leads_too_deep_is_an_error_of_ours(tmp_path: Path, depth: int) -> None:
    """A descriptor for each level would be more than there are, and each level would be a mount."""
    make(tmp_path, f"x/{'a/' * min(depth, 61)}g/config")
    (tmp_path / "x/.git").write_text("gitdir: " + "a/" * depth + "g\n")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, limits[1]))
    try:
        if depth < 60:
            assert f"x/{'a/' * depth}g/config" in protection(tmp_path).names
        else:
            with pytest.raises(UnreadError, match="x/.git.*leads more than"):
                protection(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_a_bare_repository_is_guarded(tmp_path: Path) -> None:
    git("init", "-q", "--bare", tmp_path / "x.git")
    found = kinds(protection(tmp_path))
    assert {name: kind for name, kind in found.items() if name.startswith("x.git")} == {
        "x.git": "kept",
        "x.git/config": "read-only",
        "x.git/hooks": "read-only",
        "x.git/objects": "kept",
        "x.git/refs": "kept",
    }


def test_a_link_to_a_repository_is_followed(tmp_path: Path) -> None:
    make(tmp_path, "store/hooks/", "store/config")
    (tmp_path / ".git").symlink_to("store")
    found = protection(tmp_path)
    assert kinds(found) == {"store": "kept", "store/config": "read-only", "store/hooks": "read-only"}
    assert found.links == (".git",)


def test_each_link_that_is_passed_is_remembered(tmp_path: Path) -> None:
    make(tmp_path, "v1/bashrc", "d/v/code/settings")
    (tmp_path / "cur").symlink_to("v1")
    (tmp_path / ".bashrc").symlink_to("cur/bashrc")
    (tmp_path / "d/now").symlink_to("v")
    (tmp_path / ".vscode").symlink_to("d/now/../now/code")
    found = protection(tmp_path)
    assert found.links == (".bashrc", ".vscode", "cur", "d/now")
    assert found.passed == {"cur", "d/now"}
    assert kinds(found) == {
        "v1": "kept",
        "v1/bashrc": "read-only",
        "d": "kept",
        "d/v": "kept",
        "d/v/code": "read-only",
    }
