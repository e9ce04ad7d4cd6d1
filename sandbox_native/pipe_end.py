"""PipeEnd: one end of a pipe that the guest itself gets, so that two guests, or a guest and another process, are joined by the
kernel. Public; every system.

A guest that has a descriptor can do more than read or write it: reopen what it leads to through /proc/self/fd, change flags that
all who share the open file see, receive other descriptors. Of an anonymous pipe's end none of that leads anywhere: by name there
is only the same pipe, which holds what the guest writes or may read anyway. A file, a terminal, a socket or a FIFO with a name
is refused for that reason.
"""

from __future__ import annotations

import fcntl
import functools
import os
import stat
from dataclasses import dataclass
from typing import Final, Literal

from sandbox_native.errors import PolicyError

_REMEDY: Final = "give an end of os.pipe()"


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """For `stdin=` (the reading end) and `stdout=` (the writing one) of `Sandbox.run` and `spawn`: the guest's own descriptor.

    `fd` stays the caller's, who closes it once the run was spawned: the guest sees the end of its input, or EPIPE, when nobody
    else holds the other end, and it shares the open file, O_NONBLOCK included, with whoever keeps this one. Nothing that goes
    through it is captured, counted or bounded.
    """

    fd: int


def check(field: Literal["stdin", "stdout"], end: PipeEnd) -> int:
    """The descriptor. PolicyError for what is no end of an anonymous pipe, is the wrong end, or does not block."""
    wanted, name = (os.O_RDONLY, "reading") if field == "stdin" else (os.O_WRONLY, "writing")
    if not isinstance(end, PipeEnd):
        raise _refused(field, end, "not a PipeEnd", "give PipeEnd(an end of os.pipe())")
    fd = end.fd
    if isinstance(fd, bool) or not isinstance(fd, int):
        raise _refused(field, fd, "not a descriptor")
    try:
        status, flags = os.fstat(fd), fcntl.fcntl(fd, fcntl.F_GETFL)
    except (OSError, OverflowError) as error:
        raise _refused(field, fd, "not an open descriptor") from error
    if not stat.S_ISFIFO(status.st_mode) or status.st_dev != _pipes():
        raise _refused(field, fd, "not an end of an anonymous pipe")
    if flags & os.O_ACCMODE != wanted:
        raise _refused(field, fd, f"not the {name} end")
    if flags & os.O_NONBLOCK:
        raise _refused(field, fd, "it does not block, and programs expect that it does", "call os.set_blocking(fd, True) first")
    return fd


def _refused(field: str, fd: object, reason: str, remedy: str = _REMEDY) -> PolicyError:
    return PolicyError(reason, field=field, value=fd, remedy=remedy)


@functools.cache
def _pipes() -> int:
    """The device of all anonymous pipes, by which one with a name is told from them."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for fd in ends:
            os.close(fd)
