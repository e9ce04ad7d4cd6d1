"""The directory on disk in which a run's changes are kept, with `Policy.changes="disk"`. Host process, host's credentials.

It lies beside the directory that the guest works on, as `.sandbox-native-upper-…`: on the same disk, and in no place that the
guest sees. A claim of that name (claims.py) says that somebody still wants it: one that a killed host left is removed by the
next run with the directory.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from sandbox_native import claims
from sandbox_native.claims import Claim
from sandbox_native.commit.place import RESERVED, Place, require
from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import DIRECTORY

_NAME: Final = f"{RESERVED}upper-"


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
            _remove(self.above, self.claim)
        self.claim.close()
        closing = self.fd, self.above
        self.fd = self.above = -1  # first: while one is being closed, its number may already be somebody else's
        for fd in closing:
            os.close(fd)


def make(root: int, path: str, owner: tuple[int, int]) -> Upper:
    """Beside the directory `root`, which is at `path`; it becomes the `owner`'s. PolicyError where there is no room for it."""
    remedy = f"changes are kept beside {path}: give a directory beneath one of your own, on the same mount"
    above = require(root, path, field="Policy.changes", value="disk", remedy=remedy)
    claim, fd = Claim(_NAME), -1
    try:
        claim.take(root)
        os.mkdir(claim.name, 0o700, dir_fd=above)
        fd = os.open(claim.name, DIRECTORY, dir_fd=above)
        status = os.fstat(fd)
        if (status.st_uid, status.st_gid) != owner:
            os.chown(fd, *owner)
        where = os.path.join(os.path.dirname(path), claim.name)
        return Upper(fd, where, status.st_dev, status.st_ino, above, claim)
    except BaseException:
        if fd >= 0:
            os.close(fd)
        _remove(above, claim)
        os.close(above)
        raise


def _remove(above: int, claim: Claim) -> None:
    """What cannot be removed now stays claimed for whoever comes next."""
    if claim.name and remove_tree(above, claim.name):
        claim.remove()
    claim.close()


def sweep(place: Place) -> bool:
    """Removes those whose host is no more; whether there were any."""
    swept = False
    for name in place.kept.names(_NAME):
        with claims.left(place.kept, name) as file:
            if file >= 0:
                swept = True
                if remove_tree(place.above, name):
                    place.kept.forget(name)
    return swept
