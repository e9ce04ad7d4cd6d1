"""An id of the host that is nobody's, for boxes of a host that is root. Linux, host process; called by backends/prepare.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

# Above the ranges that distributions, systemd and subuid files give out (systemd's UIDS-GIDS list: unused from here on).
_FIRST_BOX_UID: Final = 0x70000000 + 1000
_OVERFLOW_ID: Final = 65534  # what the kernel shows for ids that have no other name


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


def is_initial() -> bool:
    """Whether this is the host's own user namespace, and not one of a container's."""
    return _mapped("/proc/self/uid_map") == [(0, 2**32 - 2)]


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
