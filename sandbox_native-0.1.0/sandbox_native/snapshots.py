"""What is at a list of names beneath a directory of the host, without following a link. Linux, host process.

Used before a run by protection.py and leads.py, and after it by quarantine.py.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from sandbox_native.mandatory import join

_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)

Trie = dict[str, "Trie"]


@dataclass(frozen=True, slots=True)
class State:
    """What is at one name; `text` of a link."""

    kind: Literal["directory", "file", "link", "other"]
    device: int
    inode: int
    text: str = ""


class UnreadError(Exception):
    """Something that could lead elsewhere cannot be read now, which is not the same as not being there."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path, self.reason = path, reason


def trie(names: Iterable[str]) -> Trie:
    """Names by their components, so that each directory on the way is opened once."""
    top: Trie = {}
    for name in names:
        at = top
        for part in name.split("/"):
            at = at.setdefault(part, {})
    return top


def snapshot(root: int, names: Iterable[str]) -> tuple[dict[str, State], dict[str, State]]:
    """What is there of `names` and of the directories that lead to them; and those of them that could not be entered."""
    found: dict[str, State] = {}
    shut: dict[str, State] = {}
    _look(root, trie(names), "", found, shut)
    return found, shut


def _look(fd: int, wanted: Trie, above: str, found: dict[str, State], shut: dict[str, State]) -> None:
    for name, beneath in wanted.items():
        path = join(above, name)
        try:
            state = look(fd, name)
        except PermissionError:
            if not above:
                raise
            shut[above] = found[above]
            return
        if state is None:
            continue
        found[path] = state
        if beneath and state.kind == "directory":
            try:
                below = os.open(name, _DIRECTORY, dir_fd=fd)
            except OSError as error:
                if error.errno in _GONE:
                    continue
                raise
            try:
                _look(below, beneath, path, found, shut)
            finally:
                os.close(below)


def look(fd: int, name: str) -> State | None:
    """What is called `name` in an open directory; None for nothing. PermissionError where that may not be looked into."""
    try:
        status = os.stat(name, dir_fd=fd, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return State("link", status.st_dev, status.st_ino, os.readlink(name, dir_fd=fd))
    except OSError as error:
        if error.errno in (*_GONE, errno.EINVAL):
            return None
        raise
    kinds: Mapping[int, Literal["directory", "file"]] = {stat.S_IFDIR: "directory", stat.S_IFREG: "file"}
    return State(kinds.get(stat.S_IFMT(status.st_mode), "other"), status.st_dev, status.st_ino)


def look_softly(root: int, path: str) -> State | None:
    """None too where that may not be looked into."""
    try:
        return look(root, path)
    except PermissionError:
        return None
