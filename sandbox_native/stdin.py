"""What `stdin=` may be, opened and checked. Host process, before the box is started.

A path or descriptor is read by the host and relayed, never handed to the guest: a guest with the same uid could open it again for
writing through /proc/self/fd/0. The one exception is a PipeEnd: there is nothing else to open by it.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import Protocol

from sandbox_native import pipe_end
from sandbox_native.errors import PolicyError, SetupError
from sandbox_native.pipe_end import PipeEnd

Data = bytes | bytearray | memoryview


class File(Protocol):
    """What has a descriptor: an open file, a socket, one end of a pipe."""

    def fileno(self) -> int: ...


Input = Data | str | os.PathLike[str] | int | File | PipeEnd | None


@dataclass(slots=True)
class Source:
    """Bytes, a descriptor to read from, or an end of a pipe; none of them: stdin is empty."""

    data: Data | None = None
    fd: int = -1
    owned: bool = False  # `fd` was opened here
    end: PipeEnd | None = None  # for the guest itself: nothing is relayed
    is_file: bool = False  # opened here, and can be read again from its beginning
    keep: object = None  # whose descriptor `fd` is: it would close it when it is forgotten

    @property
    def is_read(self) -> bool:
        """Whether some of it may be gone once a run has begun."""
        return self.fd >= 0 and not self.is_file

    def rewind(self) -> None:
        """For a run that is begun again."""
        if self.is_file:
            os.lseek(self.fd, 0, os.SEEK_SET)

    @property
    def is_nothing(self) -> bool:
        return self.data is None and self.fd < 0 and self.end is None

    def close(self) -> None:
        if self.owned:
            self.owned = False
            os.close(self.fd)


NOTHING = Source()
_KINDS = "give None, bytes, a path, a PipeEnd, or a descriptor or file that is open for reading"


def open_source(stdin: Input) -> Source:
    """PolicyError for what is not there, cannot be read, or is a directory."""
    if stdin is None:
        return NOTHING
    if isinstance(stdin, memoryview) and not stdin.c_contiguous:
        return Source(data=stdin.tobytes())
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return Source(data=stdin)
    if isinstance(stdin, PipeEnd):
        return Source(end=pipe_end.check("stdin", stdin))
    if isinstance(stdin, bool):
        raise PolicyError("not a descriptor", field="stdin", value=stdin, remedy=_KINDS)
    if isinstance(stdin, int):
        _check(stdin, stdin)
        return Source(fd=stdin)
    if isinstance(stdin, (str, os.PathLike)):
        return _open(stdin)
    if callable(getattr(stdin, "fileno", None)):
        return _of_file(stdin)
    raise PolicyError(f"not {type(stdin).__name__}", field="stdin", value=stdin, remedy=_KINDS)


def _of_file(file: File) -> Source:
    """Read from where its descriptor is: what the object has read ahead is not the guest's."""
    try:
        fd = file.fileno()
    except (OSError, ValueError) as error:  # io.BytesIO and kin have none (UnsupportedOperation); a closed file
        raise PolicyError(f"it has no descriptor ({error})", field="stdin", value=file, remedy=_KINDS) from error
    _check(fd, file)
    return Source(fd=fd, keep=file)


def _open(path: str | os.PathLike[str]) -> Source:
    try:
        # O_NONBLOCK: a FIFO that nobody writes must not hold the run up before it has a deadline.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise SetupError("stdio", error.errno, "stdin", "the host has no descriptors left") from error
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise PolicyError(reason, field="stdin", value=path, remedy=_readable(path)) from error
    try:
        mode = _check(fd, path)
    except PolicyError:
        os.close(fd)
        raise
    return Source(fd=fd, owned=True, is_file=stat.S_ISREG(mode))


def _readable(path: object) -> str:
    words = "name a file that the host can read"
    return f"{words}; a str is a path (text? use .encode())" if isinstance(path, str) else words


def _check(fd: int, value: object) -> int:
    """Its mode."""
    try:
        mode = os.fstat(fd).st_mode
    except (OSError, OverflowError) as error:
        raise PolicyError("not an open descriptor", field="stdin", value=value) from error
    if stat.S_ISDIR(mode):
        raise PolicyError("is a directory", field="stdin", value=value, remedy="name a file")
    return mode
