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

from sandbox_native.descent import WAY, Descent

DEEPEST: Final = 64
"""Components of a name that is looked for. More than anybody has: the directories on its way become mount points."""

_GONE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)

MOST: Final = 30_000
"""Names, with the directories on their way, that are looked for in one root: what that costs comes before each run."""

_NO_NAMES: Final = frozenset(("", ".", ".."))
_SHOWN: Final = 100

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


def is_name(part: str) -> bool:
    """Whether it is a component of a path that leads downwards."""
    return part not in _NO_NAMES and "/" not in part and "\0" not in part


def shortened(path: str) -> str:
    """For a message: a guest may have chosen it."""
    return path if len(path) <= _SHOWN else f"{path[:_SHOWN]}..."


def trie(names: Iterable[str]) -> Trie:
    """Names by their components, so that each directory on the way is opened once. ValueError for what does not lead downwards,
    UnreadError for what lies too deep, and for too many."""
    top: Trie = {}
    count = 0
    for name in names:
        at, parts = top, name.split("/")
        if len(parts) > DEEPEST:
            raise UnreadError(shortened(name), f"it lies more than {DEEPEST} directories deep")
        for part in parts:
            if (beneath := at.get(part)) is None:
                if not is_name(part):
                    raise ValueError(f"{name!r} does not lie beneath a directory")
                beneath = at[part] = {}
                count += 1
            at = beneath
        if count > MOST:
            raise UnreadError(shortened(name), f"with it more than {MOST} names would have to be looked for")
    return top


def snapshot(root: int, names: Iterable[str]) -> tuple[dict[str, State], dict[str, State]]:
    """What is there of `names` and of the directories that lead to them; and those of them that could not be entered."""
    found: dict[str, State] = {}
    shut: dict[str, State] = {}
    with Descent(root, WAY) as place:
        levels = [waiting(trie(names))]
        while levels:
            if not levels[-1]:
                levels.pop()
                if levels:
                    place.up()
                continue
            name, beneath = levels[-1].pop()
            if (further := _entry(place, name, beneath, found, shut)) is None:
                levels[-1].clear()
            elif further:
                levels.append(waiting(further))
    return found, shut


def waiting(wanted: Trie) -> list[tuple[str, Trie]]:
    """What there is to do in a directory, the first last."""
    return list(reversed(wanted.items()))


def _entry(place: Descent, name: str, beneath: Trie, found: dict[str, State], shut: dict[str, State]) -> Trie | None:
    """What is wanted beneath, with `place` in that directory; empty: it stays where it is. None: it may not be looked into."""
    path = place.path(name)
    try:
        state = look(place.fd, name)
    except PermissionError:
        above = path.rpartition("/")[0]
        if not above:
            raise
        shut[above] = found[above]
        return None
    if state is None:
        return {}
    found[path] = state
    if not beneath or state.kind != "directory":
        return {}
    try:
        place.down(name)
    except OSError as error:
        if error.errno in _GONE:
            return {}
        raise
    return beneath


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
