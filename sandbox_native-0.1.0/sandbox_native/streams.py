"""Writer and Reader: the guest's standard streams as a Process has them. Public; every system.

File-like enough for code that is given a pipe of subprocess, and for io.TextIOWrapper.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from sandbox_native.backends.base import Output
from sandbox_native.shared_run import CHUNK, TURN_MS, SharedRun
from sandbox_native.stdin import Data


class _Stream:
    """What both have of a file. Leaving the context closes the stream."""

    def __init__(self, run: SharedRun) -> None:
        self._run, self._box = run, run.box
        self.closed = False

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def isatty(self) -> bool:
        return False

    def flush(self) -> None:
        """Nothing is held back, so there is nothing to do."""

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


class Writer(_Stream):
    """The guest's stdin."""

    def writable(self) -> bool:
        return True

    def write(self, data: Data) -> int:
        """Waits until the guest has taken all of it, serving its outputs meanwhile. BrokenPipeError when it has closed its stdin
        or is gone; ValueError after `close`; TypeError for text."""
        if self.closed:
            raise ValueError("stdin is closed")
        try:
            rest = memoryview(data).cast("B")
        except TypeError as error:
            kind = type(data).__name__
            raise TypeError("stdin takes bytes: .encode()" if kind == "str" else f"stdin takes bytes, not {kind}") from error
        size = len(rest)
        while rest:
            with self._box.turns:
                if self._run.over:
                    raise BrokenPipeError("the run is over")
                rest = rest[self._box.write(rest) :]
                if rest and self._run.serve(TURN_MS):
                    raise BrokenPipeError("the run is over")
        return size

    def write_nowait(self, data: Data) -> int:
        """How many bytes the guest's pipe took without waiting. Errors as of `write`."""
        if self.closed:
            raise ValueError("stdin is closed")
        with self._box.turns:
            if self._run.over:
                raise BrokenPipeError("the run is over")
            return self._box.write(memoryview(data).cast("B"))

    def writelines(self, lines: Iterable[Data]) -> None:
        """As `write`, one after the other; adds no line ends."""
        for line in lines:
            self.write(line)

    def close(self) -> None:
        """The guest reads the end of the stream. Harmless when repeated."""
        super().close()
        with self._box.turns:
            if not self._run.over:
                self._box.close_stdin()


class Reader(_Stream):
    """One of the guest's outputs; iterating gives lines. What is not taken stays for the Result. ValueError after `close`."""

    def __init__(self, run: SharedRun, output: Output) -> None:
        super().__init__(run)
        self._output = output
        self._front = run.fronts[output]

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """`size` bytes, fewer at the end of the stream; -1 or None: all that comes."""
        size = -1 if size is None else size
        parts = []
        while size != 0 and (data := self.read1(size)):
            parts.append(data)
            size -= len(data) if size > 0 else 0
        return b"".join(parts)

    def read1(self, size: int = -1) -> bytes:
        """What is there, at most `size` bytes, waiting for the first; b"" at the end of the stream."""
        while (data := self._take(size, TURN_MS)) is None:
            pass
        return data

    def read_nowait(self, size: int = -1) -> bytes | None:
        """As `read1`, but None when nothing is there now."""
        return self._take(size, 0)

    def readline(self) -> bytes:
        """Up to and with the next newline; what is left at the end of the stream."""
        if not self.closed and (line := self._front.line()):
            return line
        parts: list[bytes] = []
        while not (parts and parts[-1].endswith(b"\n")):
            while (data := self._take(-1, TURN_MS, line=True)) is None:
                pass
            if not data:
                break
            parts.append(data)
        return b"".join(parts)

    def readlines(self, hint: int | None = -1) -> list[bytes]:
        """All lines to the end of the stream; with `hint`, no more once that many bytes are there."""
        lines: list[bytes] = []
        left = hint if hint is not None and hint > 0 else None
        for line in self:
            lines.append(line)
            if left is not None:
                left -= len(line)
                if left <= 0:
                    break
        return lines

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def close(self) -> None:
        """Nobody reads on: what comes now is captured up to the bound, and is in the Result. Harmless when repeated."""
        super().close()
        self.stop()

    def stop(self) -> None:
        """As `close`, until the next read."""
        self._run.stops_reading(self._output)

    def _take(self, size: int, timeout_ms: int, line: bool = False) -> bytes | None:
        """One turn: bytes, b"" at the end, None when nothing came."""
        if self.closed:
            raise ValueError(f"{self._output.value} is closed")
        size = CHUNK if size < 0 else size
        run, output = self._run, self._output
        if not line and (data := self._front.some(size)):
            return data
        with self._box.turns:
            if run.over:
                return self._of_result(size, line)
            run.reads(output)
            for wait in (0, timeout_ms):
                data = self._now(size, line)
                if data or not self._box.is_open(output):
                    return data
                if run.serve(wait):  # the run is over: what is there now is all
                    return self._now(size, line)
            return self._now(size, line) or None

    def _now(self, size: int, line: bool) -> bytes:
        return self._run.take_line(self._output) if line else self._run.take(self._output, size)

    def _of_result(self, size: int, line: bool) -> bytes:
        """Of a run that is over; raises what went wrong on our side once all is taken."""
        data = self._front.line() if line else self._front.some(size)
        if not data:
            self._run.outcome()
        return data
