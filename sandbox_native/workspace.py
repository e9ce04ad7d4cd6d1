"""A host directory that one run sees as its /workspace. Host process, host's credentials.

What is opened here is what counts: the launcher clones the mount by path and compares device and inode with this
descriptor, and `collect` reads beneath it.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import Final

from sandbox_native import paths
from sandbox_native.descent import DIRECTORY, Descent
from sandbox_native.errors import PolicyError, SetupError

_REMEDY: Final = "name a directory of the host that the guest may change"
_KERNEL: Final = ("/proc", "/sys", "/dev")
_SHM: Final = "/dev/shm"
_ITEM: Final = 400  # characters of a path, from its end, in an error


@dataclass(slots=True)
class Workspace:
    """An open directory. `owner` is set when its files were given to the guest and have to be given back."""

    path: str  # no component is a link
    fd: int
    device: int
    inode: int
    handed: Handed | None = None

    def hand_over(self, owner: tuple[int, int], guest: tuple[int, int]) -> None:
        """Makes what the owner has the guest's, until `close`. SetupError when the file system refuses."""
        self.handed = Handed(owner, guest)
        self.handed.over(self.fd)

    def close(self) -> None:
        """Gives back what was handed over, and closes. Harmless when repeated. SetupError as of `Handed.back`."""
        fd, self.fd = self.fd, -1
        if fd < 0:
            return
        try:
            if self.handed is not None:
                self.handed.back(fd)
        finally:
            os.close(fd)

    def abandon(self) -> None:
        """In a forked child of the host: the directory is still the parent's run's."""
        self.handed = None
        self.close()


def check(path: str | os.PathLike[str]) -> str:
    """The path as the backend takes it. PolicyError for one that is relative, has `..`, or shows more than a directory."""
    checked = paths.absolute("workspace", path)
    if checked == "/":
        raise PolicyError("is the whole host", field="workspace", value=checked, remedy=_REMEDY)
    of_kernel = any(paths.contains(kernel, checked) for kernel in _KERNEL) and not paths.contains(_SHM, checked)
    if of_kernel:
        raise PolicyError("a file system of the kernel or of devices", field="workspace", value=checked, remedy=_REMEDY)
    return checked


def open_workspace(path: str) -> Workspace:
    """PolicyError when it is not a directory that can be read."""
    fd = -1
    try:
        resolved = os.path.realpath(path, strict=True)
        fd = os.open(resolved, DIRECTORY)
        status = os.fstat(fd)
        return Workspace(resolved, fd, status.st_dev, status.st_ino)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise SetupError("workspace", error.errno, path, "the host has no descriptors left") from error
        reason = os.strerror(error.errno or 0)
        raise PolicyError(reason, field="workspace", value=path, remedy=_REMEDY) from error
    except BaseException:
        if fd >= 0:
            os.close(fd)
        raise


@dataclass(frozen=True, slots=True)
class Handed:
    """Where there are no idmapped mounts: the files themselves change hands, one by one, and change back."""

    owner: tuple[int, int]
    guest: tuple[int, int]

    def over(self, fd: int) -> None:
        """What the owner has becomes the guest's. SetupError when the file system refuses."""
        _change(fd, self.owner, self.guest)

    def back(self, fd: int) -> None:
        """What the guest has, its new files with it, becomes the owner's. SetupError for the first that could not be given
        back, after all the others were."""
        _change(fd, self.guest, self.owner)


def _change(root: int, before: tuple[int, int], after: tuple[int, int]) -> None:
    """Of the directory and every entry beneath, following no link and crossing into no other file system. No recursion, and few
    descriptors: the guest chose the depth."""
    first: SetupError | None = None
    device = os.fstat(root).st_dev
    waiting = [["."]]  # names, for each level that the walk is in
    with Descent(root) as place:
        while waiting:
            name = waiting[-1].pop() if waiting[-1] else ""
            try:
                if not name:
                    waiting.pop()
                    if waiting:
                        place.up()
                elif _change_one(name, place.fd, device, before, after):
                    place.down(name)
                    waiting.append([])
                    waiting[-1] = os.listdir(place.fd)
            except OSError as error:
                if name and error.errno == errno.ENOENT:  # somebody on the host removed it: nothing to change
                    continue
                first = first or _refused(error, place.path(name))
                if not name:  # no way up
                    break
    if first is not None:
        raise first


def _change_one(name: str, parent: int, device: int, before: tuple[int, int], after: tuple[int, int]) -> bool:
    """Whether it is a directory to go into."""
    status = os.stat(name, dir_fd=parent, follow_symlinks=False)
    if status.st_dev != device:
        return False
    uid = after[0] if status.st_uid == before[0] else -1
    gid = after[1] if status.st_gid == before[1] else -1
    if uid != -1 or gid != -1:
        os.chown(name, uid, gid, dir_fd=parent, follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode)


def _refused(error: OSError, path: str) -> SetupError:
    item = path.removeprefix("./").removesuffix("/")
    return SetupError("workspace", error.errno or 0, item[-_ITEM:], "the owner of a file could not be changed")
