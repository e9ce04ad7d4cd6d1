"""Removes a directory with all that is in it, however deep. Host process; by descriptors, since guests may still change it."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

from sandbox_native.descent import DIRECTORY, Descent

_WAY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

# Not for what it is, but for what the host or its file system lacks just now.
_FOR_NOW: Final = frozenset(
    {
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN),
        *(errno.EROFS, errno.EIO, errno.ENOSPC, errno.EDQUOT),
    }
)


def remove_tree(above: int, name: str) -> bool:
    """Following no link. What cannot be removed (another's, say) stays, with what is around it. Harmless when there is none.
    False: there is more that can be removed at another time."""
    try:
        try:
            fd = _open(above, name)
        except OSError as error:
            _pass(error)
            return True
        try:
            with Descent(fd) as place:
                _empty(place)
        finally:
            os.close(fd)
        _remove_empty(above, name)
    except OSError:
        return False
    return True


def _pass(error: OSError) -> None:
    """Over what cannot be removed."""
    if error.errno in _FOR_NOW:
        raise error


def _empty(place: Descent) -> None:
    waiting = [("", os.listdir(place.fd))]
    while waiting:
        name, names = waiting[-1]
        if names:
            one = names.pop()
            if not _unlink(place.fd, one) and _enter(place, one):
                waiting.append((one, os.listdir(place.fd)))
            continue
        waiting.pop()
        if waiting:
            place.up()
            _remove_empty(place.fd, name)


def _unlink(directory: int, name: str) -> bool:
    """False for what may be a directory."""
    try:
        os.unlink(name, dir_fd=directory)
    except OSError as error:
        _pass(error)
        return False
    return True


def _enter(place: Descent, name: str) -> bool:
    try:
        os.close(_open(place.fd, name))
        place.down(name)
    except OSError as error:
        _pass(error)
        return False
    return True


def _open(above: int, name: str) -> int:
    """A directory, made readable for its owner first if need be: the very one that is then opened."""
    way = os.open(name, _WAY, dir_fd=above)
    try:
        if os.fstat(way).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{way}", stat.S_IRWXU)
        return os.open(".", DIRECTORY, dir_fd=way)
    finally:
        os.close(way)


def _remove_empty(above: int, name: str) -> None:
    try:
        os.rmdir(name, dir_fd=above)
    except OSError as error:
        _pass(error)
