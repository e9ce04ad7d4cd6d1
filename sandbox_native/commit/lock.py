"""The lock of a directory that is committed to: one commit at a time, and nobody takes one that is under way for one that was
interrupted. Host process, host's credentials.

It is flock(2) on a file among what is remembered of the directory (state.py), where no guest can open it. The file goes with
the lock, which ends with its process, or with an explicit unlock even where a forked child still holds a copy.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from sandbox_native import state
from sandbox_native.errors import SetupError
from sandbox_native.own_file import OwnFile
from sandbox_native.state import Kept

NAME: Final = "lock"
PATIENCE: Final = 60.0
"""Seconds that a lock is waited for."""

_PAUSE: Final = 0.005
_MODE: Final = 0o200
_OPEN: Final = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@contextmanager
def held(root: int) -> Iterator[Kept]:
    """The lock of the directory `root`; what is remembered of it. SetupError when somebody else keeps it."""
    kept, file = None, OwnFile()
    try:
        kept = state.enter(root)
        _take(kept, file)
        yield kept
    finally:
        try:
            if kept is not None and file.fd >= 0:  # a forked child has it no more
                kept.forget(NAME)
                file.unlock()
        finally:
            file.close()
            if kept is not None:
                kept.close()


def _take(kept: Kept, file: OwnFile) -> None:
    end = time.monotonic() + PATIENCE
    try:
        while True:
            with kept.naming(NAME):
                file.open(kept.file(NAME), _OPEN, _MODE, dir_fd=kept.fd)
            while not file.lock():
                if time.monotonic() > end:
                    raise SetupError("commit", errno.EWOULDBLOCK, kept.path(NAME), _kept(file.fd))
                time.sleep(_PAUSE)
            if os.fstat(file.fd).st_nlink:
                return
            file.close()
    except BaseException:
        file.close()
        raise


def _kept(fd: int) -> str:
    pids = _holders(os.fstat(fd).st_ino)
    who = f"process {', '.join(pids)} has" if pids else "a process has"
    return f"{who} held the lock for more than {PATIENCE:.0f} s: let its commit end, or end it, and try again"


def _holders(inode: int) -> list[str]:
    """`/proc/locks`: number, kind, how, what, pid, device:inode, range."""
    with open("/proc/locks", encoding="ascii") as locks:
        lines = [line.split() for line in locks]
    return [line[4] for line in lines if len(line) > 5 and line[1] == "FLOCK" and line[5].endswith(f":{inode}")]
