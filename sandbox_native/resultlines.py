"""A file of results, one JSON object a line, that a batch goes on with: which ids are finished, and every line whole.

Called by clibatch.py and by the judge's journal. One process at a time has it (flock). A line is written behind what is there,
and taken back when it cannot be written whole; a kill in the middle of one leaves its beginning without an end, which is taken
away when the file is opened again.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

from sandbox_native.errors import PolicyError, SandboxError
from sandbox_native.joblines import key_of

_BEGIN: Final = b'{"line": '  # of every line
_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_OTHER: Final = "name a file that does not exist, or one of an earlier batch"


class ResultFile:
    """A context manager. `finished`: the key (joblines.key_of) of every id that need not run again."""

    def __init__(
        self,
        path: str,
        *,
        field: str = "--results",
        on_finished: Callable[[dict[str, Any]], None] | None = None,
        check: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        """Opens or makes it. `PolicyError`: it cannot be opened, is no file, is another batch's just now, or holds what is no
        result; it names `field`. `on_finished` is told each line of a finished id that is there. `check` says why a line is no
        result of the caller's; nothing when it is one."""
        self._path, self._field, self._on_finished, self._check = path, field, on_finished, check
        self.finished: set[bytes] = set()
        self._told: set[bytes] = set()  # lines that hold an error
        try:
            self._fd = os.open(path, _FLAGS, 0o666)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            raise self._refused(_reason(error), "name a file that the host can write") from None
        try:
            self._claim()
            with open(os.dup(self._fd), "rb") as file:
                self._read(file)
        except BaseException:
            os.close(self._fd)
            raise

    def is_file(self, fd: int) -> bool:
        """Whether a descriptor is of this very file."""
        return os.path.sameopenfile(fd, self._fd)

    def write(self, told: dict[str, Any]) -> None:
        """The whole line or, with a `SandboxError`, nothing of it: there is no room. An error that the file has already is not
        written again. `told` begins with `line`."""
        line = json.dumps(told).encode() + b"\n"
        assert line.startswith(_BEGIN)
        if "error" in told:
            digest = _digest(line)
            if digest in self._told:
                return
            self._told.add(digest)
        begin, at = os.lseek(self._fd, 0, os.SEEK_END), 0
        try:
            while at < len(line):
                at += os.write(self._fd, line[at:] if at else line)
        except OSError as error:
            os.ftruncate(self._fd, begin)
            raise self._failed(error) from error

    def close(self) -> None:
        """`SandboxError` when the disk has not taken all of it, which some tell only now. Harmless when repeated."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        try:
            os.fsync(fd)
        except OSError as error:
            raise self._failed(error) from error
        finally:
            os.close(fd)

    def _failed(self, error: OSError) -> SandboxError:
        name = errno.errorcode.get(error.errno or 0, error.errno)
        return SandboxError(f"{self._path} cannot be written: {_reason(error)} ({name}); make room, and start the batch again")

    def _refused(self, reason: str, remedy: str) -> PolicyError:
        return PolicyError(reason, field=self._field, value=self._path, remedy=remedy)

    # ---- as it was found

    def _claim(self) -> None:
        if not stat.S_ISREG(os.fstat(self._fd).st_mode):
            raise self._refused("not a regular file", f"a batch goes on with what it finds there: {_OTHER}")
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._refused("another batch is at work on it", "wait for its end, or name another file") from None
        except OSError as error:
            raise self._refused(f"it cannot be locked: {_reason(error)}", "name a file on another disk") from None

    def _read(self, file: BinaryIO) -> None:
        end = 0
        for number, line in enumerate(file, 1):
            told = _parsed(line)
            if told is None and not line.endswith(b"\n") and _BEGIN.startswith(line[: len(_BEGIN)]):
                os.ftruncate(self._fd, end)
                return
            wrong = "" if told is None or self._check is None else self._check(told)
            if told is None or wrong:
                raise self._refused(f"line {number} is no result{wrong and f': {wrong}'}", _OTHER)
            end += len(line)
            if "error" in told:
                self._told.add(_digest(line))
            elif "id" in told and told.get("status") != "cancelled":
                self.finished.add(self._key(told["id"], number))
                if self._on_finished is not None:
                    self._on_finished(told)
        if end and not line.endswith(b"\n"):
            os.write(self._fd, b"\n")

    def _key(self, id: Any, number: int) -> bytes:
        try:
            return key_of(id)
        except (ValueError, RecursionError) as error:
            raise self._refused(f"line {number} is no result: no id: {error}", _OTHER) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return told if isinstance(told, dict) and "line" in told else None


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line.rstrip(b"\n"), digest_size=16).digest()


def _reason(error: Exception) -> str:
    return os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
