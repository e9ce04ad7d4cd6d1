"""After a run with direct writes: what the guest made under a denied name goes where no guest sees it. Linux, host process.

Called by the backend as soon as a box is dead, with what protection.py saw before it began. Other boxes may be at work in the
same tree: everything goes by descriptors, no link is followed, and what is moved is whatever has the name at that moment.

Nothing is removed: quarantine_places.py says where it goes.
"""

from __future__ import annotations

import errno
import os
from typing import Final, Literal

from sandbox_native.denials import Denial
from sandbox_native.environment import WORKSPACE
from sandbox_native.mandatory import GIT, OURS, join
from sandbox_native.policy import Policy
from sandbox_native.protection import Protection
from sandbox_native.quarantine_places import Places, allow
from sandbox_native.snapshots import State, Trie, look, trie
from sandbox_native.workspace import Handed

_WAY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_TRIES: Final = 8  # somebody else at work may make it again

_MOVED: Final = "made under a name that no guest may write: moved away when the run ended"
_REPLACED: Final = "replaced from outside of the box while the run lasted, which undid its guard: look at it before you trust it"
_LINK: Final = "a link that the guest changed: it leads where it led before"
_AGAIN: Final = "made again each time that it was moved away, by somebody who is still at work there"


def quarantine(
    root: int, protection: Protection, policy: Policy, *, inside: str = WORKSPACE, handed: Handed | None = None
) -> tuple[Denial, ...]:
    """Of the directory `root`, which stays the caller's and is `inside` to the guest. `handed`: files changed owners for the
    run."""
    with Places(root, (host for host, _ in (*policy.readable, *policy.writable))) as places:
        visit = _Visit(places, protection, inside)
        if protection.watched:
            visit.ours(root)
        visit.directory(root, trie(protection.names | protection.passed), "")
        places.give_back(handed)
        return tuple(sorted(visit.denials, key=lambda denial: denial.name))


Verdict = Literal["keep", "move", "replaced"]


def judge(name: str, now: State | None, was: State | None, *, denied: bool) -> Verdict:
    """What to do with what is at a name that is denied, or that only lies on the way to one. Pure.

    A guest cannot have touched what was guarded: where such a file is another one now, somebody on the host saved it.
    """
    if now is None or _same(now, was):
        return "keep"
    if denied:
        return "replaced" if was is not None and was.kind == now.kind == "file" else "move"
    if was is not None and was.kind == "link":
        return "move"
    return "move" if now.kind == "link" or (now.kind == "file" and name == GIT) else "keep"


def _same(now: State, was: State | None) -> bool:
    if was is None or now.kind != was.kind:
        return False
    return now.text == was.text if now.kind == "link" else (now.device, now.inode) == (was.device, was.inode)


class _Visit:
    """Of everything that is denied in one root."""

    def __init__(self, places: Places, protection: Protection, inside: str) -> None:
        self._places, self._protection, self._inside = places, protection, inside
        self._denied = set(protection.names)
        self.denials: list[Denial] = []

    def ours(self, root: int) -> None:
        """Names at the top that only the host gives."""
        with os.scandir(root) as entries:
            made = [entry.name for entry in entries if entry.name.startswith(OURS) and entry.name not in self._protection.ours]
        self._denied |= set(made)
        self.directory(root, trie(made), "")

    def directory(self, fd: int, wanted: Trie, above: str) -> None:
        for name, beneath in wanted.items():
            path = join(above, name)
            try:
                now = self._settle(fd, name, path)
                if now is not None and now.kind == "directory" and beneath:
                    self._enter(fd, name, now, beneath, path)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise
                self._tell(path, f"could not be moved away ({os.strerror(error.errno or 0)}): it is still there")

    def _enter(self, fd: int, name: str, now: State, beneath: Trie, path: str) -> None:
        try:
            below = os.open(name, _WAY, dir_fd=fd)
        except FileNotFoundError:
            return
        try:
            self.directory(below, beneath, path)
        finally:
            os.close(below)

    def _settle(self, fd: int, name: str, path: str) -> State | None:
        """What may stay at a name: what was there before, or nothing."""
        was, denied = self._protection.before.get(path), path in self._denied
        moved = False
        for _ in range(_TRIES):
            now = _entered(fd, name)
            verdict = judge(name, now, was, denied=denied)
            if verdict == "replaced" and was is not None and self._places.has(was, path):
                verdict = "move"
            if verdict != "move":
                break
            where = self._places.move(fd, name, path)
            if where is not None:
                self._tell(path, _MOVED, where)
            moved = True
        else:
            self._tell(path, _AGAIN)
            return now
        if verdict == "replaced":
            self._tell(path, _REPLACED)
        if now is None and was is not None and was.kind == "link":
            os.symlink(was.text, name, dir_fd=fd)
            if not moved:
                self._tell(path, _LINK)
        return now

    def _tell(self, path: str, reason: str, arguments: str = "") -> None:
        self.denials.append(Denial(kind="quarantine", name=join(self._inside, path), arguments=arguments, reason=reason))


def _entered(fd: int, name: str) -> State | None:
    """What is called `name`; where the guest shut the directory around it, that is opened up."""
    try:
        return look(fd, name)
    except PermissionError:
        allow(fd)
        return look(fd, name)
