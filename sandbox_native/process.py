"""Process: a run that has been started, from `Sandbox.spawn`. Public; every system.

Nobody pumps the streams in the background: whoever reads, writes or waits does it, in short turns, so that several threads can
use one Process. Init keeps the limits on its own, also when nobody calls.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from sandbox_native.backends.base import Box, Output
from sandbox_native.budget import Claim
from sandbox_native.result import Result
from sandbox_native.shared_run import TURN_MS, SharedRun
from sandbox_native.stdin import Source
from sandbox_native.streams import Reader, Writer


class Process:
    """A run that goes on while the host does other things. A context manager; safe in threads.

    `stdin` is a Writer, or None where spawn was given a stdin. `stdout` and `stderr` are Readers. What a reader took is not
    in the Result; what nobody took is, up to its bound. A stream that somebody reads waits at its bound for its reader;
    once the thread that read it waits for the end, what comes past the bound is counted and thrown away.
    """

    def __init__(self, box: Box, source: Source, claim: Claim | None = None) -> None:
        """`claim`: what a budget lets the run have, given back at its end."""
        self._run = SharedRun(box, source, claim)
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
            if self._run.turn(TURN_MS if left is None else min(TURN_MS, max(0, int(left * 1000)))):
                return self._run.outcome()
            if left is not None and left <= 0:
                raise TimeoutError(f"the run has not ended within {timeout} seconds")

    def poll(self) -> Result | None:
        """Serves what is ready without waiting: the Result when the run is over, else None.

        For an event loop that watches `fileno`; called now and then as well, it keeps the host's own deadline, which is there in
        case init should not keep its.
        """
        return self._run.outcome() if self._run.turn(0) else None

    def serve(self, *, light: bool = False) -> bool:
        """As `poll`, of somebody who does not wait for the end alone: streams that are read go on waiting for their reader.
        Whether the run is over. With `light` an outcome that is more than a moment's work is `left` to the next call."""
        with self._run.box.turns:
            return self._run.over or self._run.pump(0, light=light)

    @property
    def left(self) -> bool:
        return self._run.left

    @property
    def over(self) -> bool:
        """Whether the run has ended and its Result is there; looks, and serves nothing."""
        return self._run.over

    @property
    def began(self) -> bool:
        """Whether a guest has taken the job; looks, and serves nothing."""
        return self._run.box.began

    @property
    def came_to_nothing(self) -> bool:
        """Of a run that is over: it failed before anything of a guest had begun, and in another box it need not."""
        return self._run.box.came_to_nothing

    def kill(self) -> None:
        """Ends the guest's whole tree; the Result's status is `cancelled`. From any thread; harmless when it has ended."""
        self._run.box.end()

    def pids(self) -> list[int]:
        """The guest's processes as the host numbers them, its main process first; empty before it has begun and when the run is
        over. A look: who comes or goes meanwhile may be missing or listed, and a number may be somebody else's a moment later."""
        return [] if self.serve() else self._run.box.pids()

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to `poll`, and from the end of the run on. It stays open until
        the Process is closed, so that a loop can forget it first; ValueError after that."""
        fd = self._run.box.fileno()
        if fd < 0:
            raise ValueError("the Process is closed")
        return fd

    def close(self) -> None:
        """Ends what still runs and gives everything back; the Result stays, and of a run that was ended here it is `cancelled`.
        Harmless when repeated.

        `SetupError` when not all of a workspace could be given back to its owner (`workspace_owner="chown"`)."""
        self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
