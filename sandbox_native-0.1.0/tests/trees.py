"""Directories of the host for the tests of overlays: made, told apart, and with a server in them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WHITEOUT = "character device 0"
CONNECT = "import socket, sys; print(socket.socket(socket.AF_UNIX).connect_ex(sys.argv[1]))"


def workspace(directory: Path) -> Path:
    """One with something to change, to delete, to replace and to move."""
    made = directory / "work"
    for path in ("replaced", "kept"):
        (made / path).mkdir(parents=True)
    for path in ("replaced/old", "kept/old", "changed", "deleted", "moved"):
        (made / path).write_text("old")
    return made


@contextmanager
def listening(path: Path) -> Iterator[None]:
    """A server that everybody may connect to."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        yield


def state(directory: Path) -> dict[str, tuple[int, ...]]:
    """What any write to a tree changes, also one that is undone."""
    found = {}
    for path in (directory, *sorted(directory.rglob("*"))):
        one = path.lstat()
        found[str(path)] = (one.st_ino, one.st_mode, one.st_size, one.st_nlink, one.st_mtime_ns, one.st_ctime_ns)
    return found


def tree(fd: int) -> dict[str, str]:
    """What lies beneath a directory: relative path -> content of a file, text of a link, or its kind."""
    found = {}
    for directory, directories, files, here in os.fwalk(".", dir_fd=fd):
        for name in (*directories, *files):
            path = os.path.normpath(os.path.join(directory, name))
            found[path] = _told(name, here)
    return found


def _told(name: str, directory: int) -> str:
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    kind = status.st_mode & 0o170000
    if kind == 0o120000:
        return "-> " + os.readlink(name, dir_fd=directory)
    if kind == 0o100000:
        with open(os.open(name, os.O_RDONLY, dir_fd=directory)) as file:
            return file.read()
    return {0o040000: "directory", 0o020000: f"character device {status.st_rdev}", 0o140000: "socket"}.get(kind, oct(kind))
