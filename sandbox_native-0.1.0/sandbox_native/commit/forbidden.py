"""What no step of a journal that was found may change, and nothing that is staged may hold. Host process; asked by apply.py.

A journal is a file like others. A commit of ours refused all this before it wrote one; of somebody else's it is passed over.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from sandbox_native.commit.handles import open_above
from sandbox_native.commit.lookalikes import Trie, of_paths, plain
from sandbox_native.commit.node import SET_ID
from sandbox_native.commit.place import RESERVED
from sandbox_native.commit.protected import Protected
from sandbox_native.commit.tree import walk
from sandbox_native.descent import DIRECTORY, Descent
from sandbox_native.mandatory import GIT, join, of_git

_NAMES: Final = "a protected name"


class Forbidden:
    """Of one host directory."""

    def __init__(self, guarded: Protected) -> None:
        names = [name for name, _ in guarded.names]
        found = [join(top, name) for top in ("", *guarded.tops) for name in names]
        found += (name for directory in guarded.repositories for name in of_git(directory))
        found += (path for path, _ in guarded.paths)
        self._found = tuple(found)
        self._top = of_paths(found)
        self._of_git = tuple(name for name in names if name.startswith(f"{GIT}/"))
        self._anywhere = of_paths(self._of_git)

    def why(self, path: str) -> str:
        """Why nothing may come to a path, or go from it. Empty: it may."""
        parts = [plain(part) for part in path.split("/")]
        if any(part.startswith(RESERVED) for part in parts):
            return "a name that is kept for commits"
        tries = [_follow(self._top, parts), *(_follow(self._anywhere, parts[at:]) for at in range(len(parts)))]
        return _NAMES if any(tries) else ""

    def why_gone(self, path: str, directory: int) -> str:
        """Why what is at a path, whose last part is in `directory`, may not give way: it holds what is protected."""
        name = path.rpartition("/")[2]
        beneath = [one[len(path) + 1 :] for one in self._found if one.startswith(f"{path}/")]
        beneath += (one[len(GIT) + 1 :] for one in self._of_git if name == GIT)
        return "it holds a protected name" if any(_exists(directory, [name, *one.split("/")]) for one in beneath) else ""

    def why_staged(self, slot: str, new: int, path: str) -> str:
        """Why what is in a slot may not come to a path."""
        status = os.stat(slot, dir_fd=new, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            return _of(status)
        if status.st_mode & SET_ID:
            return "a set-id bit"
        root = os.open(slot, DIRECTORY, dir_fd=new)
        try:
            with Descent(root) as place:
                for name, found in walk(place):
                    why = _of(found) or self.why(f"{path}/{place.path(name)}")
                    if why:
                        return why
        finally:
            os.close(root)
        return ""


def _exists(directory: int, names: list[str]) -> bool:
    try:
        above = open_above(directory, names)
    except OSError:
        return False
    try:
        os.stat(names[-1], dir_fd=above, follow_symlinks=False)
    except FileNotFoundError:
        return False
    finally:
        os.close(above)
    return True


def _of(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
        return "a set-id bit" if stat.S_ISREG(status.st_mode) and status.st_mode & SET_ID else ""
    return "" if stat.S_ISLNK(status.st_mode) else "a special file"


def _follow(trie: Trie, parts: list[str]) -> bool:
    """Whether the path ends at or beneath one of the names."""
    for part in parts:
        if part not in trie:
            return False
        trie = trie[part]
        if not trie:
            return True
    return False
