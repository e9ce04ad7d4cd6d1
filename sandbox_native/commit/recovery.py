"""Completes a commit that was interrupted, or throws away what it staged. Host process, host's credentials.

Called before every run with a host directory, and before every commit; `recover` is for callers who want it done at once.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from sandbox_native.commit import durable, journal, place, uppers
from sandbox_native.commit.apply import apply
from sandbox_native.commit.place import Staging
from sandbox_native.commit.steps import Step
from sandbox_native.descent import DIRECTORY


def recover(path: str | os.PathLike[str]) -> bool:
    """Of the directory `path`: whether there was anything left of an interrupted commit. Waits for one that is under way.

    OSError when the directory cannot be opened, or the commit cannot be completed; then it can be tried again.
    """
    fd = os.open(path, DIRECTORY)
    try:
        return recover_fd(fd)
    finally:
        os.close(fd)


def recover_fd(root: int) -> bool:
    """As `recover`; the descriptor stays the caller's. Two looks when there is nothing to do."""
    if not place.found(root):
        return False
    with place.locked(root) as locked:
        return settle(locked)


def settle(root: int) -> bool:
    """Under the lock."""
    found = place.found(root)
    for path in found:
        staging = place.reopen(root, path)
        try:
            steps = journal.read(staging.fd, place.identity(root))
            if steps is None:
                staging.remove()
            else:
                complete(root, staging, steps, one_by_one=False)
            uppers.sweep(root, staging.above)  # it may have second names for what was committed
        finally:
            staging.close()
    return bool(found)


def complete(root: int, staging: Staging, steps: Sequence[Step], *, one_by_one: bool) -> list[tuple[str, str]]:
    """Takes the steps that are left and ends the commit; those that could not be taken, as (path, why)."""
    passed_over = apply(steps, root, staging, durable=one_by_one)
    if not one_by_one:
        durable.write_out(root)
    journal.remove(staging.fd)
    os.fsync(staging.fd)  # before what was moved aside goes: a step that is taken again looks for it
    staging.remove()
    return passed_over
