"""How an overlay writes down what was changed: the kinds of entries of its upper layer, and their attributes. Host process.

Called by tree.py and staging.py. The overlays are mounted with `userxattr`: marks are extended attributes user.overlay.*, and a
directory that was renamed was copied. A removed name is a character device 0:0 or, where devices cannot be had (Linux 6.7), an
empty file that is marked. A guest can make neither, nor such an attribute: the kernel escapes or refuses its own.
"""

from __future__ import annotations

import errno
import os
import stat
from enum import Enum
from typing import Final

_OURS: Final = "user.overlay."
_USER: Final = "user."
_OPAQUE: Final = f"{_OURS}opaque"
_WHITEOUT: Final = f"{_OURS}whiteout"
_NO_ATTRIBUTE: Final = (errno.ENODATA, errno.ENOTSUP)


class Kind(Enum):
    """What an entry is, as far as a commit cares."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    SPECIAL = "special"
    REMOVED = "removed"

    __hash__ = object.__hash__


_KINDS: Final = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.DIRECTORY, stat.S_IFLNK: Kind.LINK}
_SPECIAL: Final = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


def kind_of(status: os.stat_result) -> Kind:
    return _KINDS.get(stat.S_IFMT(status.st_mode), Kind.SPECIAL)


def upper_kind(name: str, directory: int, status: os.stat_result, marked: bool) -> Kind:
    """`marked`: files in this directory may stand for removed names."""
    if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
        return Kind.REMOVED
    kind = kind_of(status)
    if marked and kind is Kind.FILE and status.st_size == 0:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        try:
            return Kind.REMOVED if _attribute(fd, _WHITEOUT) is not None else kind
        finally:
            os.close(fd)
    return kind


def special(status: os.stat_result) -> str:
    """What a special file is, in words."""
    return _SPECIAL.get(stat.S_IFMT(status.st_mode), "a device")


def opaque(directory: int) -> bytes:
    """b"y": what the lower layer has there is removed; b"x": files may stand for removed names; b"" for neither."""
    return _attribute(directory, _OPAQUE) or b""


def attributes(fd: int) -> dict[str, bytes]:
    """The guest's extended attributes. Those that mean something to an overlay are not the guest's to make."""
    try:
        names = os.listxattr(fd)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return {}
        raise
    return {name: os.getxattr(fd, name) for name in names if name.startswith(_USER) and not name.startswith(_OURS)}


def remove_marks(fd: int) -> None:
    """Of a file that leaves the upper layer."""
    for name in os.listxattr(fd):
        if name.startswith(_OURS):
            os.removexattr(fd, name)


def _attribute(fd: int, name: str) -> bytes | None:
    try:
        return os.getxattr(fd, name)
    except OSError as error:
        if error.errno in _NO_ATTRIBUTE:
            return None
        raise
