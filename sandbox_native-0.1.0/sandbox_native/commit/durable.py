"""When a commit's files are on disk. Host process.

Each fsync(2) costs a write of the file system's own journal. A few are cheaper than syncfs(2), which writes out all that the
file system has waiting, whoever made it; many are not.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Final

FEW: Final = 16
"""Up to so many changes each file is written out by itself."""


@functools.cache
def _syncfs() -> Callable[[int], int]:
    return ctypes.CDLL(None, use_errno=True).syncfs


def write_out(fd: int) -> None:
    """All of the file system that the descriptor lies on."""
    if _syncfs()(fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
