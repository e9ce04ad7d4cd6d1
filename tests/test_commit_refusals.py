"""What a commit refuses, however a guest comes to a protected name; and that all the rest is committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from overlays import Layers, paths, refused

from sandbox_native import Policy
from sandbox_native.commit import repositories
from sandbox_native.mandatory import NAMES


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    return Layers.beneath(tmp_path)


def names(top: Path) -> set[str]:
    """Of everything in the host's directory."""
    return {str(path.relative_to(top)) for path in top.rglob("*")}


@pytest.mark.parametrize("name", NAMES)
def test_every_mandatory_name_is_refused_at_the_top_and_in_a_new_repository(layers: Layers, name: str) -> None:
    layers.write(name, "evil")
    layers.write(f"sub/{name}", "evil")
    layers.write("sub/.git/HEAD", "ref: refs/heads/main\n")
    layers.write("kept", "1")
    found = layers.commit()
    assert refused(found) == {name: "a protected name", f"sub/{name}": "a protected name"}
    assert not (layers.lower / name).exists() and not (layers.lower / "sub" / name).exists()
    assert (layers.lower / "kept").exists() and (layers.lower / "sub/.git/HEAD").exists()


def test_what_lies_beneath_a_protected_name_counts_once(layers: Layers) -> None:
    for name in ("pre-commit", "post-checkout"):
        layers.write(f".git/hooks/{name}", "evil")
    (denial,) = layers.commit().denials()
    assert (denial.kind, denial.name, denial.count, denial.allow) == ("commit", "/workspace/.git/hooks", 3, None)


def test_existing_repositories_of_the_host_are_protected_at_any_depth(layers: Layers) -> None:
    layers.host("a/b/c/d/e/.git/HEAD", "ref: x\n")
    layers.write("a/b/c/d/e/.git/config", "evil")
    layers.write("a/b/c/d/e/.vscode/tasks.json", "evil")
    layers.write("a/b/c/d/e/.git/description", "fine")
    assert set(refused(layers.commit())) == {"a/b/c/d/e/.git/config", "a/b/c/d/e/.vscode"}


def test_names_that_only_look_like_it_are_committed(layers: Layers) -> None:
    for name in ("hooks/pre-commit", "config", "sub/.vscode/x", "sub/.bashrc", ".gitignore", ".git/hooks2", "x.git/config"):
        layers.write(name, "1")
    found = layers.commit()
    assert refused(found) == {} and (layers.lower / "sub" / ".vscode" / "x").exists()


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


# ---- removals ----


@pytest.mark.parametrize("removed", [".git/hooks", ".git", ".bashrc"])
def test_a_protected_name_and_what_holds_it_stays(layers: Layers, removed: str) -> None:
    layers.host(".git/hooks/pre-commit", "mine")
    layers.host(".bashrc", "mine")
    layers.remove(removed)
    found = layers.commit()
    assert set(refused(found)) == {removed} and paths(found)["deleted"] == []
    assert (layers.lower / ".git/hooks/pre-commit").read_text() == (layers.lower / ".bashrc").read_text() == "mine"


def test_a_directory_with_a_repository_deep_in_it_stays(layers: Layers) -> None:
    layers.host("vendor/a/b/c/d/.git/config", "mine")
    layers.remove("vendor")
    assert refused(layers.commit()) == {"vendor": "it holds the protected vendor/a/b/c/d/.git/config"}


def test_what_holds_no_protected_file_may_go(layers: Layers) -> None:
    layers.host("sub/.git/HEAD", "ref: x\n")
    layers.host(".config/other", "1")
    layers.remove("sub")
    layers.remove(".config")
    assert refused(layers.commit()) == {} and names(layers.lower) == set()


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_in_place_of_what_holds_it_is_refused(layers: Layers, kind: str) -> None:
    layers.host(".git/config", "mine")
    if kind == "file":
        layers.write(".git", "gitdir: x")
    else:
        (layers.upper / ".git").symlink_to("x")
    layers.write("x/HEAD", "1")
    assert refused(layers.commit()) == {".git": "it holds the protected .git/config"}
    assert (layers.lower / ".git" / "config").read_text() == "mine"


# ---- what the policy adds ----


def test_the_policys_own_names_are_refused_and_say_which_field(layers: Layers) -> None:
    layers.policy = Policy.strict(deny_write=["Makefile"], protected=["/workspace/data/lock"], hidden=["/workspace/data/secret"])
    for name in ("Makefile", "sub/Makefile", "sub/.git/HEAD", "data/lock/x", "data/secret", "data/free", "other/Makefile"):
        layers.write(name, "1")
    found = layers.commit()
    assert {denial.name.removeprefix("/workspace/"): denial.allow for denial in found.denials()} == {
        "Makefile": "Policy.deny_write",
        "sub/Makefile": "Policy.deny_write",
        "data/lock": "Policy.protected",
        "data/secret": "Policy.hidden",
    }
    assert (layers.lower / "data" / "free").exists() and (layers.lower / "other" / "Makefile").exists()


LOOKALIKES = (
    *(".GIT/config", "sub/.Git/hooks/x", ".git/Hooks/pre-commit", "sub/.git/CONFIG", ".git./config", ".git /config"),
    *("GIT~1/config", ".BashRC", ".vsCode/x", ".Config/fish/config.fish", ".config/Fish/config.fish"),
    *(".g\u200cit/config", ".git/ho\ufeffoks/x"),
)


@pytest.mark.parametrize("name", LOOKALIKES)
def test_what_another_system_takes_for_a_protected_name_is_refused(layers: Layers, name: str) -> None:
    layers.write(name, "evil")
    (reason,) = refused(layers.commit()).values()
    assert reason.startswith("some systems take it for") and not (layers.lower / name).exists()


def test_names_in_other_places_may_look_as_they_like(layers: Layers) -> None:
    for name in ("Config", "sub/.BASHRC", "sub/Hooks/x", "GIT", ".config/fish/Functions/x", ".git/HEAD", ".Other"):
        layers.write(name, "1")
    layers.host(".VSCode/settings.json", "the host's own")
    layers.write(".VSCode/settings.json", "changed")
    assert refused(layers.commit()) == {}


def test_set_id_bits_are_refused(layers: Layers) -> None:
    layers.write("suid", "1", 0o4755)
    layers.write("sgid", "1", 0o2755)
    layers.host("hosts", "1", 0o4755)
    layers.write("hosts", "1", 0o4755)
    assert refused(layers.commit()) == {"suid": "a set-id bit", "sgid": "a set-id bit"}


def test_names_of_our_own_are_refused(layers: Layers) -> None:
    layers.write(".sandbox-native-commit/journal", "evil")
    layers.write("sub/.sandbox-native-quarantine/x", "evil")
    assert len(refused(layers.commit())) == 2 and names(layers.lower) == {"sub"}


def test_many_refusals_are_counted_and_not_listed(layers: Layers) -> None:
    for number in range(300):
        os.mkfifo(layers.upper / f"{number:03}")
    denials = layers.look().denials()
    assert len(denials) == 257 and (denials[-1].name, denials[-1].count) == ("…", 44)
