"""The names that no guest may write."""

from __future__ import annotations

import pytest

from sandbox_native import mandatory

ISSUED = (
    ".bashrc .bash_profile .bash_login .profile .zshrc .zprofile .zshenv .kshrc .config/fish/config.fish .gitconfig .gitmodules "
    ".git/hooks .git/config .vscode .idea .ssh .claude/commands .claude/agents .mcp.json .npmrc .pypirc"
)


def test_every_name_that_was_decided_on_is_denied() -> None:
    assert set(ISSUED.split()) <= set(mandatory.NAMES)


def test_names_are_denied_at_the_top_and_in_each_repository() -> None:
    found = set(mandatory.names(["sub/repo"], ["secrets/key"]))
    for top in ("", "sub/repo/"):
        for name in (*mandatory.NAMES, "secrets/key"):
            assert top + name in found
    assert len(found) == 2 * (len(mandatory.NAMES) + 1)


def test_a_git_directory_of_another_name_has_the_same_that_runs_programs() -> None:
    of_git = {name.removeprefix(".git/") for name in mandatory.NAMES if name.startswith(".git/")}
    assert set(mandatory.of_git("bare.git")) == {f"bare.git/{name}" for name in of_git}
    assert set(mandatory.of_git("")) == of_git


@pytest.mark.parametrize(
    ("path", "denied"),
    [
        ("/home/u/.ssh", "/home/u/.ssh"),
        ("/home/u/.ssh/keys/old", "/home/u/.ssh"),
        ("/w/.git/hooks/pre-commit", "/w/.git/hooks"),
        ("/w/.git", None),
        ("/w/.git/hooksx", None),
        ("/w/x.git/hooks", None),
        ("/w/.config/fish", None),
        ("/w/.config/fish/config.fish", "/w/.config/fish/config.fish"),
        ("/.vscode", "/.vscode"),
        ("/", None),
    ],
)
def test_a_path_is_denied_from_the_first_such_name_on(path: str, denied: str | None) -> None:
    assert mandatory.denied_in(path) == denied


def test_a_root_that_is_the_beginning_of_a_name_has_the_rest_denied() -> None:
    assert set(mandatory.within("/home/u/.claude", ())) == {"commands", "agents"}
    assert list(mandatory.within("/home/u/.config", ())) == ["fish/config.fish"]
    assert list(mandatory.within("/home/u/.config/fish", ())) == ["config.fish"]
    assert list(mandatory.within("/home/u/ws", ["ws/keys", "keys"])) == ["keys"]
    assert list(mandatory.within("/home/u/.claude/other", ())) == []
