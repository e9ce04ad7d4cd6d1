"""The standard output of a command, where it cannot be written. Used by the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sandbox_native.errors import SandboxError


class Unwritable(SandboxError):
    """The standard output cannot be written; the text says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"stdout: {reason}; give it a file or a pipe that takes what is written, or /dev/null")


@contextmanager
def printing() -> Iterator[None]:
    """For what prints; all of it is written at the end. Unwritable; BrokenPipeError as it comes."""
    if sys.stdout is None:
        raise Unwritable("it is closed")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        forget()
        raise Unwritable(os.strerror(error.errno or 0)) from error


def forget() -> None:
    """What Python still holds for it must not fail once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
