"""A wait in C that may last minutes, in a thread of its own: a signal handler (Ctrl-C) can end it. Host process."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable


def patiently(wait: Callable[[], int], control: int) -> int:
    """What `wait` returns. An exception in the caller's thread shuts the socket down, which ends the wait, and comes through."""
    found: list[int] = []
    done = threading.Event()  # Thread.join takes a thread for ended when a signal handler raises in it, before Python 3.13

    def work() -> None:
        try:
            found.append(wait())
        finally:
            done.set()

    threading.Thread(target=work, name="sandbox-native-start", daemon=True).start()
    try:
        done.wait()
    except BaseException:
        with socket.socket(fileno=os.dup(control)) as peer:
            peer.shutdown(socket.SHUT_RDWR)
        done.wait()
        raise
    return found[0]
