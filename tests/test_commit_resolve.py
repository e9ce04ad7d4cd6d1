"""Where links, files that name a directory, and look-alikes of a repository lead: to the same refusals."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from overlays import Layers, refused

from sandbox_native.commit import repositories


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    return Layers.beneath(tmp_path)


def names(top: Path) -> set[str]:
    """Of everything in the host's directory."""
    return {str(path.relative_to(top)) for path in top.rglob("*")}


# ---- links, and files that name a directory ----


def test_a_link_called_git_protects_what_it_leads_to(layers: Layers) -> None:
    layers.write("x/hooks/pre-commit", "evil")
    layers.write("x/config", "evil")
    layers.write("x/HEAD", "fine")
    (layers.upper / ".git").symlink_to("x")
    assert set(refused(layers.commit())) == {"x/hooks", "x/config"}
    assert names(layers.lower) == {".git", "x", "x/HEAD"}


def test_a_gitfile_protects_what_it_names(layers: Layers) -> None:
    layers.write(".git", "gitdir: ./deep/../x/y\n")
    (layers.upper / "deep").mkdir()
    layers.write("x/y/hooks/pre-commit", "evil")
    layers.write("x/y/config", "evil")
    assert set(refused(layers.commit())) == {"x/y/hooks", "x/y/config"}


def test_a_chain_of_links_protects_its_end(layers: Layers) -> None:
    (layers.upper / ".git").symlink_to("one")
    (layers.upper / "one").symlink_to("sub/two")
    (layers.upper / "sub").mkdir()
    (layers.upper / "sub" / "two").symlink_to("../three")
    layers.write("three/hooks/pre-commit", "evil")
    assert set(refused(layers.commit())) == {"three/hooks"}


def test_a_commondir_protects_what_it_names(layers: Layers) -> None:
    """Of the host's own worktree."""
    layers.host("tree/.git", "gitdir: ../main/worktrees/tree\n")
    layers.host("main/worktrees/tree/commondir", "../..\n")
    layers.write("main/hooks/post-checkout", "evil")
    layers.write("main/config", "evil")
    assert set(refused(layers.commit())) == {"main/hooks", "main/config"}


def test_links_for_other_protected_names_are_followed_too(layers: Layers) -> None:
    (layers.upper / ".config").symlink_to("conf")
    layers.write("conf/fish/config.fish", "evil")
    layers.write("conf/fish/other", "fine")
    assert set(refused(layers.commit())) == {"conf/fish/config.fish"}
    assert (layers.lower / ".config" / "fish" / "other").exists()


def test_a_link_of_the_hosts_protects_its_end(layers: Layers) -> None:
    layers.host("dotfiles/bashrc", "mine")
    (layers.lower / ".bashrc").symlink_to("dotfiles/bashrc")
    layers.write("dotfiles/bashrc", "evil")
    assert refused(layers.commit()) == {"dotfiles/bashrc": "a protected name: .bashrc"}
    assert (layers.lower / ".bashrc").read_text() == "mine"


def test_a_link_of_the_hosts_on_the_way_stays(layers: Layers) -> None:
    layers.host("conf/fish/config.fish", "mine")
    (layers.lower / ".config").symlink_to("conf")
    (layers.upper / ".config").symlink_to("other")
    assert set(refused(layers.commit())) == {".config"}
    assert (layers.lower / ".config" / "fish" / "config.fish").read_text() == "mine"


@pytest.mark.parametrize("make", ["link", "gitfile"])
def test_a_link_does_not_make_a_protected_name_of_what_is_there(layers: Layers, make: str) -> None:
    """What an earlier run was allowed to leave is not led to by a later one."""
    layers.host("x/hooks/pre-commit", "from before")
    layers.write("x/HEAD", "fine")
    if make == "link":
        (layers.upper / ".git").symlink_to("x")
    else:
        layers.write(".git", "gitdir: x")
    assert refused(layers.commit()) == {".git": "it would make .git/hooks of x/hooks"}
    assert names(layers.lower) == {"x", "x/HEAD", "x/hooks", "x/hooks/pre-commit"}


def test_a_later_link_in_a_chain_does_not_either(layers: Layers) -> None:
    (layers.lower / ".git").symlink_to("y")
    layers.host("x/config", "from before")
    (layers.upper / "y").symlink_to("x")
    assert refused(layers.commit()) == {"y": "it would make .git/config of x/config"}


def test_links_that_come_to_light_one_by_one_end_all_links(layers: Layers) -> None:
    """Each refusal shows the host's own link there again, and that leads to the guest's next."""
    layers.host("x/config", "from before")
    (layers.lower / ".git").symlink_to("a0")
    for number in range(30):
        (layers.lower / f"a{number}").symlink_to(f"a{number + 1}")
        (layers.upper / f"a{number}").symlink_to("x")
    (layers.upper / "unrelated").symlink_to("y")
    assert set(refused(layers.commit())) == {"unrelated", *(f"a{number}" for number in range(30))}


@pytest.mark.parametrize("text", ["/proc/self/cwd/x", "/etc", "../x", "x/../../y", "loop"])
def test_a_link_that_leads_out_is_refused(layers: Layers, text: str) -> None:
    (layers.upper / ".git").symlink_to(text)
    (layers.upper / "loop").symlink_to("loop")
    layers.write("x/hooks/pre-commit", "1")
    found = refused(layers.commit())
    assert found[".git"] == "it leads out of the directory that is committed to"
    assert not os.path.lexists(layers.lower / ".git")


@pytest.mark.parametrize("text", ["gitdir: /proc/self/cwd/x", "gitdir: ../x\n", "gitdir: " + "./" * 3000 + "x"])
def test_a_gitfile_that_leads_out_or_cannot_be_followed_is_refused(layers: Layers, text: str) -> None:
    layers.write(".git", text)
    layers.write("x/hooks/pre-commit", "1")
    assert ".git" in refused(layers.commit()) and not (layers.lower / ".git").exists()


def test_links_in_the_middle_that_lead_out_go_with_the_first(layers: Layers) -> None:
    (layers.upper / ".git").symlink_to("one")
    (layers.upper / "one").symlink_to("/proc/self/cwd/two")
    layers.write("two/hooks/pre-commit", "1")
    assert {".git", "one"} <= set(refused(layers.commit()))


def test_other_links_are_the_guests_own_affair(layers: Layers) -> None:
    (layers.upper / "passwd").symlink_to("/etc/passwd")
    (layers.upper / "up").symlink_to("../..")
    assert refused(layers.commit()) == {} and os.readlink(layers.lower / "passwd") == "/etc/passwd"


# ---- directories that look like a repository ----


def test_a_directory_that_looks_like_a_repository_is_one(layers: Layers) -> None:
    for name in ("HEAD", "objects/x", "refs/x", "config", "hooks/post-update", "description"):
        layers.write(f"bare/{name}", "1")
    assert set(refused(layers.commit())) == {"bare/config", "bare/hooks"}


@pytest.mark.parametrize("top", ["x.git", "a/b/c/d/x.git"])
@pytest.mark.parametrize("part", ["HEAD", "objects", "refs"])
def test_what_git_knows_a_repository_by_is_not_removed(layers: Layers, top: str, part: str) -> None:
    """Nothing of it would be protected in the next run."""
    for name in ("HEAD", "objects/x", "refs/x"):
        layers.host(f"{top}/{name}")
    layers.remove(f"{top}/{part}")
    assert set(refused(layers.commit())) == {f"{top}/{part}"}
    assert (layers.lower / top / part).exists()


def test_a_repository_whose_head_is_gone_is_one_still(layers: Layers) -> None:
    for name in ("objects/x", "refs/x"):
        layers.host(f"a/b/c/d/x.git/{name}")
    layers.write("a/b/c/d/x.git/hooks/post-update", "evil")
    assert set(refused(layers.commit())) == {"a/b/c/d/x.git/hooks"}


def test_a_directory_with_a_config_does_not_become_one(layers: Layers) -> None:
    layers.host("project/config", "from before")
    for name in ("HEAD", "objects/x", "refs/x"):
        layers.write(f"project/{name}", "1")
    found = refused(layers.commit())
    assert set(found) == {"project/HEAD", "project/objects", "project/refs"}
    assert "project/config" in found["project/HEAD"]


def test_the_repository_of_a_submodule_is_one(layers: Layers) -> None:
    layers.host("sub/.git", "gitdir: ../.git/modules/sub\n")
    layers.host(".git/HEAD", "ref: x\n")
    layers.write(".git/modules/sub/hooks/post-checkout", "evil")
    layers.write(".git/modules/sub/config", "evil")
    layers.write(".git/modules/sub/HEAD", "fine")
    assert set(refused(layers.commit())) == {".git/modules/sub/config", ".git/modules/sub/hooks"}


def test_too_many_repositories_are_refused(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repositories, "MOST", 3)
    for number in range(5):
        layers.write(f"{number}/.git/hooks/pre-commit", "evil")
        layers.write(f"{number}/.git/HEAD", "fine")
    layers.commit()
    assert not list(layers.lower.rglob("pre-commit")) and len(list(layers.lower.rglob("HEAD"))) == 3
