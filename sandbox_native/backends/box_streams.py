"""The streams of a run on Linux, as its struct sn_box keeps them between the guest and whoever reads. Host process.

The base of box.py's LinuxBox, which says who may call.
"""

from __future__ import annotations

import errno
from typing import Any

from sandbox_native import pipe_end
from sandbox_native._native import ffi, lib
from sandbox_native.backends.base import Job, Output
from sandbox_native.limits import Overflow


class BoxStreams:
    __slots__ = ("_bytes_taken", "_keep", "_raw")

    def __init__(self, job: Job) -> None:
        self._raw = raw = ffi.new("struct sn_box *")
        lib.sn_box_init(raw)
        self._bytes_taken = {Output.STDOUT: 0, Output.STDERR: 0}
        self._keep: Any = None  # what C reads from while the box runs
        limits = job.limits
        raw.flags = (
            (lib.SN_BOX_MERGE if job.merge_stderr else 0)
            | (lib.SN_BOX_KILL_ON_OVERFLOW if limits.on_overflow is Overflow.KILL else 0)
            | (lib.SN_BOX_STDIN_PIPE if job.pipe_stdin else 0)
        )
        raw.out.bound, raw.err.bound = limits.stdout_bytes, limits.stderr_bytes
        if job.stdin.data is not None:
            self._keep = data = ffi.from_buffer(job.stdin.data)
            raw.stdin_data, raw.stdin_size = ffi.cast("uint8_t *", data), len(data)
        elif job.stdin.fd >= 0:
            job.stdin.rewind()
            raw.stdin_source = job.stdin.fd

    def _take_ends(self, job: Job) -> None:
        """Just before the start: copies of the caller's ends for the guest. Errors as of `pipe_end.copy`."""
        if job.stdin.end is not None:
            self._raw.handed_in = pipe_end.copy("stdin", job.stdin.end)
        if job.stdout is not None:
            self._raw.handed_out = pipe_end.copy("stdout", job.stdout)

    def write(self, data: memoryview) -> int:
        taken = lib.sn_box_write(self._raw, ffi.cast("uint8_t *", ffi.from_buffer(data)), len(data))
        if taken < 0:
            raise BrokenPipeError(errno.EPIPE, "the guest has closed its stdin")
        return int(taken)

    def close_stdin(self) -> None:
        lib.sn_box_close_stdin(self._raw)

    def _stream(self, output: Output) -> Any:
        """struct sn_stream, of the box's own."""
        return self._raw.out if output is Output.STDOUT else self._raw.err

    def take(self, output: Output, size: int) -> bytes:
        stream = self._stream(output)
        size = min(size, stream.end - stream.start)
        if size <= 0:
            return b""
        room = ffi.new("uint8_t[]", size)
        taken = lib.sn_stream_take(ffi.addressof(stream), room, size)
        self._bytes_taken[output] += taken
        return bytes(ffi.buffer(room, taken))

    def peek(self, output: Output, size: int) -> bytes:
        stream = self._stream(output)
        size = min(size, stream.end - stream.start)
        return bytes(ffi.buffer(stream.data + stream.start, size)) if size > 0 else b""

    def is_open(self, output: Output) -> bool:
        return bool(self._stream(output).flags & lib.SN_STREAM_OPEN)

    def flow(self, output: Output, on: bool) -> None:
        stream = self._stream(output)
        stream.flags = stream.flags | lib.SN_STREAM_FLOW if on else stream.flags & ~lib.SN_STREAM_FLOW

    def _captured(self, output: Output) -> tuple[Any, bytes, bool]:
        stream = self._stream(output)
        kept = stream.end - stream.start
        data = bytes(ffi.buffer(stream.data + stream.start, kept)) if kept else b""
        return stream, data, stream.total > self._bytes_taken[output] + kept
