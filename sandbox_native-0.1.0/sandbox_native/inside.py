"""Where what a box shows lies on the host: paths of the box followed as the kernel will follow them there. Host process.

Called by executables.py before a run and by missing.py when a program could not be started. A link of the host is followed to
where the box has it, not to where the host does. Nothing is decided here: the box's own mounts have the last word.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, Self

from sandbox_native.environment import WORKSPACE
from sandbox_native.paths import contains
from sandbox_native.policy import Policy, ReadPolicy
from sandbox_native.rules import OWN, SYSTEM, Access, Rule, declared, effective
from sandbox_native.shown import SHARED_ETC

_PRIVATE: Final = (*OWN, "/dev/shm", "/dev/mqueue")
_MOST_LINKS: Final = 40  # MAXSYMLINKS
_FIRST: Final = 4096  # of an ELF file nearly always with its program headers and its loader's name


class Place(Enum):
    """Who knows what is at a path of the box."""

    HOST = "host"
    """The host has it: `Spot.host`, `Spot.status`."""
    NONE = "none"
    """Nothing is there."""
    PRIVATE = "private"
    """The run's own: /tmp, the home directory, a private workspace. Before the program starts only what was placed is there,
    and that has `Spot.data`."""
    BOX = "box"
    """Made by the box (/etc, /proc, /dev), or not to be looked at by the host's user: only the kernel can say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """What a path of the box leads to."""

    place: Place
    path: str
    """In the box; of Place.HOST without any link in it."""
    host: str = ""
    status: os.stat_result | None = None
    data: bytes | None = None
    """Of a file that was placed."""
    by_run: bool = False
    """The way leads into /workspace, which is another in each run."""

    @property
    def is_nothing(self) -> bool:
        """Before the program starts; False where only the kernel can say."""
        return self.place is Place.NONE or (self.place is Place.PRIVATE and self.data is None)


class Inside:
    """The view of one policy's boxes, or of one run with its workspace. Looks at the host anew at each question."""

    def __init__(self, policy: Policy) -> None:
        self._rules = declared(policy)
        if policy.read is ReadPolicy.HOST:
            from sandbox_native.home import hidden_paths  # not on every system

            self._rules += (Rule(inside=path, access=Access.HIDDEN) for path in hidden_paths())
        self._hides = any(rule.access is Access.HIDDEN for rule in self._rules)
        self._links = dict(policy.symlinks)
        # Where a path lies: the longest of these that leads to it. None: the box's own.
        self._mounts: dict[str, str | None] = dict(_own(policy))
        self._mounts |= {inside: os.path.realpath(host) for host, inside in (*policy.readable, *policy.writable)}
        if not any(contains("/var/tmp", inside) for inside in self._mounts):
            self._links.setdefault("/var/tmp", "/tmp")
        self._above = frozenset(above for path in (*self._mounts, *self._links) for above in _ancestors(path))
        self._placed: Mapping[str, bytes] = {}

    def of_run(self, workspace: str | None, placed: Mapping[str, bytes] | None = None) -> Self:
        """The same for one run that shows a host directory as /workspace, or has files placed there."""
        if workspace is None and not placed:
            return self
        run = object.__new__(type(self))
        run.__dict__.update(self.__dict__)
        run._placed = placed or {}
        if workspace is not None:
            run._mounts = {**self._mounts, WORKSPACE: workspace}
        return run

    def look(self, path: str, cwd: str = WORKSPACE) -> Spot:
        """Follows a path, relative to `cwd`, through links and `..`, as the kernel would in the box."""
        left = [part for part in reversed(f"{'' if path.startswith('/') else cwd}/{path}".split("/")) if part]
        trail = [Spot(place=Place.HOST, path="/")]  # a directory that only leads on
        links, by_run = 0, False
        while left:
            name = left.pop()
            if name == "..":
                trail = trail[:-1] or trail
            if name in (".", ".."):
                continue
            spot, text = self._step(f"{trail[-1].path.rstrip('/')}/{name}")
            by_run |= spot.by_run
            if text is not None:
                links += 1
                if links > _MOST_LINKS:
                    return Spot(place=Place.BOX, path=path)
                trail = trail[:1] if text.startswith("/") else trail
                left += [part for part in reversed(text.split("/")) if part]
            elif spot.place in (Place.HOST, Place.PRIVATE):
                trail.append(spot)
            else:
                return Spot(place=spot.place, path="/".join((spot.path, *reversed(left))), by_run=by_run)
        return replace(trail[-1], by_run=True) if by_run and not trail[-1].by_run else trail[-1]

    def access(self, spot: Spot) -> Access | None:
        """What the guest may do there."""
        return effective(self._rules, spot.path)

    def _step(self, path: str) -> tuple[Spot, str | None]:
        """What is at a path whose parent is no link; the text of a link."""
        text = self._links.get(path)
        if text is not None:
            return Spot(place=Place.HOST, path=path), text
        at = path
        while at not in self._mounts and at != "/":
            at = os.path.dirname(at)
        mount = self._mounts.get(at, "")
        if mount == "" or (self._hides and effective(self._rules, path) is Access.HIDDEN):
            return Spot(place=self._between(path), path=path), None
        if mount is None:
            return self._own(path, at), None
        spot, text = _look_at(path, mount.rstrip("/") + path[len(at.rstrip("/")) :], at == WORKSPACE)
        return (Spot(place=self._between(path), path=path) if spot.place is Place.NONE else spot), text

    def _between(self, path: str) -> Place:
        """Of a path that nothing shows: the box makes the directories that lead to what is shown."""
        return Place.HOST if path in self._above else Place.NONE

    def _own(self, path: str, at: str) -> Spot:
        if at not in _PRIVATE:
            return Spot(place=Place.HOST if path in self._above else Place.BOX, path=path)
        in_workspace = at == WORKSPACE
        data = self._placed.get(path[len(WORKSPACE) + 1 :]) if in_workspace else None
        return Spot(place=Place.PRIVATE, path=path, data=data, by_run=in_workspace)


def first_bytes(spot: Spot) -> bytes:
    """Enough for a header or an interpreter line; none where the host cannot read the file, or has replaced it meanwhile."""
    if spot.status is None:
        return (spot.data or b"")[:_FIRST]
    try:
        fd = os.open(spot.host, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return b""
    try:
        same = os.path.samestat(os.fstat(fd), spot.status)
        return os.pread(fd, _FIRST, 0) if same and stat.S_ISREG(spot.status.st_mode) else b""
    finally:
        os.close(fd)


def _look_at(path: str, host: str, by_run: bool) -> tuple[Spot, str | None]:
    """What the host has there; the text of a link."""
    try:
        status = os.lstat(host)
        text = os.readlink(host) if stat.S_ISLNK(status.st_mode) else None
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR)
        return Spot(place=Place.NONE if gone else Place.BOX, path=path, by_run=by_run), None
    return Spot(place=Place.HOST, path=path, host=host, status=status, by_run=by_run), text


def _ancestors(path: str) -> Iterator[str]:
    while path != "/":
        path = os.path.dirname(path)
        yield path


def _own(policy: Policy) -> Iterator[tuple[str, str | None]]:
    """What every box of a policy has besides the policy's own paths."""
    if policy.read is ReadPolicy.HOST:
        yield "/", "/"
    yield "/etc", "/etc" if policy.preset == "light" else None
    yield from ((path, None) for path in ("/proc", "/dev", "/.empty", *_PRIVATE))
    if policy.system:
        yield from ((path, path) for path in SYSTEM)
        yield from ((path, path) for pattern in SHARED_ETC for path in glob.glob(pattern) if os.path.isdir(path))
