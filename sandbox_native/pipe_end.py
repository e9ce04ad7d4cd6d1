"""PipeEnd: one end of a pipe that the guest itself gets, so that two guests, or a guest and another process, are joined by the
kernel. Public; every system.

A guest that has a descriptor can do more than read or write it: reopen what it leads to through /proc/self/fd, change flags that
all who share the open file see, receive other descriptors. Of an anonymous pipe's end none of that leads anywhere: by name there
is only the same pipe, which holds what the guest writes or may read anyway. A file, a terminal, a socket or a FIFO with a name
is refused for that reason.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import stat
from dataclasses import dataclass, field
from typing import Final, Literal

from sandbox_native.errors import PolicyError, SetupError

_REMEDY: Final = "give an end of os.pipe()"
_KEEP: Final = "keep it open until the run has begun"
_Field = Literal["stdin", "stdout"]


@dataclass(frozen=True, slots=True)
class PipeEnd:
    """For `stdin=` (the reading end) and `stdout=` (the writing one) of `Sandbox.run` and `spawn`: the guest's own descriptor.

    `fd` stays the caller's, who closes it once the run has begun: when `spawn` has returned, and of a job that may have to wait
    for its turn, when its outcome is there. The guest gets its copy at that moment; what has the number by then is refused unless
    it is the pipe for which the PipeEnd was made. The guest sees the end of its input, or EPIPE, when nobody else holds the other
    end, and it shares the open file, O_NONBLOCK included, with whoever keeps this one. Nothing that goes through it is captured,
    counted or bounded.
    """

    fd: int
    _inode: int = field(init=False, repr=False, compare=False)  # -1: it was nothing; `check` says so

    def __post_init__(self) -> None:
        try:
            inode = os.fstat(self.fd).st_ino
        except (OSError, OverflowError, TypeError):
            inode = -1
        object.__setattr__(self, "_inode", inode)


def check(name: _Field, end: PipeEnd) -> PipeEnd:
    """PolicyError for what is no end of an anonymous pipe, is another pipe by now, is the wrong end, or does not block."""
    if not isinstance(end, PipeEnd):
        raise _refused(name, end, "not a PipeEnd", "give PipeEnd(an end of os.pipe())")
    if isinstance(end.fd, bool) or not isinstance(end.fd, int):
        raise _refused(name, end.fd, "not a descriptor")
    _check(name, end, end.fd)
    return end


def copy(name: _Field, end: PipeEnd) -> int:
    """For the run that begins: a descriptor, the caller's to close. Errors as of `check`; SetupError when none is left."""
    check(name, end)  # closing even a copy of a file would undo the host's locks on it
    try:
        fd = os.dup(end.fd)
    except OSError as error:
        if error.errno == errno.EBADF:
            raise _refused(name, end.fd, "not an open descriptor", f"{_REMEDY}; {_KEEP}") from error
        raise SetupError("stdio", error.errno or 0, name, "the host has no descriptors left") from error
    try:
        _check(name, end, fd)  # what the guest gets, whatever another thread does with the number
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(name: _Field, end: PipeEnd, fd: int) -> None:
    wanted, which = (os.O_RDONLY, "reading") if name == "stdin" else (os.O_WRONLY, "writing")
    try:
        status, flags = os.fstat(fd), fcntl.fcntl(fd, fcntl.F_GETFL)
    except (OSError, OverflowError) as error:
        raise _refused(name, end.fd, "not an open descriptor", f"{_REMEDY}; {_KEEP}") from error
    if status.st_ino != end._inode:
        raise _refused(name, end.fd, "something else since the PipeEnd was made", _KEEP)
    if not stat.S_ISFIFO(status.st_mode) or status.st_dev != _pipes():
        raise _refused(name, end.fd, "not an end of an anonymous pipe")
    if flags & os.O_ACCMODE != wanted:
        raise _refused(name, end.fd, f"not the {which} end")
    if flags & os.O_NONBLOCK:
        raise _refused(name, end.fd, "it does not block, which programs expect", "call os.set_blocking(fd, True) first")


def _refused(name: str, fd: object, reason: str, remedy: str = _REMEDY) -> PolicyError:
    return PolicyError(reason, field=name, value=fd, remedy=remedy)


@functools.cache
def _pipes() -> int:
    """The device of all anonymous pipes, by which one with a name is told from them."""
    ends = os.pipe()
    try:
        return os.fstat(ends[0]).st_dev
    finally:
        for fd in ends:
            os.close(fd)
