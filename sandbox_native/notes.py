"""What was absent when a run with direct writes began, in a note beside the root: for when the host is killed before it can
settle. Linux, host process; called by run_checks.py, and by commit/recovery.py for whoever asks.

A note is a file of the caller's, of mode 0600, in a directory of mode 0700 that is named like the quarantine and by the root's
inode. The host holds a lock on it as long as the run lasts, so one that can be locked is of a host that is gone. It is settled
like a run that ends: what was absent is moved away. What was there was a mount point then, and needs nothing.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sandbox_native.denials import Denial
from sandbox_native.descent import DIRECTORY
from sandbox_native.environment import WORKSPACE
from sandbox_native.mandatory import QUARANTINE, join
from sandbox_native.policy import Policy
from sandbox_native.protection import Protection
from sandbox_native.quarantine import quarantine
from sandbox_native.quarantine_places import above_of, beside, ours
from sandbox_native.snapshots import State, look_softly

_READ: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITE: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LARGEST: Final = 16 << 20
_TRIES: Final = 8  # others remove the directory when they leave it
_NOWHERE: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.ENOLCK, errno.EOPNOTSUPP)
_TURNED: Final = "a link that leads elsewhere since a run whose host was killed: look at it before you trust it"


@dataclass(slots=True)
class Note:
    """One that is written. `remove` it when the run is settled; `close` leaves it."""

    name: str
    directory: int
    file: int

    def remove(self) -> None:
        """Harmless when repeated."""
        if self.file < 0:
            return
        try:
            os.unlink(self.name, dir_fd=self.directory)
        except FileNotFoundError:
            pass
        _remove_empty(self.directory)
        self.close()

    def close(self) -> None:
        fds, self.directory, self.file = (self.directory, self.file), -1, -1
        for fd in fds:
            if fd >= 0:
                os.close(fd)


class Notes:
    """Of one root, in the nearest directory above it that no guest of a policy sees. A context manager."""

    def __init__(self, root: int, shown: Iterable[str]) -> None:
        """`root` stays the caller's; `shown` are host directories that guests see."""
        self._root, self._above = root, beside(root, tuple(shown))
        self._name = _name(root)

    def __enter__(self) -> Notes:
        return self

    def __exit__(self, *error: object) -> None:
        if self._above is not None:
            os.close(self._above)

    def settle(self, policy: Policy, inside: str) -> tuple[Denial, ...]:
        """What is left of hosts that are gone."""
        return () if self._above is None else tuple(_settle(self._root, self._above, self._name, policy, inside))

    def write(self, absent: frozenset[str], before: Mapping[str, State]) -> Note | None:
        """None where nothing can be written beside the root."""
        if self._above is None:
            return None
        there = {path: [state.kind, state.text] for path, state in before.items() if path not in absent}
        data = json.dumps({"absent": sorted(absent), "there": there}).encode("ascii")
        for _ in range(_TRIES):
            try:
                if (note := _written(self._above, self._name, data)) is not None:
                    return note
            except OSError as error:
                if error.errno in _NOWHERE:
                    return None
                raise
        return None


def settle_all(root: int) -> bool:
    """Whether there was anything left beside the directory `root`, whatever policy the host had that is gone."""
    found = False
    for above in above_of(root):
        try:
            for _ in _settle(root, above, _name(root), Policy.strict(), WORKSPACE):
                found = True
        finally:
            os.close(above)
    return found


def _name(root: int) -> str:
    return f"{QUARANTINE}-{os.fstat(root).st_ino}"


def _written(above: int, name: str, data: bytes) -> Note | None:
    """None when somebody removed the directory meanwhile, or has our note for one that was left."""
    try:
        os.mkdir(name, 0o700, dir_fd=above)
    except FileExistsError:
        pass
    if (directory := ours(above, name)) is None:
        return None
    note = Note(os.urandom(6).hex(), directory, -1)
    try:
        note.file = os.open(note.name, _WRITE, 0o600, dir_fd=directory)
        fcntl.flock(note.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(note.file).st_nlink:
            os.write(note.file, data)
            return note
    except (FileNotFoundError, BlockingIOError):
        pass
    except BaseException:
        note.remove()
        note.close()
        raise
    note.close()
    return None


def _settle(root: int, above: int, name: str, policy: Policy, inside: str) -> Iterator[Denial]:
    if look_softly(above, name) is None or (directory := ours(above, name)) is None:
        return
    try:
        for one in os.listdir(directory):
            if (file := _abandoned(directory, one)) is not None:
                try:
                    yield from _settled(root, os.read(file, _LARGEST), policy, inside)
                    os.unlink(one, dir_fd=directory)
                finally:
                    os.close(file)
        _remove_empty(directory)
    finally:
        os.close(directory)


def _abandoned(directory: int, name: str) -> int | None:
    """A note that is ours by now; None for one whose host is at work, or that is gone."""
    try:
        file = os.open(name, _READ, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EISDIR, errno.ENXIO):
            return None
        raise
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def _settled(root: int, data: bytes, policy: Policy, inside: str) -> Iterator[Denial]:
    try:
        told = json.loads(data)
        absent = frozenset(map(str, told["absent"]))
        there = {str(path): (kind, text) for path, (kind, text) in told["there"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):  # its host was killed before it had a guest
        return
    before: dict[str, State] = {}
    for path, (kind, text) in there.items():
        now = look_softly(root, path)
        if now is not None and kind == "link":
            before[path] = now  # nobody puts a link where a file says so
            if (now.kind, now.text) != (kind, text):
                yield Denial(kind="quarantine", name=join(inside, path), arguments="", reason=_TURNED)
        elif now is not None:
            before[path] = now if now.kind == kind else State(kind, 0, 0)
    protection = Protection(names=absent, denied=absent, before=before, guards=(), watched=False)
    yield from quarantine(root, protection, policy, inside=inside)


def _remove_empty(directory: int) -> None:
    """Where others have notes too, it stays."""
    try:
        above = os.open("..", DIRECTORY, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return
    try:
        os.rmdir(os.path.basename(os.readlink(f"/proc/self/fd/{directory}")), dir_fd=above)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST, *_NOWHERE):
            raise
    finally:
        os.close(above)
