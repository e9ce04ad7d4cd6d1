"""Looks at the host paths that a policy shows, before anything starts. Linux, host process, host's credentials.

Called by showing.py for a policy's roots and by run_checks.py for a run's workspace. What is opened here is what counts: its
device and inode go into the plan, and the launcher compares them before it shows anything, so that what somebody puts in
the way meanwhile is not shown.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from sandbox_native import state
from sandbox_native.errors import PolicyError
from sandbox_native.features import launcher_path
from sandbox_native.hostmounts import KERNEL, Location, Mount, Mounts
from sandbox_native.mandatory import denied_in
from sandbox_native.paths import contains

_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MISSING: Final = "make it before the Sandbox, or leave it out"
# The host's processes and devices, wherever they are mounted. Others of the kernel's may be read.
_NEVER: Final = {
    "proc": "shows the host's processes",
    "devtmpfs": "the host's devices cannot be shown",
    "devpts": "the host's terminals cannot be shown",
}


@dataclass(frozen=True, slots=True)
class Found:
    """A file or directory of the host as it was when it was looked at."""

    path: str  # no component is a link
    device: int
    inode: int
    directory: bool
    mount: Mount | None = None


def look_at(path: str, field: str, mounts: Mounts) -> Found:
    """What a readable path names, behind its links. PolicyError when nothing is there, or nothing that may be shown."""
    try:
        found = _open(os.path.realpath(path, strict=True), path, field, mounts)
    except OSError as error:
        raise _missing(error, path, field) from error
    if found.mount is not None and (reason := _NEVER.get(found.mount.kind)):
        raise PolicyError(reason, field=field, value=path, remedy="leave it out: the guest has its own")
    return found


def look_at_writable(path: str, field: str, mounts: Mounts, covered: Iterable[str] = ()) -> Found:
    """What a writable path names. PolicyError when a link is on the way, and for what no guest may write.

    `covered`: host paths beneath it that the guest cannot write.
    """
    try:
        _refuse_links(path, field)
        found = _open(path, path, field, mounts)
    except OSError as error:
        raise _missing(error, path, field) from error
    refuse_writable(found, field, mounts, covered)
    return found


def refuse_writable(found: Found, field: str, mounts: Mounts, covered: Iterable[str] = ()) -> None:
    """PolicyError for a kernel file system, all of /, what holds this package, its launcher or its state, and what nobody may
    write."""
    top = os.stat("/")
    if (found.device, found.inode) == (top.st_dev, top.st_ino):
        raise PolicyError("is the whole host", field=field, value=found.path, remedy="name the directories that are needed")
    for mount in (found.mount, *mounts.beneath(found.path)):
        if mount is not None and mount.kind in KERNEL:
            which = "" if mount == found.mount else f" ({mount.point})"
            reason = f"a kernel file system, {mount.kind}{which}, cannot be writable"
            raise PolicyError(reason, field=field, value=found.path, remedy="give it in readable, or name what lies beside it")
    denied = denied_in(found.path)
    if denied is not None:
        remedy = "leave it out: a guest that can write there runs programs as the caller later"
        raise PolicyError(f"{denied} may be written by no guest", field=field, value=found.path, remedy=remedy)
    _refuse_ours(found, field, mounts, tuple(covered))


def _refuse_links(path: str, field: str) -> None:
    """Each component from the top, so that the message can name the first that is a link."""
    so_far = ""
    for part in path.strip("/").split("/"):
        so_far += "/" + part
        if stat.S_ISLNK(os.stat(so_far, follow_symlinks=False).st_mode):
            real = os.path.realpath(path)
            reason = f"{so_far} is a symbolic link, which can be turned elsewhere"
            raise PolicyError(reason, field=field, value=path, remedy=f"name the place itself: {real!r}")


def _open(path: str, given: str, field: str, mounts: Mounts) -> Found:
    fd = os.open(path, _LOOK)
    try:
        status, mount = os.fstat(fd), mounts.of(fd)
    finally:
        os.close(fd)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        # A socket can be connected to, and a FIFO or device written, through a read-only mount.
        raise PolicyError("neither a file nor a directory", field=field, value=given, remedy="leave it out")
    return Found(path, status.st_dev, status.st_ino, stat.S_ISDIR(status.st_mode), mount)


def _missing(error: OSError, path: str, field: str) -> Exception:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return error
    return PolicyError(f"{os.strerror(error.errno or 0)} on the host", field=field, value=path, remedy=_MISSING)


# ---- this package, its launcher and its state ----


def _refuse_ours(found: Found, field: str, mounts: Mounts, covered: tuple[str, ...]) -> None:
    """A guest that can write what the host runs, or what it remembers, is the host. By place in the file system too: what a
    mount shows elsewhere is the same file."""
    places = _places(found, mounts)
    for path in (os.path.realpath(path) for path in (os.path.dirname(__file__), launcher_path())):
        if not _is_covered(path, covered) and _reaches(found, path, mounts, places):
            raise PolicyError(f"holds {path}, which the host runs", field=field, value=found.path, remedy=_apart(found, path))
    path = os.path.realpath(state.path())
    if _is_covered(path, covered):
        state.make()  # what is not there cannot be covered
    elif _reaches(found, path, mounts, places):
        reason = f"holds, or lies in, {path}, where the host keeps what it must not forget"
        remedy = f"name other directories, or set {state.VARIABLE} to a directory elsewhere"
        raise PolicyError(reason, field=field, value=found.path, remedy=remedy)


def _is_covered(path: str, covered: tuple[str, ...]) -> bool:
    return any(contains(other, path) for other in covered)


def _reaches(found: Found, path: str, mounts: Mounts, places: Iterable[Location]) -> bool:
    """Whether what was found holds `path`, or lies in it. Of what is not there yet, by the directories that are."""
    location = mounts.location(path)
    direct = contains(found.path, path) or contains(path, found.path)
    return direct or _is_above(found, path) or (location is not None and _overlap(location, places))


def _apart(found: Found, ours: str) -> str:
    """The whole environment rather than this package alone: a .pth file beside it is run as well."""
    import sys

    environment = next((prefix for prefix in (sys.prefix, os.path.dirname(ours)) if contains(found.path, prefix)), None)
    if environment is None or environment == found.path:
        return "install the package elsewhere, or name other directories"
    return f"install the package elsewhere, or make {environment} protected, as the guest sees it"


def _places(found: Found, mounts: Mounts) -> list[Location]:
    points = [found.path, *(mount.point for mount in mounts.beneath(found.path))]
    return [place for point in points if (place := mounts.location(point)) is not None]


def _overlap(ours: Location, places: Iterable[Location]) -> bool:
    return any(place.holds(ours) or ours.holds(place) for place in places)


def _is_above(found: Found, path: str) -> bool:
    """Whether one of the directories that lead to `path` is the very one that was found."""
    while path != "/":
        path = os.path.dirname(path)
        try:
            status = os.stat(path)
        except FileNotFoundError:
            continue
        if (status.st_dev, status.st_ino) == (found.device, found.inode):
            return True
    return False
