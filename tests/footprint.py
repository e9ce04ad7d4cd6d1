"""What a test must not leave behind: descriptors, children, processes, mounts, control groups, directories."""

from __future__ import annotations

import dataclasses
import errno
import gc
import os
import tempfile
import time
from pathlib import Path

from capabilities import own_groups

PREFIX = "sandbox-native"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Footprint:
    descriptors: frozenset[str]
    children: frozenset[str]
    processes: frozenset[str]
    mounts: frozenset[str]
    groups: frozenset[str]
    directories: frozenset[str]

    @classmethod
    def take(cls) -> Footprint:
        return cls(
            descriptors=_descriptors(),
            children=_children(),
            processes=_processes(),
            mounts=frozenset(Path("/proc/self/mountinfo").read_text().splitlines()),
            groups=_groups(),
            directories=frozenset(name for name in os.listdir(tempfile.gettempdir()) if name.startswith(PREFIX)),
        )

    def beyond(self, before: Footprint) -> dict[str, list[str]]:
        """What is here and was not there before, by kind."""
        more = {}
        for field in dataclasses.fields(self):
            extra = getattr(self, field.name) - getattr(before, field.name)
            if extra:
                more[field.name] = sorted(extra)
        return more


def left_behind(before: Footprint, patience_seconds: float) -> dict[str, list[str]]:
    """What stays beyond `before` after some patience: a closed launcher ends by itself, a moment later."""
    more = Footprint.take().beyond(before)
    if more:
        gc.collect()  # what a test's own exceptions hold on to is no leak; this takes 0.2 s, so it is not done after every test
    deadline = time.monotonic() + patience_seconds
    while more and time.monotonic() < deadline:
        time.sleep(0.002)
        more = Footprint.take().beyond(before)
    return more


def _descriptors() -> frozenset[str]:
    found = set()
    for number in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
        except FileNotFoundError:
            pass  # the listing's own
    return frozenset(found)


def _children() -> frozenset[str]:
    found = set()
    for task in os.listdir("/proc/self/task"):
        try:
            found.update(Path(f"/proc/self/task/{task}/children").read_text().split())
        except FileNotFoundError:
            pass  # a thread that ended meanwhile
    return frozenset(found)


def _processes() -> frozenset[str]:
    """Launchers and what they forked, but those of other hosts that live: all have the argv that a launcher is given."""
    parents = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb", buffering=0) as line:  # not by Path: these are many, around every test
                name = line.read(len(PREFIX))
            if name == PREFIX.encode():
                parents[pid] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]
        except (FileNotFoundError, ProcessLookupError):
            continue
    others = _held_by_others() if parents else frozenset()
    return frozenset(pid for pid in parents if _launcher_of(pid, parents) not in others)


def _launcher_of(pid: str, parents: dict[str, str]) -> str:
    while parents[pid] in parents:
        pid = parents[pid]
    return pid


def _held_by_others() -> frozenset[str]:
    """The processes that some other process holds a pidfd of, as each host does of its launchers."""
    held = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid == str(os.getpid()):
            continue
        try:
            for number in os.listdir(f"/proc/{pid}/fd"):
                if "pidfd" in _target(f"/proc/{pid}/fd/{number}"):
                    lines = Path(f"/proc/{pid}/fdinfo/{number}").read_text().splitlines()
                    held.update(line.split()[1] for line in lines if line.startswith("Pid:"))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
    return frozenset(held)


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return ""


def _groups() -> frozenset[str]:
    """Groups of this process, and those whose host is gone: another host's are its own affair."""
    found = set()
    for group in own_groups().values():
        parent = group.parent if group.name == "host" else group
        for name in os.listdir(parent):
            if name.startswith(PREFIX + "-"):
                host = name.removeprefix(PREFIX + "-").split("-")[0]
                if host == str(os.getpid()) or not Path("/proc", host).exists():
                    found.add(f"{parent}/{name}")
    return frozenset(found)
