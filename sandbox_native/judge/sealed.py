"""Directories of files that are written once and read-only from then on. Host process; for store.py and room.py.

A plain user's own directories have to be made writable again before anything in them can go. Reading and removing may be cut off
by somebody else who removes the same thing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Mapping
from typing import Final

_SEALED: Final = 0o555
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_STARTS: Final = (b"\x7fELF", b"#!")


def write_file(path: str, data: bytes, mode: int, *, sync: bool = False) -> None:
    """A new file; `mode` whatever the umask is. `sync`: it outlives a power failure."""
    with open(os.open(path, _CREATE, 0o600), "wb") as file:
        file.write(data)
        os.fchmod(file.fileno(), mode)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_tree(place: str, files: Mapping[str, bytes]) -> None:
    """A new directory with these files (by relative name), all read-only but for the directory itself, which could not be moved
    then. What begins as a program or a script does can be executed."""
    os.mkdir(place, 0o700)
    directories = set()
    for name, data in files.items():
        directory = os.path.dirname(name)
        if directory:
            os.makedirs(f"{place}/{directory}", mode=0o700, exist_ok=True)
        while directory:
            directories.add(directory)
            directory = os.path.dirname(directory)
        write_file(f"{place}/{name}", data, 0o555 if data.startswith(_STARTS) else 0o444)
    for directory in directories:
        os.chmod(f"{place}/{directory}", _SEALED)


def seal(place: str) -> None:
    """The last step: whoever sees it done can take the directory for whole."""
    os.chmod(place, _SEALED)


def is_sealed(place: str) -> bool:
    """Whether there is a directory whose writer came to the last step."""
    try:
        return stat.S_IMODE(os.lstat(place).st_mode) == _SEALED
    except FileNotFoundError:
        return False


def read_tree(place: str) -> dict[str, bytes]:
    """Its files by relative name; not those that cannot be read."""
    found = {}
    for directory, _, names in os.walk(place):
        for name in names:
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError), open(os.open(path, _READ), "rb") as file:
                found[os.path.relpath(path, place)] = file.read()
    return found


def remove_tree(place: str) -> None:
    """With all that is in it; harmless when it is not there."""
    if not os.path.lexists(place):
        return
    for directory, names, _ in os.walk(place):
        for name in ("", *names):
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(place)
