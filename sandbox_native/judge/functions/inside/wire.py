"""Messages between the examiner and the program, over two pipes: a size, then that many bytes. In both boxes.

A question begins with a nonce, and its answer with the same: what was written before the question was read, or a second time,
or by another process later, is no answer to the next one.
"""

from __future__ import annotations

import os
import struct

NONCE_BYTES = 8
_SIZE = struct.Struct("<I")
_CHUNK = 1 << 16
SLACK = 1 << 12
"""Bytes of a message beside its values."""


class Broken(Exception):
    """The other side is gone, or wrote what is no message; the text says which."""


class Line:
    def __init__(self, reading: int, writing: int, most: int) -> None:
        """`most`: bytes of a message that is read."""
        self._reading, self._writing, self._most = reading, writing, most

    def send(self, message: bytes) -> None:
        rest = memoryview(_SIZE.pack(len(message)) + message)
        try:
            while rest:
                rest = rest[os.write(self._writing, rest) :]
        except OSError as error:
            raise Broken("gone") from error

    def receive(self) -> bytes:
        """The next message; Broken also when more than one is there, since nobody asked for a second."""
        data = bytearray()
        size = _SIZE.size
        while len(data) < size:
            part = os.read(self._reading, _CHUNK)
            if not part:
                raise Broken("gone")
            data += part
            if size == _SIZE.size and len(data) >= size:
                size += _SIZE.unpack_from(data)[0]
                if size - _SIZE.size > self._most:
                    raise Broken(f"more than {self._most} bytes at once")
        if len(data) > size:
            raise Broken("more than was asked for")
        return bytes(data[_SIZE.size :])
