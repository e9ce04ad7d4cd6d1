"""What a path of the host is, where asking cannot wait for anybody. Linux, host process.

Called by backends/denials.py with paths that a guest chose: none of them may make the host mount something (autofs), or wait for
a server that is gone.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from sandbox_native.hostmounts import Mounts
from sandbox_native.paths import contains
from sandbox_native.refused_paths import Kind

_WAITING: Final = frozenset(
    (*("autofs", "fuse", "nfs", "nfs4", "cifs", "smb3", "smbfs", "ceph", "afs", "kafs", "coda", "gfs2", "lustre", "ocfs2"),)
)
_MOST_LINKS: Final = 40


class LocalLook:
    """By the mount table as it is when this is made."""

    def __init__(self) -> None:
        self._avoided = [point for point in Mounts.read().points(_WAITING) if point != "/"]

    def kind(self, path: str) -> Kind | None:
        """Behind links. None where nothing is, and where somebody would have to be asked."""
        try:
            mode = self._mode(path)
        except (OSError, ValueError):
            return None
        if mode is None:
            return None
        if stat.S_ISREG(mode):
            return "file"
        return "directory" if stat.S_ISDIR(mode) else "socket" if stat.S_ISSOCK(mode) else "other"

    def _mode(self, path: str) -> int | None:
        """Part by part: each link could lead to a mount."""
        waiting, at, links = list(reversed(path.split("/"))), "/", 0
        mode = os.lstat("/").st_mode
        while waiting:
            part = waiting.pop()
            if part in ("", "."):
                continue
            step = os.path.dirname(at) if part == ".." else os.path.join(at, part)
            if any(contains(point, step) for point in self._avoided):
                return None
            mode = os.lstat(step).st_mode
            if not stat.S_ISLNK(mode):
                at = step
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            text = os.readlink(step)
            at = "/" if text.startswith("/") else at
            waiting += reversed(text.split("/"))
        return mode
