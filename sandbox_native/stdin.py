"""What `stdin=` may be, opened and checked. Host process, before the box is started.

A path or descriptor is read by the host and relayed, never handed to the guest: a guest with the same uid could open it again for
writing through /proc/self/fd/0.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass

from sandbox_native.errors import PolicyError, SetupError

Data = bytes | bytearray | memoryview
Input = Data | str | os.PathLike[str] | int | None


@dataclass(slots=True)
class Source:
    """Bytes, or a descriptor to read from; neither: stdin is empty."""

    data: Data | None = None
    fd: int = -1
    owned: bool = False  # `fd` was opened here

    @property
    def is_nothing(self) -> bool:
        return self.data is None and self.fd < 0

    def close(self) -> None:
        if self.owned:
            self.owned = False
            os.close(self.fd)


NOTHING = Source()


def open_source(stdin: Input) -> Source:
    """PolicyError for what is not there, cannot be read, or is a directory."""
    if stdin is None:
        return NOTHING
    if isinstance(stdin, memoryview) and not stdin.c_contiguous:
        return Source(data=stdin.tobytes())
    if isinstance(stdin, (bytes, bytearray, memoryview)):
        return Source(data=stdin)
    if isinstance(stdin, int) and not isinstance(stdin, bool):
        _check(stdin, stdin)
        return Source(fd=stdin)
    if isinstance(stdin, (str, os.PathLike)):
        return _open(stdin)
    raise PolicyError(
        f"not {type(stdin).__name__}", field="stdin", value=stdin, remedy="give None, bytes, a path or a descriptor"
    )


def _open(path: str | os.PathLike[str]) -> Source:
    try:
        # O_NONBLOCK: a FIFO that nobody writes must not hold the run up before it has a deadline.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            raise SetupError("stdio", error.errno, "stdin", "the host has no descriptors left") from error
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise PolicyError(reason, field="stdin", value=path, remedy="name a file that the host can read") from error
    try:
        _check(fd, path)
    except PolicyError:
        os.close(fd)
        raise
    return Source(fd=fd, owned=True)


def _check(fd: int, value: object) -> None:
    try:
        mode = os.fstat(fd).st_mode
    except (OSError, OverflowError) as error:
        raise PolicyError("not an open descriptor", field="stdin", value=value) from error
    if stat.S_ISDIR(mode):
        raise PolicyError("is a directory", field="stdin", value=value, remedy="name a file")
