"""After a run with direct writes: what the guest made under a denied name goes where no guest sees it. Linux, host process.

Called by the backend as soon as a box is dead, with what protection.py saw before it began. Other boxes may be at work in the
same tree: everything goes by descriptors, no link is followed, and what is moved is whatever has the name at that moment.

Nothing is removed: quarantine_places.py says where it goes.
"""

from __future__ import annotations

import errno
import os
from typing import Final, Literal

from sandbox_native import state
from sandbox_native.denials import Denial
from sandbox_native.descent import WAY, Descent
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import SetupError
from sandbox_native.mandatory import GIT, OURS, join
from sandbox_native.policy import Policy
from sandbox_native.protection import Protection
from sandbox_native.quarantine_places import Places, allow
from sandbox_native.snapshots import State, Trie, look, trie, waiting
from sandbox_native.workspace import Handed

_TRIES: Final = 8  # somebody else at work may make it again

_FEW: Final = 16  # of our names that are told one by one
_MOST_DENIALS: Final = 256

_MOVED: Final = "made under a name that no guest may write: moved away when the run ended"
_REPLACED: Final = "replaced from outside of the box while the run lasted, which undid its guard: look at it before you trust it"
_LINK: Final = "a link that the guest changed: it leads where it led before"
_GONE: Final = "moved away by somebody who is at work there while it was looked at: what is denied in it was not"
_FURTHER: Final = "further names that were settled: they are not listed"
_UNSETTLED: Final = "what was made under denied names is still there: the next run with the directory, or recover, moves it away"
_STAYS: Final = "could not be moved away ({}): it is still there"
_AGAIN: Final = "made again each time that it was moved away, by somebody who is still at work there"


def quarantine(
    root: int, protection: Protection, policy: Policy, *, inside: str = WORKSPACE, handed: Handed | None = None
) -> tuple[Denial, ...]:
    """Of the directory `root`, which stays the caller's and is `inside` to the guest. `handed`: files changed owners for the
    run. SetupError when not all could be looked at; it can be called again."""
    try:
        with Places(root, (host for host, _ in (*policy.readable, *policy.writable))) as places:
            visit = _Visit(places, protection, inside)
            visit.all(root, trie(protection.names | protection.passed))
            if protection.watched:
                visit.ours(root)
            places.give_back(handed)
            return visit.denials
    except OSError as error:
        if isinstance(error, SetupError):
            raise
        raise SetupError("quarantine", error.errno or 0, os.readlink(f"/proc/self/fd/{root}"), _UNSETTLED) from error


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
        self._denials: list[Denial] = []
        self._beyond = 0

    @property
    def denials(self) -> tuple[Denial, ...]:
        found = sorted(self._denials, key=lambda denial: denial.name)
        if self._beyond:
            found.append(Denial(kind="quarantine", name="…", reason=_FURTHER, count=self._beyond))
        return tuple(found)

    def ours(self, root: int) -> None:
        """Names at the top that only the host gives: all into one directory, however many."""
        with os.scandir(root) as entries:
            made = {entry.name for entry in entries if entry.name.startswith(OURS)} - self._protection.ours - self._places.names
        made -= state.recorded() if made else set()
        if not made:
            return
        where, moved, failed = self._places.move_all(root, sorted(made))
        for name, error in failed:
            self._tell(name, _STAYS.format(os.strerror(error)))
        for name in moved[:_FEW]:
            self._tell(name, _MOVED, f"{where}/{name}")
        if (beyond := len(moved) - _FEW) > 0:
            self._tell(f"{OURS}…", _MOVED, where, beyond)

    def all(self, root: int, wanted: Trie) -> None:
        with Descent(root, WAY) as place:
            levels = [waiting(wanted)]
            while levels:
                if levels[-1]:
                    name, beneath = levels[-1].pop()
                    if self._one(place, name, beneath):
                        levels.append(waiting(beneath))
                    continue
                levels.pop()
                if levels:
                    self._up(place, levels)

    def _up(self, place: Descent, levels: list[list[tuple[str, Trie]]]) -> None:
        try:
            place.up()
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            here = place.path("")[:-1]
            deep = place.up_by_name() + 1
            if any(levels[deep:]):
                self._tell(here, _GONE)
            del levels[deep:]

    def _one(self, place: Descent, name: str, beneath: Trie) -> bool:
        """Whether `place` is now in that directory, where there is more to do."""
        path = place.path(name)
        try:
            now = self._settle(place.fd, name, path)
            if now is None or now.kind != "directory" or not beneath:
                return False
            place.down(name)
        except FileNotFoundError:
            return False
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            self._tell(path, _STAYS.format(os.strerror(error.errno or 0)))
            return False
        return True

    def _settle(self, fd: int, name: str, path: str) -> State | None:
        """What may stay at a name: what was there before, or nothing."""
        was, denied = self._protection.before.get(path), path in self._protection.names
        moved = False
        for _ in range(_TRIES):
            now = _entered(fd, name)
            verdict = judge(name, now, was, denied=denied)
            if verdict == "replaced" and was is not None and self._places.has(was, fd, path):
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

    def _tell(self, path: str, reason: str, arguments: str = "", count: int = 1) -> None:
        if len(self._denials) >= _MOST_DENIALS:
            self._beyond += count
            return
        name = join(self._inside, path)
        self._denials.append(Denial(kind="quarantine", name=name, arguments=arguments, reason=reason, count=count))


def _entered(fd: int, name: str) -> State | None:
    """What is called `name`; where the guest shut the directory around it, that is opened up."""
    try:
        return look(fd, name)
    except PermissionError:
        allow(fd)
        return look(fd, name)
