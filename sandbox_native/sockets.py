"""Unix sockets of the host in what a policy shows: whether there are any, and what that means for a root. Linux, host process.

A read-only bind does not stop a guest from connecting to a socket, and whoever listens there (ssh-agent, D-Bus, Docker) takes it
for the caller; nor from writing into a FIFO. Through an overlay there is nobody behind either. So roots that a guest reads are
shown that way when a bounded look finds one, or does not come to an end; for a root that it writes directly there is no such way,
and the policy is refused where somebody listens at a socket, or the look does not come to an end.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.policy import Policy, Writes
from sandbox_native.survey import Bound, Survey

READABLE: Final = Bound(names=50_000, seconds=0.1)
"""For a root that can be shown through an overlay instead: a larger look would cost more than it gains."""
SYSTEM: Final = Bound(names=5_000, seconds=0.01)
"""The same for what every box has: where each Sandbox begins."""
WRITABLE: Final = Bound(names=1_000_000, seconds=5.0)
"""For one that cannot, a run's workspace among them, and where there are no overlays: what is not searched is refused."""

_SHOWN: Final = 3  # names in a message


def looks(policy: Policy, *, writable: bool) -> bool:
    """Whether a root has to be searched for sockets."""
    if policy.host_sockets == "show":
        return False
    return policy.writes is Writes.DIRECT if writable else policy.host_sockets == "scan"


def refuse_living(root: int, survey: Survey, field: str, value: str) -> None:
    """PolicyError when somebody listens at a socket that a guest with direct access to the directory `root` could connect to,
    or when the look at it did not come to an end.

    What an earlier guest left is no reason: nobody is behind it.
    """
    living = [path for path in survey.sockets if is_alive(root, path)]
    remedy = 'give writes=Writes.COMMIT, name a directory without it, or give host_sockets="show" to leave it in reach'
    if living:
        more = f" and {len(living) - _SHOWN} more" if len(living) > _SHOWN else ""
        reason = f"holds a Unix socket that somebody listens at: {', '.join(living[:_SHOWN])}{more}"
        raise PolicyError(reason, field=field, value=value, remedy=remedy)
    if not survey.complete:
        reason = "has more in it than can be searched for Unix sockets"
        raise PolicyError(reason, field=field, value=value, remedy=remedy.replace("without it", "with less in it"))


def is_alive(root: int, path: str) -> bool:
    """Whether somebody is behind a socket beneath the directory `root`.

    A datagram socket's connect asks without being noticed: nothing is sent, and one that listens for streams answers
    EPROTOTYPE. When the answer is unclear, somebody is.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except FileNotFoundError:
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ask:
            ask.connect(f"/proc/self/fd/{fd}")  # its path may be longer than an address can be
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise
        return error.errno not in (errno.ECONNREFUSED, errno.ENOENT)
    finally:
        os.close(fd)
    return True
