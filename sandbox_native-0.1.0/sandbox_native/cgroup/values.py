"""Control groups as values: what /proc says, turned into directories; names of our groups; numbers of the gauges.

Pure: nothing here touches the system. Called by the other modules of this package, in the host process.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum

__all__ = ["Gauge", "Hierarchy", "Mount", "Owner", "candidates", "parse_memberships", "parse_mounts"]

PREFIX = "sandbox-native-"

REQUIRED_V2 = ("memory", "pids")
REQUIRED_V1 = ("memory", "pids", "cpuacct")
OPTIONAL = "cpu"  # without it `cpus` cannot be limited; everything else holds


class Gauge(IntEnum):
    """``enum sn_gauge`` of wire.h: what a descriptor handed to a slot is."""

    PROCS = 1
    GROUP = 2
    CPU_NS = 3
    CPU_USER_NS = 4
    CPU_SYS_NS = 5
    CPU_STAT = 6
    MEMORY_STAT = 7
    OOM_CONTROL = 8
    OOM_EVENT = 9
    MEMORY_EVENTS = 10
    PIDS = 11
    PEAK = 12
    CPU_GROUP = 13


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Where this process may make control groups, or why it may not.

    ``version`` is 2, 1, or 0 for none. ``directories`` maps each controller to the directory of our own group in its
    hierarchy (on v2 the same for all of them); ``cpu`` may be missing there. With version 0 ``reason`` and ``remedy``
    are sentences for people.
    """

    version: int
    directories: Mapping[str, str] = field(default_factory=dict, hash=False)
    reason: str = ""
    remedy: str = ""

    @property
    def usable(self) -> bool:
        return self.version != 0

    @property
    def limits_cpus(self) -> bool:
        """Whether a share of cores can be enforced: the ``cpu`` controller is optional."""
        return OPTIONAL in self.directories

    @property
    def roots(self) -> tuple[str, ...]:
        """Our own group's directory in each hierarchy, once each: v1 mounts may carry several controllers."""
        return tuple(dict.fromkeys(self.directories.values()))

    @property
    def detail(self) -> str:
        """One line for the receipt and for doctor."""
        if not self.usable:
            return self.reason
        without = "" if self.limits_cpus else "; no cpu controller, so cpus cannot be limited"
        return f"cgroup v{self.version} beneath {self.roots[0]}{without}"


# ---- /proc/self/cgroup and /proc/self/mountinfo ----


@dataclass(frozen=True, kw_only=True)
class Mount:
    """One cgroup mount: ``root`` is the group that its mount point shows, as this process's namespace counts."""

    root: str
    point: str
    version: int
    controllers: frozenset[str]


def parse_memberships(text: str) -> dict[str, str]:
    """Controller -> path of our group, from /proc/self/cgroup; v2 has the key ``""``.

    A group that was removed while we are in it ("(deleted)") is left out: nothing can be made beneath it.
    """
    memberships = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        if path.endswith(" (deleted)"):
            continue
        for controller in controllers.split(","):
            memberships[controller] = path
    return memberships


def _unescape(name: str) -> str:
    r"""mountinfo writes space, tab, newline and backslash as \ooo."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), name)


def parse_mounts(text: str) -> list[Mount]:
    """The cgroup mounts in /proc/self/mountinfo, in its order: a later one may cover an earlier one."""
    mounts = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kind = before.split(" "), after.split(" ")
        if not separator or kind[0] not in ("cgroup", "cgroup2"):
            continue
        mounts.append(
            Mount(
                root=_unescape(fields[3]),
                point=_unescape(fields[4]),
                version=2 if kind[0] == "cgroup2" else 1,
                controllers=frozenset(kind[2].split(",")) if kind[0] == "cgroup" else frozenset(),
            )
        )
    return mounts


def candidates(memberships: Mapping[str, str], mounts: list[Mount], controller: str) -> Iterator[str]:
    """Directories that may show our own group for a v1 controller, or for v2 with ``""``; the newest mount first.

    A mount may show only a part of its hierarchy (containers, bind mounts), so its root is taken off our path. A root
    above our cgroup namespace reads ``/..``: what our group is called there cannot be known, so it gives nothing; nor
    does a group of our own that was moved out of our namespace.
    """
    own = memberships.get(controller)
    if own is None or "/.." in own:
        return
    for mount in reversed(mounts):
        if (mount.version == 2) != (controller == "") or (mount.version == 1 and controller not in mount.controllers):
            continue
        beneath = os.path.relpath(own, mount.root)
        if "/.." in mount.root or beneath.split("/")[0] == "..":
            continue
        yield os.path.normpath(os.path.join(mount.point, beneath))


# ---- names of our groups ----


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The host process that a group belongs to. Its start time tells it from a later process with the same pid."""

    pid: int
    start_time: int

    def name(self, number: int) -> str:
        return f"{PREFIX}{self.pid}-{self.start_time}-{number}"

    @staticmethod
    def of(name: str) -> Owner | None:
        """Whose group this is, None when it is not one of ours."""
        match = re.fullmatch(re.escape(PREFIX) + r"(\d+)-(\d+)-\d+", name, re.ASCII)
        return Owner(pid=int(match[1]), start_time=int(match[2])) if match else None


def parse_start_time(stat: str) -> tuple[str, int]:
    """State and start time in clock ticks from /proc/PID/stat; the name in it may hold anything, also ") R 1"."""
    fields = stat[stat.rindex(")") + 2 :].split()
    return fields[0], int(fields[19])


def parse_counter(text: bytes, name: bytes) -> int:
    """The number behind ``name`` in lines of "name number"; 0 when it is not there."""
    for line in text.splitlines():
        key, _, value = line.partition(b" ")
        if key == name:
            return int(value)
    return 0
