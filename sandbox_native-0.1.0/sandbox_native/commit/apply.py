"""Takes the steps of a commit whose journal is in its place. Host process, under the directory's lock.

Each step can be taken again: what is staged or moved aside says whether it was. A step that the host's directory does not
allow any more (somebody removed the directory that it is in) is passed over and reported; one that fails for want of space or
the like is an error, and the journal stays for another try.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from typing import Final

from sandbox_native.commit import copying
from sandbox_native.commit.forbidden import Forbidden
from sandbox_native.commit.handles import open_up
from sandbox_native.commit.node import SET_ID
from sandbox_native.commit.place import Staging
from sandbox_native.commit.steps import Down, Dress, Drop, Put, Step, Up
from sandbox_native.descent import DIRECTORY, Descent

_IN_THE_WAY: Final = frozenset({errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY, errno.EEXIST})
_NOT_ALLOWED: Final = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.EXDEV, errno.EBUSY, errno.EISDIR),
        *(errno.ENOTEMPTY, errno.EEXIST, errno.ENAMETOOLONG, errno.EINVAL, errno.EMLINK, errno.ETXTBSY, errno.ESTALE),
    }
)


def apply(
    steps: Iterable[Step], target: int, staging: Staging, *, durable: bool, forbidden: Forbidden | None = None
) -> list[tuple[str, str]]:
    """The steps that were passed over, as (path, why). `durable`: on return each of the others is on disk. `forbidden`: what a
    journal that was found may not change."""
    with Descent(target) as place:
        return _Walk(place, staging, durable, forbidden).go(steps)


class _Walk:
    def __init__(self, place: Descent, staging: Staging, durable: bool, forbidden: Forbidden | None) -> None:
        self._place, self._staging, self._durable, self._forbidden = place, staging, durable, forbidden
        self._touched = [False]  # for each level: whether the directory has to be written to disk
        self._astray = 0  # levels of directories that are not there any more
        self._passed_over: list[tuple[str, str]] = []

    def go(self, steps: Iterable[Step]) -> list[tuple[str, str]]:
        for step in steps:
            if self._astray:
                self._stray(step)
                continue
            try:
                self._take(step)
            except OSError as error:
                if error.errno not in _NOT_ALLOWED or isinstance(step, Up):
                    raise
                self._pass_over(step, os.strerror(error.errno))
        self._write_out()
        return self._passed_over

    def _stray(self, step: Step) -> None:
        if isinstance(step, Down):
            self._astray += 1
        elif isinstance(step, Up):
            self._astray -= 1
        else:
            self._pass_over(step, "the directory around it is not there any more")

    def _pass_over(self, step: Step, why: str) -> None:
        if isinstance(step, Down):
            self._astray = 1
        elif isinstance(step, (Put, Drop)):
            self._passed_over.append((self._place.path(step.name), why))

    def _take(self, step: Step) -> None:
        if isinstance(step, Up):
            self._write_out()
            self._place.up()
            self._touched.pop()
        elif isinstance(step, Down):
            open_up(step.name, self._place.fd)
            self._place.down(step.name)
            self._touched.append(False)
        elif why := self._why(step):
            self._pass_over(step, why)
        elif isinstance(step, Dress):
            self._dress(step)
        else:
            self._touched[-1] = True
            self._put(step) if isinstance(step, Put) else self._drop(step.name, str(step.slot))

    def _why(self, step: Put | Drop | Dress) -> str:
        if self._forbidden is None:
            return ""
        path = self._place.path(step.name)
        if (why := self._forbidden.why(path)) or isinstance(step, Dress):
            return why
        slot, new = str(step.slot), self._staging.new
        waits = _exists(slot, new) if isinstance(step, Put) else not _exists(slot, self._staging.old)
        if not waits:
            return ""  # it was taken
        if why := self._forbidden.why_gone(path, self._place.fd):
            return why
        return self._forbidden.why_staged(slot, new, path) if isinstance(step, Put) else ""

    def _write_out(self) -> None:
        if self._durable and self._touched[-1]:
            os.fsync(self._place.fd)

    def _put(self, step: Put) -> None:
        slot = str(step.slot)
        if not _exists(slot, self._staging.new):
            return  # it was taken
        for last in (False, True):
            try:
                os.rename(slot, step.name, src_dir_fd=self._staging.new, dst_dir_fd=self._place.fd)
                return
            except OSError as error:
                if last or error.errno not in _IN_THE_WAY:
                    raise
            self._move_aside(step.name, self._free(slot))

    def _drop(self, name: str, slot: str) -> None:
        if not _exists(slot, self._staging.old) and _exists(name, self._place.fd):
            self._move_aside(name, slot)

    def _free(self, slot: str) -> str:
        """Where something that is in the way can go; an interrupted try may have put something there already."""
        while _exists(slot, self._staging.old):
            slot += "+"
        return slot

    def _move_aside(self, name: str, slot: str) -> None:
        open_up(name, self._place.fd)  # a directory is moved by who may write to it
        os.rename(name, slot, src_dir_fd=self._place.fd, dst_dir_fd=self._staging.old)

    def _dress(self, step: Dress) -> None:
        open_up(step.name, self._place.fd)
        fd = os.open(step.name, DIRECTORY, dir_fd=self._place.fd)
        try:
            copying.set_attributes(fd, step.attributes)
            # Set-id bits are the host's own, or come from the directory above as they do for everybody.
            bits = os.fstat(fd).st_mode & SET_ID | os.fstat(self._place.fd).st_mode & stat.S_ISGID
            os.fchmod(fd, step.mode & (0o1777 | bits))
            os.utime(fd, ns=(step.mtime_ns, step.mtime_ns))
        finally:
            os.close(fd)


def _exists(name: str, directory: int) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
