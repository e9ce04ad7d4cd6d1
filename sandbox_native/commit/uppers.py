"""The directory on disk in which a run's changes are kept, with `Policy.changes="disk"`. Host process, host's credentials.

It lies beside the directory that the guest works on, as `.sandbox-native-upper-…`: on the same disk, and in no place that the
guest sees. A claim of that name (state.py) says that somebody still wants it: one that a killed host left is removed by the
next run with the directory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from sandbox_native import state
from sandbox_native.commit.place import RESERVED, Place, require
from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import DIRECTORY
from sandbox_native.state import Claim

_NAME: Final = f"{RESERVED}upper"


@dataclass(slots=True)
class Upper:
    """`fd` is the directory, `path` where it is on the host."""

    fd: int
    path: str
    device: int
    inode: int
    above: int
    claim: Claim

    def close(self, *, remove: bool) -> None:
        """`remove`: nobody wants what is in it any more. Harmless when repeated."""
        if self.fd < 0:
            return
        if remove:
            remove_tree(self.above, self.claim.name)
            self.claim.remove()
        self.claim.close()
        os.close(self.fd)
        os.close(self.above)
        self.fd = self.above = -1


def make(root: int, path: str, owner: tuple[int, int]) -> Upper:
    """Beside the directory `root`, which is at `path`; it becomes the `owner`'s. PolicyError where there is no room for it."""
    remedy = f"changes are kept beside {path}: give a directory beneath one of your own, on the same mount"
    above = require(root, path, field="Policy.changes", value="disk", remedy=remedy)
    try:
        name = f"{_NAME}-{os.urandom(6).hex()}"
        claim = state.claim(root, name)
        try:
            return _make(os.path.join(os.path.dirname(path), name), above, claim, owner)
        except BaseException:
            remove_tree(above, name)
            claim.remove()
            raise
    except BaseException:
        os.close(above)
        raise


def _make(path: str, above: int, claim: Claim, owner: tuple[int, int]) -> Upper:
    os.mkdir(claim.name, 0o700, dir_fd=above)
    fd = os.open(claim.name, DIRECTORY, dir_fd=above)
    try:
        status = os.fstat(fd)
        if (status.st_uid, status.st_gid) != owner:
            os.chown(fd, *owner)
        return Upper(fd, path, status.st_dev, status.st_ino, above, claim)
    except BaseException:
        os.close(fd)
        raise


def sweep(place: Place) -> bool:
    """Removes those whose host is no more; whether there were any."""
    swept = False
    for name in place.kept.names(_NAME):
        with state.left(place.kept, name) as file:
            if file >= 0:
                remove_tree(place.above, name)
                place.kept.forget(name)
                swept = True
    return swept
