"""Whether what a policy hides is still where a plan found it. Linux, host process.

A mount that covers a name goes when the host replaces that name, as most programs do when they save a file, and nothing covers a
name that was absent. showing.py notes what it found; linux.py compares before each run, two stats for each place.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from sandbox_native.shown import Cover

_OUT: tuple[int, int] = (errno.EMFILE, errno.ENFILE)


def look(path: str) -> Cover:
    """What is at a host path now, behind its links; one that cannot be looked at counts as absent."""
    real = os.path.realpath(path)
    return Cover(path=path, real=real, state=_state(path), above=_changed(os.path.dirname(real)))


def are_same(covers: Iterable[Cover]) -> bool:
    """Whether nothing was replaced, removed or made.

    A new file may have the inode of an old one: then its own times and those of its directory are others. Either alone may
    change by what is written into it, or beside it.
    """
    for cover in covers:
        state = _state(cover.path)
        if state == cover.state:
            continue
        if state is None or cover.state is None or state[:2] != cover.state[:2]:
            return False
        if _changed(os.path.dirname(cover.real)) != cover.above:
            return False
    return True


def _state(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in _OUT:
            raise
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _changed(path: str) -> int:
    state = _state(path)
    return 0 if state is None else state[2]
