"""run(): a Sandbox for each policy, kept between calls. Public; every system.

The Sandboxes close themselves when the interpreter ends, and make their launchers anew after a fork; see sandbox.py.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Unpack

from sandbox_native.arguments import checked_policy
from sandbox_native.options import RunOptions
from sandbox_native.policy import Policy
from sandbox_native.request import Argument
from sandbox_native.result import Result
from sandbox_native.sandbox import Sandbox

_KEPT: Final = 8


def run(argv: Sequence[Argument], *, policy: Policy | None = None, **options: Unpack[RunOptions]) -> Result:
    """Runs a program in a box of its own and waits for its end; arguments, result and errors as in `Sandbox.run`.

    The launcher that the first run with a policy starts is kept for the next ones: up to 8 of them, the one that was not
    used for the longest time goes first. From any thread.
    """
    with _CACHE.lent(checked_policy(policy)) as sandbox:
        return sandbox.run(argv, **options)


def close_cached() -> None:
    """Closes what `run` keeps; a later `run` starts anew."""
    _CACHE.close()


class _Cache:
    """Sandboxes by policy, last used last. One that is in use is not closed to make room: there may be more than 8 then."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Policy, Sandbox] = OrderedDict()
        self.forget_users()

    def forget_users(self) -> None:
        """In a forked child of the host: those who hold the lock, or a Sandbox, are not here."""
        self._lock = threading.RLock()  # a signal handler may run something too
        self._users: dict[Policy, int] = {}

    @contextmanager
    def lent(self, policy: Policy) -> Iterator[Sandbox]:
        with self._lock:
            sandbox = self._kept.get(policy)
            if sandbox is None:
                sandbox = self._kept[policy] = Sandbox(policy)
            self._kept.move_to_end(policy)
            self._users[policy] = self._users.get(policy, 0) + 1
            surplus = self._surplus()
        try:
            for other in surplus:
                other.close()
            yield sandbox
        finally:
            with self._lock:
                users = self._users.pop(policy, 1) - 1
                if users:
                    self._users[policy] = users

    def _surplus(self) -> list[Sandbox]:
        over = len(self._kept) - _KEPT
        idle = [policy for policy in self._kept if policy not in self._users] if over > 0 else []
        return [self._kept.pop(policy) for policy in idle[:over]]

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, OrderedDict()
        for sandbox in kept.values():
            sandbox.close()


_CACHE: Final = _Cache()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_CACHE.forget_users)
