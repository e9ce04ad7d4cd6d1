"""Inputs and answers as a validator's box shows them: the package's files where they are, everything else in a directory of ours.
Host process; made by setup.py, used by validators.py.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import stat
import tempfile
from pathlib import Path
from typing import Final

from sandbox_native.judge.values import Source
from sandbox_native.paths import Pair

_PACKAGE: Final = "/judge/package"
_SCRATCH: Final = "/judge/files"
_PREFIX: Final = "sandbox-native-judge-"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Shown:
    """A context manager; safe in threads. `readable` is for `Policy.readable`."""

    def __init__(self, root: Path | None) -> None:
        """`root`: the package's directory."""
        self._root = None if root is None else Path(os.path.realpath(root))
        # The inner directory is shown: a guest with a uid of its own can read there, and other users of the host do not get so
        # far.
        self._outer, self._held = _new_place()
        self._scratch = os.path.join(self._outer, "files")
        os.mkdir(self._scratch, 0o755)
        self._numbers = itertools.count()

    @property
    def readable(self) -> tuple[Pair, ...]:
        package = () if self._root is None else ((str(self._root), _PACKAGE),)
        return ((self._scratch, _SCRATCH), *package)

    def path(self, source: Source) -> tuple[str, str | None]:
        """Where the box sees it, and the host's file to `forget` when that was made for the purpose. OSError: it cannot be
        read."""
        if isinstance(source, Path) and self._root is not None:
            inside = os.path.relpath(os.path.realpath(source), self._root)
            if not inside.startswith("../") and _all_may_read(self._root, inside):
                return f"{_PACKAGE}/{inside}", None
        name = str(next(self._numbers))
        place = os.path.join(self._scratch, name)
        with open(place, "xb") as file:
            if isinstance(source, bytes):
                file.write(source)
            else:
                with open(source, "rb") as original:
                    shutil.copyfileobj(original, file)
            os.fchmod(file.fileno(), 0o644)
        return f"{_SCRATCH}/{name}", place

    @staticmethod
    def forget(*places: str | None) -> None:
        for place in places:
            if place is not None:
                os.unlink(place)

    def close(self) -> None:
        """Harmless when repeated."""
        shutil.rmtree(self._outer, ignore_errors=True)
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _new_place() -> tuple[str, int]:
    """A directory, and a descriptor of it that holds its lock: one that nobody holds was left by a judge that was killed, and is
    taken away here."""
    _sweep()
    while True:
        place = tempfile.mkdtemp(prefix=_PREFIX)
        try:
            held = os.open(place, _DIRECTORY)
        except FileNotFoundError:  # somebody took it for one that was left
            continue
        fcntl.flock(held, fcntl.LOCK_EX)
        if os.path.exists(place):
            return place, held
        os.close(held)


def _sweep() -> None:
    with os.scandir(tempfile.gettempdir()) as listing:
        found = [entry.path for entry in listing if entry.name.startswith(_PREFIX)]
    for place in found:
        try:
            held = os.open(place, _DIRECTORY)
        except OSError:  # gone, somebody else's, or no directory
            continue
        try:
            if os.fstat(held).st_uid == os.geteuid():
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(place, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(held)


def _all_may_read(root: Path, inside: str) -> bool:
    """Whether a guest can: it is its host's user, or (of root) somebody who has no rights of his own."""
    if os.geteuid() != 0:
        return True
    place = str(root)
    for name in ("", *inside.split("/")):
        place = os.path.join(place, name) if name else place
        mode = os.stat(place).st_mode
        if not mode & (stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH):
            return False
    return True
