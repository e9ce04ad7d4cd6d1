"""A piece of a test in a forked process that is killed with SIGKILL when it comes to its n-th change of a file system.

An audit hook (PEP 578) counts: the interpreter calls it before each rename, open, mkdir, unlink and so on, so every state that a
kill can leave between two of them is reached, and the code under test has no part in it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import scope

_COUNTED = frozenset(
    {
        *("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.chmod", "os.chown", "os.utime"),
        *("os.setxattr", "os.removexattr", "os.truncate"),
    }
)


def killed_at(number: int, work: Callable[[], object]) -> bool:
    """Whether `work` was killed at its change number `number`, counted from 0; else it came to its end."""

    def counted() -> None:
        left = number

        def hook(event: str, args: object) -> None:
            nonlocal left
            if event not in _COUNTED:
                return
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1

        sys.addaudithook(hook)
        work()

    _, status = os.waitpid(scope.child(counted), 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        return True
    assert status == 0, f"wait status {status}"
    return False
