"""The journal of a commit: written beside what is staged, and renamed into its place when it is whole. Host process.

From that rename on the commit has happened: whoever finds the journal takes the steps that are left. Before it nothing has.
The file holds a line of JSON for each step, and a last one that says so.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable
from typing import Any, Final

from sandbox_native.commit.place import JOURNAL
from sandbox_native.commit.steps import Step, from_json, in_order, to_json

_UNFINISHED: Final = "journal.unfinished"
_VERSION: Final = 1
_NONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EISDIR, errno.ENXIO, errno.ENODEV})
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write(staging: int, identity: list[int], steps: Iterable[Step]) -> None:
    """On return the commit has happened, and a loss of power does not undo it."""
    fd = os.open(_UNFINISHED, _MAKE, 0o600, dir_fd=staging)
    with open(fd, "w", encoding="ascii") as file:
        _line(file, {"version": _VERSION, "root": identity})
        for step in steps:
            _line(file, to_json(step))
        _line(file, "end")
        file.flush()
        os.fsync(fd)
    os.rename(_UNFINISHED, JOURNAL, src_dir_fd=staging, dst_dir_fd=staging)
    os.fsync(staging)


def _line(file: Any, value: Any) -> None:
    file.write(json.dumps(value) + "\n")


def read(staging: int, identity: list[int]) -> list[Step] | None:
    """The steps; None where there is no journal, or one that is not of this directory or not of ours: no file of the caller's
    that nobody else may write, or with anything in it but what `write` writes."""
    try:
        fd = os.open(JOURNAL, _READ, dir_fd=staging)
    except OSError as error:
        if error.errno in _NONE:
            return None
        raise
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022 or status.st_nlink != 1:
        os.close(fd)
        return None
    with open(fd, encoding="ascii") as file:
        try:
            lines = [json.loads(line) for line in file]
            if lines[0] != {"version": _VERSION, "root": identity} or lines[-1] != "end":
                return None
            steps = [from_json(line) for line in lines[1:-1]]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None
    return steps if in_order(steps) else None


def remove(staging: int) -> None:
    """The commit is over: nothing is left to do."""
    os.unlink(JOURNAL, dir_fd=staging)
