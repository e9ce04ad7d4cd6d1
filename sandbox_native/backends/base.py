"""What a backend is to the rest of the package: it starts a job and gives a box to watch. No mechanism here."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from sandbox_native.errors import ExecError, SandboxError
from sandbox_native.files import Patterns
from sandbox_native.limits import Limits
from sandbox_native.pipe_end import PipeEnd
from sandbox_native.request import Body
from sandbox_native.result import Result
from sandbox_native.stdin import NOTHING, Input, Source
from sandbox_native.turns import Turns

if TYPE_CHECKING:
    from sandbox_native.warm.spec import Warm


@dataclass(slots=True, kw_only=True)
class Job:
    """One run, checked; nothing in it belongs to a backend."""

    body: Body
    look_again: Callable[[], Body] | None = None  # for the program, when it was replaced between our look at it and the box's
    limits: Limits
    given_stdin: Input = None
    stdin: Source = field(default_factory=lambda: NOTHING)  # that, opened
    stdout: PipeEnd | None = None  # of the caller's, for the guest itself; None: captured
    merge_stderr: bool = False
    pipe_stdin: bool = False  # the caller writes: `Box.write`
    workspace: str | None = None  # of the host; None: a private one
    collect: Patterns | None = None
    commit: bool = True  # what a run changed apart from the host's directories; False: the caller decides
    cwd: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)
    boxes_left: int = 3  # that may come to nothing

    def another_box(self) -> bool:
        """Its own came to nothing: whether it is to be tried in another."""
        self.boxes_left -= 1
        return self.boxes_left > 0 and not self.stdin.is_read

    def renewed_after(self, error: SandboxError) -> bool:
        """Whether it is to be tried once more, with what the program's path leads to now."""
        if self.stdin.is_read:
            return False
        if not isinstance(error, ExecError) or error.errno != errno.ESTALE or self.look_again is None:
            return False
        self.body, self.look_again = self.look_again(), None
        return True


@dataclass(frozen=True, slots=True)
class Upkeep:
    """How boxes are kept, ready and apart."""

    prepared: int = 0
    pinned: bool = False  # each run to a core
    idle_seconds: float = 60.0  # those above that number, and above the two that every engine has, end after as long
    warm: Warm | None = None  # an interpreter that the guests are clones of


@dataclass(frozen=True, kw_only=True, slots=True)
class Stats:
    """Of one Sandbox since its launcher was started."""

    hits: int
    """Runs whose box was waiting for them."""
    misses: int
    """Runs that had to wait for their box: it was just being made, or made anew."""
    boxes: int
    """Boxes that there are, running or parked."""
    idle: int
    """Those that nobody uses."""


class Output(Enum):
    """One of the guest's streams."""

    STDOUT = "stdout"
    STDERR = "stderr"

    __hash__ = object.__hash__  # an Enum's own is Python code, and every run asks for it


class Box(Protocol):
    """A run that has been started. One thread at a time, but for `end` and `close`."""

    turns: Turns
    """For those who share the box between threads; the methods do not take it."""

    @property
    def began(self) -> bool:
        """Whether a guest has taken the job. Known as soon as `pump` has heard of it."""

    @property
    def heavy(self) -> bool:
        """Of a run that is over: whether its Result is more than a moment's work, as with much output or files to bring back."""

    @property
    def came_to_nothing(self) -> bool:
        """The run failed before anything of a guest had begun, and for a reason that another box need not have."""

    def pump(self, timeout_ms: int) -> bool:
        """Serves the streams for at most that long (-1: to the end); True when the run is over."""

    def result(self) -> Result:
        """Of a run that is over, made once; raises what went wrong on our side."""

    def end(self) -> None:
        """Ends the guest's tree; the result is `cancelled`. From any thread; harmless when repeated or late."""

    def close(self) -> None:
        """Ends what still runs and gives everything back. Harmless when repeated."""

    def fileno(self) -> int:
        """Readable when `pump` has something to do; -1 when closed."""

    def pids(self) -> list[int]:
        """The guest's processes now, its main one first."""

    def watch(self) -> None:
        """From now on `fileno` outlives `close`, and is readable then, until `unwatch`."""

    def unwatch(self) -> None:
        """Nobody watches `fileno` any more. Harmless when repeated."""

    def write(self, data: memoryview) -> int:
        """Bytes that stdin took without waiting; BrokenPipeError when the guest has closed it."""

    def close_stdin(self) -> None: ...

    def take(self, output: Output, size: int) -> bytes:
        """At most `size` captured bytes from the front of a stream, which are then no more in the result."""

    def peek(self, output: Output, size: int) -> bytes:
        """As `take`, but they stay."""

    def is_open(self, output: Output) -> bool:
        """Whether more may come."""

    def flow(self, output: Output, on: bool) -> None:
        """With it on, a stream at its bound waits for its reader; off, what comes then is counted and thrown away."""


class Crowd(Protocol):
    """Many boxes that one thread serves. `wake` is for others; everything else is for the one that waits."""

    @property
    def has_room(self) -> bool: ...

    def add(self, box: Any) -> int:
        """A box of the same backend that has been started; the place that `wait` tells."""

    def remove(self, place: int) -> None: ...

    def wait(self, timeout_ms: int) -> list[int]:
        """Serves all boxes until some are over (their places), somebody calls `wake`, or the time is."""

    def wake(self) -> None: ...

    def calm(self) -> None:
        """The wakes so far have been heard."""

    def close(self) -> None: ...


class Backend(Protocol):
    def start(self, job: Job) -> Box: ...

    def run(self, job: Job) -> Result:
        """Starts, pumps to the end, closes."""

    def crowd(self, places: int) -> Crowd:
        """For as many boxes at once."""

    def stats(self) -> Stats: ...

    def open_slot(self) -> None:
        """Makes one more box ready, which may take milliseconds; when none is idle, so that the next `start` does not."""

    @property
    def has_idle(self) -> bool:
        """Whether a box is free now."""

    def close(self) -> None:
        """Ends every run and every process of ours. Harmless when repeated."""
