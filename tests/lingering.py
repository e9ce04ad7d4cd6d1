"""A descriptor and a mapping that take long to go: the kernel gives number and address free at once, and returns later."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

_LINGER_SECONDS = 600  # more than any test waits
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]


@contextmanager
def _unsent() -> Iterator[int]:
    """Whose last reference waits for its peer, which reads nothing until the end of this."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as ours:
        peer, _ = server.accept()
        with peer:
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, _LINGER_SECONDS))
            ours.setblocking(False)
            try:
                while True:
                    ours.send(bytes(1 << 20))
            except BlockingIOError:
                pass
            yield ours.detach()


@contextmanager
def descriptor() -> Iterator[int]:
    """Closing it returns when this ends."""
    with _unsent() as fd:
        yield fd


@contextmanager
def mapping(size: int) -> Iterator[int]:
    """Its address: unmapping it returns when this ends."""
    with _unsent() as fd:
        address = _LIBC.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        assert address not in (None, ctypes.c_void_p(-1).value), os.strerror(ctypes.get_errno())
        os.close(fd)
        yield address


def is_open(fd: int) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")


def is_mapped(address: int) -> bool:
    spans = (line.split()[0].split("-") for line in Path("/proc/self/maps").read_text().splitlines())
    return any(int(first, 16) <= address < int(last, 16) for first, last in spans)


@contextmanager
def ending(work: Callable[[], object], still_there: Callable[[], bool]) -> Iterator[None]:
    """In the middle of `work`, in another thread: what it ends is gone, and it has not returned."""
    thread = Thread(target=work)
    thread.start()
    while still_there():
        assert thread.is_alive()
    assert thread.is_alive()
    yield
    assert thread.is_alive()
