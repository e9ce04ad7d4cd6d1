"""The host's mount table: which file system a path is on, what is mounted beneath it, and where else the same file shows.
Linux, host process.

Called by roots.py, readable.py and showing.py when a plan is made. A path says little: a file system of the kernel, or the
package itself, may be mounted anywhere. The mount that a descriptor is on says what it is.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from sandbox_native.paths import contains

KERNEL: Final = frozenset(
    (
        *("autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "cpuset", "debugfs", "devpts", "devtmpfs"),
        *("efivarfs", "functionfs", "fusectl", "hugetlbfs", "mqueue", "nfsd", "nsfs", "proc", "pstore", "resctrl"),
        *("rpc_pipefs", "securityfs", "selinuxfs", "smackfs", "sysfs", "tracefs", "usbfs"),
    )
)
"""Names of file systems that hold the kernel's own state, and no files of anybody's."""

NO_SOCKETS: Final = frozenset(("cramfs", "erofs", "exfat", "iso9660", "msdos", "romfs", "squashfs", "udf", "vfat"))
"""Those in which nobody can bind a Unix socket: read-only by their nature, or without a way to store one. Some cannot be the
lower layer of an overlay either."""

_ESCAPE: Final = re.compile(r"\\([0-7]{3})")
_LOOK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo."""

    id: int
    device: str  # major:minor
    root: str  # of the file system, what is mounted
    point: str
    kind: str


@dataclass(frozen=True, slots=True)
class Location:
    """A file by its place in a file system, which is the same wherever that is mounted."""

    device: str
    path: str

    def holds(self, other: Location) -> bool:
        return self.device == other.device and contains(self.path, other.path)


class Mounts:
    """The table as it was when it was read."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._by_id = {mount.id: mount for mount in map(_parse, lines)}

    @classmethod
    def read(cls) -> Self:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return cls(file.read().splitlines())

    def of(self, fd: int) -> Mount | None:
        """The mount that an open file is on; None where it is newer than the table or outside of this root."""
        return self._by_id.get(mount_id(fd))

    def beneath(self, path: str) -> list[Mount]:
        """What is mounted at places below `path`, what lies around others first. Only what a walk from `path` comes to: not
        what another mount covers."""
        under = [mount for mount in self._by_id.values() if mount.point != path and contains(path, mount.point)]
        return sorted((mount for mount in under if self._at(mount.point) == mount), key=lambda mount: mount.point.count("/"))

    def points(self, kinds: frozenset[str]) -> list[str]:
        """Where file systems of these kinds are mounted."""
        return [mount.point for mount in self._by_id.values() if mount.kind in kinds]

    def kind_at(self, path: str) -> str:
        """The file system that a path is on; empty where nobody can say."""
        mount = self._at(path)
        return "" if mount is None else mount.kind

    def location(self, path: str) -> Location | None:
        """Of a path without links in it; None where nothing is there, or on no mount of the table."""
        mount = self._at(path)
        return None if mount is None else _located(mount, path)

    def other_places(self, path: str) -> list[str]:
        """Where else what is at `path` (no links in it) can be seen: other mounts of the same file system."""
        place = self.location(path)
        if place is None:
            return []
        found = []
        for mount in self._by_id.values():
            if mount.device == place.device and contains(mount.root, place.path):
                other = _moved(place.path, mount.root, mount.point)
                if other != path and self.location(other) == place:
                    found.append(other)
        return found

    def _at(self, path: str) -> Mount | None:
        try:
            fd = os.open(path, _LOOK)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            return None  # of somebody who may not look there; or it is gone
        try:
            return self.of(fd)
        finally:
            os.close(fd)


def mount_id(fd: int) -> int:
    """Of the mount that an open file is on."""
    with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("mnt_id:"))


def _located(mount: Mount, path: str) -> Location:
    return Location(mount.device, _moved(path, mount.point, mount.root))


def _moved(path: str, old: str, new: str) -> str:
    """A path at or beneath `old` as one beneath `new`."""
    return (new.rstrip("/") + path[len(old.rstrip("/")) :]) or "/"


def _parse(line: str) -> Mount:
    fields, _, tail = line.partition(" - ")
    number, _, device, root, point = fields.split(" ")[:5]
    # fuse.sshfs: of the many that there are the first part says enough.
    kind = tail.split(" ", 1)[0].partition(".")[0]
    return Mount(int(number), device, _plain(root), _plain(point), kind)


def _plain(text: str) -> str:
    return _ESCAPE.sub(lambda found: chr(int(found[1], 8)), text) if "\\" in text else text
