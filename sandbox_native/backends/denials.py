"""One run's refused calls: asks the launcher for a supervisor, gives its socket to the box, and reads at the end what it noted.
Host process.

Made by given.py for the runs of a policy with `explain`; the supervisor is csrc/launcher/supervise.c. It ends by itself with its
run.
"""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sandbox_native import home
from sandbox_native._native import ffi, lib
from sandbox_native.backends.engine import Engine
from sandbox_native.backends.native import call_name
from sandbox_native.denials import Denial
from sandbox_native.errors import SetupError
from sandbox_native.local_look import LocalLook
from sandbox_native.receipt import Ground
from sandbox_native.refused_calls import Noted, denial_of
from sandbox_native.refused_paths import PathRules

_WAIT_MS: Final = 2_000  # after the report nobody has the filter any more
_SIZE: Final = ffi.sizeof("struct sn_denials")


class Explained:
    """`socket` is for the box, until it has been started. Every step is harmless when repeated."""

    __slots__ = ("_ground", "_memory", "_supervisor", "socket")

    def __init__(self, engine: Engine, ground: Ground) -> None:
        """SetupError when there is no supervisor to be had."""
        self._ground = ground
        self.socket = self._memory = self._supervisor = -1
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self.socket = ours.detach()
        try:
            with theirs:
                self._memory = os.memfd_create("sandbox-native-denials", os.MFD_CLOEXEC)
                os.ftruncate(self._memory, _SIZE)
                self._supervisor = engine.explain(theirs.fileno(), self._memory)
        except BaseException:
            self.close()
            raise

    def started(self) -> None:
        """The box has the socket."""
        fd, self.socket = self.socket, -1
        if fd >= 0:
            os.close(fd)

    def denials(self) -> tuple[Denial, ...]:
        """Of a run that is over. SetupError when the supervisor ended before it: what the guest then tried nobody knows."""
        told = self._told()
        if told.version != lib.SN_WIRE_VERSION or told.state != lib.SN_DENIALS_DONE:
            raise SetupError("explain", errno.EPIPE, "supervisor", "it was ended before the run: run it again")
        policy = self._ground.policy
        rules = PathRules(policy, self._ground.shown, LocalLook().kind, home.named_secrets())
        noted = [_noted(told.item[at]) for at in range(told.count)]
        found = [
            rules.denial_of(one) if one.error is not None and one.error < 0 else denial_of(one, policy.syscalls) for one in noted
        ]
        return tuple(_merged(one for one in found if one is not None)) + _lost(told.lost)

    def _told(self) -> Any:
        """A struct sn_denials that nobody writes any more."""
        watched = select.poll()
        watched.register(self._supervisor, select.POLLIN)
        if not watched.poll(_WAIT_MS):
            self._kill()
        told = ffi.new("struct sn_denials *")
        ffi.memmove(told, os.pread(self._memory, _SIZE, 0), _SIZE)
        return told

    def _kill(self) -> None:
        try:
            signal.pidfd_send_signal(self._supervisor, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def close(self) -> None:
        """The run is over, or never was."""
        self.started()
        if self._supervisor >= 0:
            self._kill()
        self.abandon()

    def abandon(self) -> None:
        """In a forked child of the host: the run is the parent's."""
        for name in ("socket", "_memory", "_supervisor"):
            fd = getattr(self, name)
            if fd >= 0:
                setattr(self, name, -1)
                os.close(fd)


def _noted(item: Any) -> Noted:
    """From a struct sn_denial."""
    other, _, rest = bytes(ffi.buffer(item.other)).partition(b"\0")
    return Noted(
        name=call_name(item.arch, item.nr),
        number=item.nr,
        error=None if item.error == lib.SN_DENIAL_ENDED else item.error,
        count=item.count,
        arguments=tuple(item.args),
        path=os.fsdecode(ffi.string(item.path)),
        other=os.fsdecode(other),
        word=os.fsdecode(rest.partition(b"\0")[0]),
    )


def _merged(denials: Iterable[Denial]) -> Iterator[Denial]:
    """Denials of one thing for one reason are one, with the calls by which it was tried."""
    groups: dict[object, list[Denial]] = {}
    for one in denials:
        what = one.arguments if one.kind == "syscall" else ""
        groups.setdefault((one.kind, one.name, what, one.reason, one.allow), []).append(one)
    for group in groups.values():
        words = ", ".join(dict.fromkeys(one.arguments for one in group))
        first = group[0]
        yield Denial(
            kind=first.kind,
            name=first.name,
            arguments=words,
            reason=first.reason,
            count=sum(one.count for one in group),
            allow=first.allow,
        )


def _lost(count: int) -> tuple[Denial, ...]:
    if not count:
        return ()
    reason = "more kinds of them than are kept"
    return (Denial(kind="syscall", name="others", reason=reason, count=count),)
