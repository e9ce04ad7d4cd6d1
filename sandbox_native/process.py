"""Process: a run that has been started, from `Sandbox.spawn`. Public; every system.

Nobody pumps the streams in the background: whoever reads, writes or waits does it, in short turns, so that several threads can
use one Process. Init keeps the limits on its own, also when nobody calls.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Final, Self

from sandbox_native.backends.base import Box, Output
from sandbox_native.errors import SandboxError, SetupError
from sandbox_native.result import Result
from sandbox_native.stdin import Data, Source

_TURN_MS: Final = 20  # how long one thread may keep the others waiting
_CHUNK: Final = 1 << 20


class Process:
    """A run that goes on while the host does other things. A context manager; safe in threads.

    `stdin` is a Writer, or None where spawn was given a stdin. `stdout` and `stderr` are Readers. What a reader took is not
    in the Result; what nobody took is, up to its bound. A stream that somebody reads waits at its bound for its reader;
    once the thread that read it waits for the end, what comes past the bound is counted and thrown away.
    """

    def __init__(self, box: Box, source: Source) -> None:
        self._run = _Run(box, source)
        self.stdin = Writer(self._run) if source.is_nothing else None
        self.stdout = Reader(self._run, Output.STDOUT)
        self.stderr = Reader(self._run, Output.STDERR)

    def wait(self, timeout: float | None = None) -> Result:
        """The Result, when the run is over. The guest's stdin stays as it is: a guest that reads to the end of it needs
        `stdin.close()` first.

        `TimeoutError` when `timeout` seconds go by first; the run goes on then. `SetupError`, `ExecError`: as in `Sandbox.run`.
        Every call gives the same.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if until is None else until - time.monotonic()
            if self._run.turn(_TURN_MS if left is None else min(_TURN_MS, max(0, int(left * 1000)))):
                return self._run.outcome()
            if left is not None and left <= 0:
                raise TimeoutError(f"the run has not ended within {timeout} seconds")

    def poll(self) -> Result | None:
        """Serves what is ready without waiting: the Result when the run is over, else None.

        For an event loop that watches `fileno`; called now and then as well, it keeps the host's own deadline, which is there in
        case init should not keep its.
        """
        return self._run.outcome() if self._run.turn(0) else None

    @property
    def over(self) -> bool:
        """Whether the run has ended and its Result is there; looks, and serves nothing."""
        return self._run.over

    def kill(self) -> None:
        """Ends the guest's whole tree; the Result's status is `cancelled`. From any thread; harmless when it has ended."""
        self._run.box.end()

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to `poll`. ValueError once the run is over."""
        fd = self._run.box.fileno()
        if fd < 0:
            raise ValueError("the run is over")
        return fd

    def close(self) -> None:
        """Ends what still runs and gives everything back; the Result stays if it was there. Harmless when repeated.

        `SetupError` when not all of a workspace could be given back to its owner (`workspace_owner="chown"`)."""
        self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class _Run:
    """What a Process, its Writer and its Readers share. Nothing here refers back to them, so a Process that is forgotten goes at
    once, and the box with it."""

    def __init__(self, box: Box, source: Source) -> None:
        self.box = box
        self._source = source
        self._outcome: Result | SandboxError | None = None
        self._readers: dict[Output, int] = {}  # the thread that reads a stream

    @property
    def over(self) -> bool:
        """Whether the outcome is there: nothing more comes from the box."""
        return self._outcome is not None

    def outcome(self) -> Result:
        """Of a run that is over."""
        if isinstance(self._outcome, Result):
            return self._outcome
        assert self._outcome is not None
        raise self._outcome

    def turn(self, timeout_ms: int) -> bool:
        """Of somebody who waits for the end; True when the outcome is there."""
        with self.box.turns:
            if self.over:
                return True
            me = threading.get_ident()
            for output in [output for output, thread in self._readers.items() if thread == me]:
                del self._readers[output]  # nobody makes room any more
                self.box.flow(output, False)
            return self.pump(timeout_ms)

    def pump(self, timeout_ms: int) -> bool:
        """Within a turn: serves the box, and makes the outcome when the run has ended; True when it is there."""
        try:
            if self.box.pump(timeout_ms):
                # A reader that was slower than the guest gets from the Result what it has not taken yet.
                out, err = self._drain(Output.STDOUT), self._drain(Output.STDERR)
                result = self.box.result()
                if out or err:
                    result = dataclasses.replace(result, stdout=out or result.stdout, stderr=err or result.stderr)
                self._outcome = result
        except SandboxError as error:
            self._outcome = error
        if self._outcome is None:
            return False
        self._release()
        return True

    def reads(self, output: Output) -> None:
        """Within a turn: this thread reads the stream from now on."""
        self._readers[output] = threading.get_ident()
        self.box.flow(output, True)

    def _drain(self, output: Output) -> bytes:
        """Of a stream with a reader: everything, also what stands in the pipe behind a full buffer."""
        parts = []
        while output in self._readers and (data := self.box.take(output, _CHUNK)):
            parts.append(data)
            self.box.pump(0)
        return b"".join(parts)

    def close(self) -> None:
        self.box.end()  # so that another thread that pumps it comes back
        if not self.box.turns.mine:
            with self.box.turns:
                self._outcome = self._outcome or SetupError("lost", 0, "box", "the Process was closed before the run was over")
                self._release()

    def _release(self) -> None:
        try:
            self.box.close()
        except SandboxError as error:  # a workspace that is not all the caller's again: every `wait` is to say so
            self._outcome = error
            raise
        finally:
            self._source.close()

    def __del__(self) -> None:
        """Neither the Process nor a reader or writer of it is left."""
        self._release()


class Writer:
    """The guest's stdin."""

    def __init__(self, run: _Run) -> None:
        self._run, self._box = run, run.box
        self.closed = False

    def write(self, data: Data) -> int:
        """Waits until the guest has taken all of it, serving its outputs meanwhile. BrokenPipeError when it has closed its stdin
        or is gone; ValueError after `close`."""
        if self.closed:
            raise ValueError("stdin is closed")
        rest = memoryview(data).cast("B")
        size = len(rest)
        while rest:
            with self._box.turns:
                if self._run.over:
                    raise BrokenPipeError("the run is over")
                rest = rest[self._box.write(rest) :]
                if rest and self._box.pump(_TURN_MS):
                    raise BrokenPipeError("the run is over")
        return size

    def close(self) -> None:
        """The guest reads the end of the stream. Harmless when repeated."""
        self.closed = True
        with self._box.turns:
            if not self._run.over:
                self._box.close_stdin()


class Reader:
    """One of the guest's outputs; iterating gives lines. Nothing is read ahead: what is not taken stays for the Result."""

    def __init__(self, run: _Run, output: Output) -> None:
        self._run, self._box, self._output = run, run.box, output
        self._position = 0  # in the Result's bytes, once the run is over

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, fewer at the end of the stream; -1: all that comes."""
        parts = []
        while size != 0 and (data := self.read1(size)):
            parts.append(data)
            size -= len(data) if size > 0 else 0
        return b"".join(parts)

    def read1(self, size: int = -1) -> bytes:
        """What is there, at most `size` bytes, waiting for the first; b"" at the end of the stream."""
        return self._wait(size)

    def read_nowait(self, size: int = -1) -> bytes | None:
        """As `read1`, but None when nothing is there now."""
        return self._take(size, False, 0)

    def readline(self) -> bytes:
        """Up to and with the next newline; what is left at the end of the stream."""
        parts: list[bytes] = []
        while not (parts and parts[-1].endswith(b"\n")) and (data := self._wait(-1, line=True)):
            parts.append(data)
        return b"".join(parts)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _wait(self, size: int, line: bool = False) -> bytes:
        while (data := self._take(size, line, _TURN_MS)) is None:
            pass
        return data

    def _take(self, size: int, line: bool, timeout_ms: int) -> bytes | None:
        """One turn: bytes, b"" at the end, None when nothing came."""
        size = _CHUNK if size < 0 else size
        box = self._box
        with box.turns:
            if self._run.over:
                return self._of_result(size, line)
            self._run.reads(self._output)
            for wait in (0, timeout_ms):
                data = box.take(self._output, size, line)
                if data or not box.is_open(self._output):
                    return data
                if box.pump(wait):  # the run is over: what is there now is all
                    return box.take(self._output, size, line)
            return box.take(self._output, size, line) or None

    def _of_result(self, size: int, line: bool) -> bytes:
        result = self._run.outcome()
        kept = result.stdout if self._output is Output.STDOUT else result.stderr
        end = min(self._position + size, len(kept))
        if line:
            end = kept.find(b"\n", self._position, end) + 1 or end
        data = kept[self._position : end]
        self._position = end
        return data
