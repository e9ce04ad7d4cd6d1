"""Who is in a guest's tree, by the host's numbers. Linux; called by box.py for `Process.pids`.

A look at /proc: who comes or goes meanwhile may be missing or listed. Nothing is signalled by these numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator


def pid_of(pidfd: int) -> int:
    """-1 for a process that is gone, or lives in a pid namespace that ours does not see."""
    with open(f"/proc/self/fdinfo/{pidfd}", encoding="ascii") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith("Pid:")), -1)


def descendants(pid: int) -> Iterator[int]:
    """Parents first, siblings from the oldest to the youngest."""
    for child in _children(pid):
        yield child
        yield from descendants(child)


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
    except (FileNotFoundError, ProcessLookupError):
        if not os.path.exists("/proc/self/task"):  # no /proc at all
            raise
        return found if found or os.path.exists("/proc/thread-self/children") else list(_children_by_parent(pid))
    return found


def _children_by_parent(pid: int) -> Iterator[int]:
    """Where the kernel keeps no lists of children (CONFIG_PROC_CHILDREN)."""
    for name in sorted(filter(str.isdigit, os.listdir("/proc")), key=int):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == pid:
            yield int(name)
