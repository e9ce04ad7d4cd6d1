"""Directory trees of a host with what matters in them: protected names, repositories, sockets. For tests of what looks there."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sandbox_native import state, survey
from sandbox_native.protection import Protection, Wanted, protect
from sandbox_native.survey import Bound

CONNECT = """
import socket, sys
for path in sys.argv[1:]:
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:
        with socket.socket(socket.AF_UNIX, kind) as one:
            try:
                one.connect(path)
                print(path, "CONNECTED")
            except OSError as error:
                print(path, error.strerror)
"""


@contextmanager
def listening(path: Path, kind: socket.SocketKind = socket.SOCK_STREAM) -> Iterator[None]:
    directory = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX, kind) as one:
        one.bind(f"/proc/self/fd/{directory}/{path.name}")
        os.close(directory)
        path.chmod(0o777)
        if kind != socket.SOCK_DGRAM:
            one.listen()
        yield


def protection(root: Path, **wanted: Any) -> Protection:
    with opened(root) as fd:
        seen = survey.walk(fd, Bound(names=10_000, seconds=30), deep=False)
        return protect(fd, Wanted(host=str(root), **wanted), seen)


@contextmanager
def opened(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield fd
    finally:
        os.close(fd)


def kinds(found: Protection) -> dict[str, str]:
    return {guard.name: "mask" if guard.mask else "read-only" if guard.read_only else "kept" for guard in found.guards}


def make(root: Path, *paths: str) -> None:
    """A name with a slash at its end is a directory."""
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if path.endswith("/"):
            (root / path).mkdir(parents=True, exist_ok=True)
        else:
            (root / path).write_text("was here")


def git(*words: str | Path) -> None:
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *map(str, words)], check=True, capture_output=True)


def kept(root: Path) -> dict[str, Path]:
    """What a host must not forget of a directory, by name."""
    status, top = root.stat(), Path(state.path())
    begin = f"{status.st_dev:x}-{status.st_ino:x}-"
    return {path.name.removeprefix(begin): path for path in top.glob(f"{begin}*")}
