"""What a Process, its Writer and its Readers share (process.py, streams.py). Every system.

Nothing here refers back to them, so a Process that is forgotten goes at once, and the box with it.
"""

from __future__ import annotations

import copy
import dataclasses
import os
import threading
import time
from contextlib import AbstractContextManager
from typing import Final

from sandbox_native.backends.base import Box, Output
from sandbox_native.budget import Claim
from sandbox_native.errors import SandboxError, SetupError
from sandbox_native.result import Result
from sandbox_native.stdin import Source

TURN_MS: Final = 20  # how long one thread may keep the others waiting
CHUNK: Final = 1 << 20
_END_SECONDS: Final = 2.0  # at `close`: for init to end the tree, then again for SIGKILL


class Front:
    """A copy of what stands at the front of a stream, so that not every line costs a turn.

    What is taken from it stays in the box until `settle` tells how much it was: the bound counts it, and the Result holds what
    nobody took. Of a run that is over it is the Result's own bytes. Needs no turn.
    """

    __slots__ = ("_at", "_data", "_final", "_lock", "_pid", "_settled")

    def __init__(self) -> None:
        self._lock, self._pid = threading.RLock(), os.getpid()
        self._data, self._at, self._settled, self._final = b"", 0, 0, False

    def line(self) -> bytes:
        """Up to and with a newline; b"" when no whole line is here."""
        with self._own():
            end = self._data.find(b"\n", self._at) + 1
            if not end:
                if not self._final:
                    return b""
                end = len(self._data)
            line = self._data[self._at : end]
            self._at = end
            return line

    def some(self, size: int) -> bytes:
        """`size` bytes; b"" when fewer are here, unless more cannot come."""
        with self._own():
            end = self._at + size
            if end > len(self._data) and not self._final:
                return b""
            data = self._data[self._at : end]
            self._at += len(data)
            return data

    def settle(self, *, drop: bool = False) -> int:
        """How many bytes were taken since the last call; with `drop` the rest is here no more."""
        with self._own():
            taken, self._settled = self._at - self._settled, self._at
            if drop:
                self.load(b"")
            return taken

    def load(self, data: bytes, *, final: bool = False) -> None:
        with self._own():
            self._data, self._at, self._settled, self._final = data, 0, 0, final

    def _own(self) -> AbstractContextManager[object]:
        if os.getpid() != self._pid:  # forked: the run is the parent's, and its threads hold no lock here
            self._lock, self._pid = threading.RLock(), os.getpid()
            if not self._final:
                self._data, self._at, self._settled = b"", 0, 0
        return self._lock


class SharedRun:
    def __init__(self, box: Box, source: Source, claim: Claim | None = None) -> None:
        self.box, self._claim = box, claim
        self.fronts = {Output.STDOUT: Front(), Output.STDERR: Front()}
        self._source = source
        self._outcome: Result | SandboxError | None = None
        self.left = False  # the run has ended, and its outcome is to be made
        self._readers: dict[Output, int] = {}  # the thread that reads a stream; last: __del__ has nothing to do before
        box.watch()

    @property
    def over(self) -> bool:
        """Whether the outcome is there: nothing more comes from the box."""
        return self._outcome is not None

    def outcome(self) -> Result:
        """Of a run that is over."""
        if isinstance(self._outcome, Result):
            return self._outcome
        assert self._outcome is not None
        raise copy.copy(self._outcome)  # itself it would hold on to the frames that it passes, and they to us

    def turn(self, timeout_ms: int) -> bool:
        """Of somebody who waits for the end; True when the outcome is there."""
        with self.box.turns:
            if self.over:
                return True
            me = threading.get_ident()
            for output in [output for output, thread in self._readers.items() if thread == me]:
                self._read_no_more(output)
            return self.pump(timeout_ms)

    def pump(self, timeout_ms: int, *, light: bool = False) -> bool:
        """Within a turn: serves the box, and makes the outcome when the run has ended; True when it is there. With `light` one
        that is more than a moment's work is left to the next call."""
        try:
            if self.serve(timeout_ms):
                self.left = light and self.box.heavy
                if self.left:
                    return False
                self._settle(drop=True)
                # A reader that was slower than the guest gets from the Result what it has not taken yet.
                out, err = self._drain(Output.STDOUT), self._drain(Output.STDERR)
                result = self.box.result()
                if out or err:
                    result = dataclasses.replace(result, stdout=out or result.stdout, stderr=err or result.stderr)
                self._outcome = result
                self.fronts[Output.STDOUT].load(result.stdout, final=True)
                self.fronts[Output.STDERR].load(result.stderr, final=True)
        except SandboxError as error:
            self._outcome = error
        if self._outcome is None:
            return False
        self._release()
        return True

    def serve(self, timeout_ms: int) -> bool:
        """As `pump`, of somebody who makes no outcome of it: whoever still reads is to have what is there."""
        self._settle()
        return self.box.pump(timeout_ms)

    def reads(self, output: Output) -> None:
        """Within a turn: this thread reads the stream from now on."""
        self._readers[output] = threading.get_ident()
        self.box.flow(output, True)

    def stops_reading(self, output: Output) -> None:
        with self.box.turns:
            if not self.over and output in self._readers:
                self._read_no_more(output)

    def _read_no_more(self, output: Output) -> None:
        del self._readers[output]  # nobody makes room any more
        self.box.flow(output, False)

    def take(self, output: Output, size: int) -> bytes:
        """Within a turn: at most `size` bytes, none when there are none now."""
        self._settle_one(output, drop=True)
        return self.box.take(output, size)

    def take_line(self, output: Output) -> bytes:
        """As `take`: at most a line, and what comes after it goes to the stream's Front."""
        self._settle_one(output, drop=True)
        data = self.box.peek(output, CHUNK >> 4)
        if data.find(b"\n") < 0:
            return self.box.take(output, len(data))
        front = self.fronts[output]
        front.load(data)
        return front.line()

    def _settle(self, *, drop: bool = False) -> None:
        for output in self.fronts:
            self._settle_one(output, drop=drop)

    def _settle_one(self, output: Output, *, drop: bool) -> None:
        taken = self.fronts[output].settle(drop=drop)
        if taken:
            self.box.take(output, taken)

    def _drain(self, output: Output) -> bytes:
        """Of a stream with a reader: everything, also what stands in the pipe behind a full buffer."""
        parts = []
        while output in self._readers and (data := self.box.take(output, CHUNK)):
            parts.append(data)
            self.box.pump(0)
        return b"".join(parts)

    def close(self) -> None:
        self.box.end()  # so that another thread that pumps it comes back
        if self.box.turns.mine:
            return
        with self.box.turns:
            try:
                self._end()
            finally:
                self._release()
                self.box.unwatch()

    def _end(self) -> None:
        """The outcome of a run that was told to end, or of one that does not even at SIGKILL."""
        for _ in range(2):
            until = time.monotonic() + _END_SECONDS
            while not self.over and time.monotonic() < until:
                self.pump(TURN_MS)
            if not self.over:
                self.box.end()
        self._outcome = self._outcome or SetupError("lost", 0, "box", "the Process was closed and its run did not end")

    def _release(self) -> None:
        try:
            self.box.close()
        except SandboxError as error:  # a workspace that is not all the caller's again: every `wait` is to say so
            self._outcome = error
            raise
        finally:
            self._source.close()
            if self._claim is not None:
                self._claim.release()

    def __del__(self) -> None:
        """Neither the Process nor a reader or writer of it is left."""
        if not hasattr(self, "_readers"):  # a Ctrl-C came before it had anything: what there is gives itself back
            return
        try:
            self._release()
        finally:
            self.box.unwatch()
