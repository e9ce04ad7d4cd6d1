"""How a readable directory of the host is shown: bound as it is, through an overlay, or piece by piece. Linux, host process.

Called by showing.py. A bind brings the mounts beneath it along. An overlay is needed where Unix sockets are to be out of reach;
it shows none of them, so each gets one of its own. A plain user's mounts are locked together, and the kernel refuses an overlay
of a directory with locked mounts beneath it: such a directory is made anew, with every entry shown by itself, as far
down as mounts lead. File systems of the kernel beneath it are left out, whichever way.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.hostmounts import KERNEL, NO_SOCKETS, Mount, Mounts
from sandbox_native.paths import contains
from sandbox_native.roots import Found
from sandbox_native.shown import Shown

_MOST: Final = 4000  # mounts of one policy: the kernel allows 100,000, shared by all


@dataclass(slots=True, kw_only=True)
class Readable:
    """`show` adds to `shown`, and to `left_out` the host paths of what is not there."""

    mounts: Mounts
    locked: bool  # mounts cannot be taken from what lies on top of them: the launcher has a user namespace of its own
    shown: list[Shown] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    apart: frozenset[str] = frozenset()  # host directories that are shown piece by piece in any case
    skip: frozenset[str] = frozenset()  # of what is shown so: places that the box has itself
    empty: frozenset[str] = frozenset()  # host paths of which at most the name is shown, where that costs no mount

    def show(self, found: Found, inside: str, origin: str, *, overlay: bool) -> None:
        """A root; `origin` is the policy's field. PolicyError when it would take too many mounts."""
        if not found.directory:
            self._file(found.path, inside, (found.device, found.inode), origin)
            return
        kind = found.mount.kind if found.mount is not None else ""
        self._directory(found.path, inside, (found.device, found.inode), origin, overlay, kind)

    def _directory(self, host: str, inside: str, identity: tuple[int, int], origin: str, overlay: bool, kind: str) -> None:
        beneath = self.mounts.beneath(host)
        if any(contains(host, path) for path in self.apart) or (overlay and beneath and self.locked):
            self._pieces(host, inside, origin, overlay)
            return
        # What the caller may not enter a plain user's guest cannot either; nor can an overlay of it be made.
        through = overlay and kind not in NO_SOCKETS | KERNEL and os.access(host, os.X_OK, effective_ids=True)
        self._add(
            Shown(
                kind="overlay" if through else "bind",
                inside=inside,
                source=host,
                device=identity[0],
                inode=identity[1],
                field=origin,
            )
        )
        for mount in beneath:
            if overlay or mount.kind in KERNEL:
                self._mount(mount, inside + mount.point[len(host.rstrip("/")) :], origin, overlay)

    def _mount(self, mount: Mount, inside: str, origin: str, overlay: bool) -> None:
        """One mount beneath a directory that is shown without it: what lies under it must not show."""
        try:
            status = os.stat(mount.point, follow_symlinks=False)
        except OSError as error:  # a FUSE file system that is its owner's only, or one whose server is gone
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            self._leave_out(mount.point, inside, origin, directory=True)
            return
        directory = stat.S_ISDIR(status.st_mode)
        if mount.kind in KERNEL or not (directory or stat.S_ISREG(status.st_mode)):
            self._leave_out(mount.point, inside, origin, directory)
            return
        through = overlay and directory and mount.kind not in NO_SOCKETS
        self._add(
            Shown(
                kind="overlay" if through else "bind",
                inside=inside,
                source=mount.point,
                device=status.st_dev,
                inode=status.st_ino,
                directory=directory,
                field=origin,
            )
        )

    def _leave_out(self, host: str, inside: str, origin: str, directory: bool) -> None:
        self.left_out.append(host)
        self._add(Shown(kind="mask", inside=inside, directory=directory, field=origin))

    def _pieces(self, host: str, inside: str, origin: str, overlay: bool) -> None:
        self._add(Shown(kind="dir", inside=inside, source=host, field=origin))
        try:
            with os.scandir(host) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except PermissionError:
            self.left_out.append(host)
            return
        for entry in found:
            path = f"{host}/{entry.name}"
            if path not in self.skip:
                self.piece(entry, path, f"{inside}/{entry.name}", origin, overlay)

    def piece(self, entry: os.DirEntry[str], host: str, inside: str, origin: str, overlay: bool) -> None:
        """One entry of a directory that is shown piece by piece."""
        if entry.is_symlink():
            self._add(Shown(kind="link", inside=inside, source=os.readlink(host), field=origin))
            return
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise
            self.left_out.append(host)
            return
        kind = self.mounts.kind_at(host)
        if stat.S_ISDIR(status.st_mode) and (host in self.empty or kind in KERNEL):
            self._add(Shown(kind="dir", inside=inside, source=host, field=origin))
            if host not in self.empty:
                self.left_out.append(host)
        elif stat.S_ISDIR(status.st_mode):
            self._directory(host, inside, (status.st_dev, status.st_ino), origin, overlay, kind)
        elif stat.S_ISREG(status.st_mode) and host not in self.empty and kind not in KERNEL:
            self._file(host, inside, (status.st_dev, status.st_ino), origin)

    def _file(self, host: str, inside: str, identity: tuple[int, int], origin: str) -> None:
        device, inode = identity
        self._add(Shown(kind="bind", inside=inside, source=host, device=device, inode=inode, directory=False, field=origin))

    def _add(self, shown: Shown) -> None:
        if len(self.shown) >= _MOST:
            raise PolicyError(
                f"would take more than {_MOST} mounts, since mounts of the host lie deep in it",
                field=shown.field,
                value=shown.source,
                remedy='name what is needed of it, or give host_sockets="show"',
            )
        self.shown.append(shown)
