"""What no guest may write, whatever a policy allows: files that the caller's own programs run or trust later. Pure.

protection.py finds them on the disk; commit and quarantine refuse what a guest makes under these names.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

NAMES: Final = (
    *(".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zprofile", ".zshenv", ".kshrc"),
    *(".config/fish/config.fish", ".gitconfig", ".gitmodules", ".git/hooks", ".git/config"),
    # These two lead git to another config and other hooks.
    *(".git/config.worktree", ".git/commondir"),
    *(".vscode", ".idea", ".ssh", ".claude/commands", ".claude/agents", ".mcp.json", ".npmrc", ".pypirc"),
)
"""Relative to the top of every writable root, and of every git repository that lies in it up to `LEVELS` down at the start."""

LEVELS: Final = 3

OURS: Final = ".sandbox-native-"
"""What the host itself makes beside a root, or at its top, begins with this. No guest makes such a name at the top of a root."""

QUARANTINE: Final = f"{OURS}quarantine"
"""A directory beside a root, with what guests made under denied names in it; see quarantine.py."""

GIT: Final = ".git"
_OF_GIT: Final = ("hooks", "config", "config.worktree", "commondir")
KEPT: Final = ("objects", "refs")
"""What git takes a directory for a repository by, with a HEAD. A guest may write in them, and not move them: what has no name of
its own, a bare repository or a submodule's, is known by them in the next run too. (Git replaces HEAD at every checkout.)"""

_PARTS: Final = tuple(tuple(name.split("/")) for name in NAMES)


def names(repositories: Iterable[str], extra: Iterable[str]) -> Iterator[str]:
    """Every name that is denied, relative to a root: at its top and in these repositories. `extra`: `Policy.deny_write`."""
    wanted = (*NAMES, *extra)
    for repository in ("", *repositories):
        for name in wanted:
            yield join(repository, name)


def within(path: str, extra: Iterable[str]) -> Iterator[str]:
    """What is denied in a root whose own path is the beginning of such a name, as in `.claude`: relative to it."""
    parts = path.split("/")
    for name in (*NAMES, *extra):
        wanted = name.split("/")
        for at in range(1, len(wanted)):
            if parts[-at:] == wanted[:at]:
                yield "/".join(wanted[at:])


def of_git(directory: str) -> Iterator[str]:
    """What is denied of a git directory that is not called .git: a bare repository's, a worktree's, a submodule's."""
    for name in _OF_GIT:
        yield join(directory, name)


def kept(directory: str) -> Iterator[str]:
    """What is not moved away from such a git directory."""
    for name in KEPT:
        yield join(directory, name)


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


def denied_in(path: str) -> str | None:
    """The part of an absolute path that no guest may write: up to the end of such a name in it; None where there is none."""
    parts = path.split("/")
    for at in range(1, len(parts)):
        for name in _PARTS:
            if tuple(parts[at : at + len(name)]) == name:
                return "/".join(parts[: at + len(name)])
    return None
