"""What a commit refuses, however a guest comes to a protected name; and that all the rest is committed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from overlays import Layers, paths, refused

from sandbox_native import Policy
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


FOR_WINDOWS = [
    *(
        ".git::$INDEX_ALLOCATION/hooks/p",
        ".git\\hooks\\x",
        ".bashrc::$DATA",
        "x\\..\\.bashrc",
        "sub/.git:$I30:$INDEX_ALLOCATION/hooks/p",
    ),
    *("sub/a\\.GIT\\config", ".vscode\\tasks.json", "c:.bashrc"),
]


@pytest.mark.parametrize("path", FOR_WINDOWS)
def test_names_that_windows_takes_for_protected_ones_are_refused(tmp_path: Path, path: str) -> None:
    layers = Layers.beneath(tmp_path)
    layers.write(path, "evil")
    layers.write("plain\\name:stream", "1")
    listing = layers.commit()
    assert any(path.startswith(name) and "some systems" in reason for name, reason in refused(listing).items())
    assert not (layers.lower / path).exists() and (layers.lower / "plain\\name:stream").exists()
