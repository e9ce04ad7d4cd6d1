"""Reads from the host's files what a plan needs to know of them; opens what the policy names. Linux, host process.

Called by backends/prepare.py when a Sandbox is made.
"""

from __future__ import annotations

import errno
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.paths import contains
from sandbox_native.policy import Policy
from sandbox_native.rules import Access
from sandbox_native.view import COPIED_ETC, SHARED_ETC, SYSTEM, HostTree, Shown, masked_paths

# Above the ranges that distributions, systemd and subuid files give out (systemd's UIDS-GIDS list: unused from here on).
_FIRST_BOX_UID: Final = 0x70000000 + 1000
_OVERFLOW_ID: Final = 65534  # what the kernel shows for ids that have no other name
_LARGEST_COPY: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """A file or directory of the host as it was when it was looked at."""

    path: str  # no component is a link
    device: int
    inode: int


def look_at(path: str, field: str) -> Found:
    """What a path names. PolicyError when nothing is there, or it is not a file or directory.

    The name is resolved first, then opened without following a link, and what was opened is what counts: the launcher
    compares device and inode before it shows anything.
    """
    try:
        resolved = os.path.realpath(path, strict=True)
        fd = os.open(resolved, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        reason = f"{os.strerror(error.errno or 0)} on the host"
        raise PolicyError(reason, field=field, value=path, remedy="make it before the Sandbox, or leave it out") from error
    try:
        status = os.fstat(fd)
    finally:
        os.close(fd)
    if not stat.S_ISREG(status.st_mode) and not stat.S_ISDIR(status.st_mode):
        # A socket can be connected to, and a FIFO or device written, through a read-only mount.
        raise PolicyError("neither a file nor a directory", field=field, value=path, remedy="leave it out")
    return Found(resolved, status.st_dev, status.st_ino)


def read_tree(policy: Policy) -> HostTree:
    """The facts behind one plan."""
    return HostTree(
        links={path: os.readlink(path) for path in SYSTEM if os.path.islink(path)},
        directories=frozenset(path for path in _expand((*SYSTEM, *SHARED_ETC)) if os.path.isdir(path)),
        files={path: data for path in _expand(COPIED_ETC) if (data := _read(path)) is not None},
        proc=frozenset(path for path in masked_paths() if os.path.exists(path)),
        shown=tuple(sorted(_roots(policy), key=lambda shown: shown.inside.count("/"))),
    )


def _roots(policy: Policy) -> Iterator[Shown]:
    for field, pairs, writable in (("readable", policy.readable, False), ("writable", policy.writable, True)):
        for at, (outside, inside) in enumerate(pairs):
            where = f"Policy.{field}[{at}]"
            found = look_at(outside, where)
            _check_place(where, inside, policy)
            access = Access.WRITABLE if writable else Access.READABLE
            yield Shown(
                kind="bind",
                inside=inside,
                source=found.path,
                access=access,
                device=found.device,
                inode=found.inode,
                field=where,
            )


def _check_place(field: str, inside: str, policy: Policy) -> None:
    """A path beneath one that is shown read-only needs something there to be mounted on."""
    shown = [(path, path) for path in SYSTEM] + [(inner, outer) for outer, inner in (*policy.readable, *policy.writable)]
    for outer, source in shown:
        if inside == outer or not contains(outer, inside):
            continue
        if os.path.islink(outer) and outer in SYSTEM:
            raise PolicyError(f"{outer} is a link in the box", field=field, value=inside, remedy="name the place it leads to")
        if not os.path.exists(source + inside[len(outer) :]):
            raise PolicyError(f"{outer} has no such place", field=field, value=inside, remedy="show it elsewhere, in /mnt")


def _expand(patterns: Iterable[str]) -> Iterator[str]:
    for pattern in patterns:
        if pattern.endswith("*"):
            yield from sorted(glob.glob(pattern))
        else:
            yield pattern


def _read(path: str) -> bytes | None:
    """None for what is not there, and for what only the host's user may read: such a file is not the guest's."""
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or not status.st_mode & stat.S_IROTH or status.st_size > _LARGEST_COPY:
                return None
            return file.read(_LARGEST_COPY)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return None


def free_id() -> int | None:
    """A host uid and gid that belongs to nobody: not in passwd or group, not in a range of subuid or subgid.

    In a container that has few ids it is the highest free one; None where there is none (a namespace of one id, whose root
    is a plain user outside).
    """
    taken = [*_taken("/etc/passwd", 2), *_taken("/etc/group", 2), *_taken("/etc/subuid", 1), *_taken("/etc/subgid", 1)]
    taken += ((id, id) for id in (0, _OVERFLOW_ID))
    mapped = [_mapped("/proc/self/uid_map"), _mapped("/proc/self/gid_map")]
    starts = [_FIRST_BOX_UID, *sorted((last for ranges in mapped for _, last in ranges), reverse=True)]
    for chosen in starts:
        while clash := [first for first, last in taken if first <= chosen <= last]:
            chosen = min(clash) - 1
        if all(any(first <= chosen <= last for first, last in ranges) for ranges in mapped):
            return chosen
    return None


def _mapped(path: str) -> list[tuple[int, int]]:
    """First and last id of each range that this user namespace has."""
    with open(path, encoding="ascii") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    return [(first, first + count - 1) for first, _, count in ranges]


def _taken(path: str, column: int) -> Iterator[tuple[int, int]]:
    """First and last id of each line; the column after a subordinate range's first id is its length."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        fields = line.split(":")
        numbers = [int(field) for field in fields[column : column + 2] if field.isascii() and field.isdigit()]
        if numbers:
            count = numbers[1] if column == 1 and len(numbers) == 2 else 1
            yield numbers[0], numbers[0] + count - 1
