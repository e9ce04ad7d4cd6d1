"""Two runs that talk through two pipes, from their start to both ends. Host process; used by interactive.py.

    submission  stdout ──────▶ stdin  validator
                stdin  ◀────── stdout

The kernel moves the data: the ends of the pipes are the guests' own, and nothing of it comes by here. We keep a copy of the
validator's two ends as long as it lives, so that the submission cannot notice that the validator has ended before we do: what
the submission did by then it did by itself, and who came first is no matter of timing. A validator that closes an end and lives
on is seen to do so, and our copy goes too.

A validator that fails may have failed since the submission had left it: closed an end, or ended. The kernel says of a pipe
whether its other end is closed. A submission that has not left yet goes on, without any notice of what happened, until it leaves
by itself in the next moment, waits for the validator, or has had its moment: which of the two was quicker does not matter.

Now and then both are looked at: when neither can go on before the other does something, and nothing has moved between two looks,
they wait for each other for ever, and both are ended.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum
from types import TracebackType
from typing import Final, Self

from sandbox_native.judge.looks import Look, Wait, is_running, look
from sandbox_native.pipe_end import PipeEnd
from sandbox_native.process import Process
from sandbox_native.result import Result

LOOK_MS: Final = 25
STUCK_SECONDS: Final = 0.5
LEAVING_SECONDS: Final = 1.0  # in which a submission has left by itself; others of its programs sleep or compute
Spawn = Callable[[PipeEnd, PipeEnd], Process]
"""(stdin, stdout) -> a run that has been started."""


class Pipe:
    """Both ends, each closed once."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        self.inode = os.fstat(self.read_fd).st_ino

    def close_read(self) -> None:
        fd, self.read_fd = self.read_fd, -1
        if fd >= 0:
            os.close(fd)

    def close_write(self) -> None:
        fd, self.write_fd = self.write_fd, -1
        if fd >= 0:
            os.close(fd)

    def has_no_writer(self) -> bool:
        """Whether nobody can write any more; False when our read end is closed, and nobody can tell."""
        return _event(self.read_fd, select.POLLHUP)

    def has_no_reader(self) -> bool:
        """The same for the other end."""
        return _event(self.write_fd, select.POLLERR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close_read()
        self.close_write()


def _event(fd: int, event: int) -> bool:
    if fd < 0:
        return False
    poller = select.poll()
    poller.register(fd, 0)
    return any(events & event for _, events in poller.poll(0))


class Said(Enum):
    """What a validator's end means."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """The rest of the submission's run is pointless."""
    NOTHING = "nothing"
    """It failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Played:
    """How both ended.

    `validator_first`: the submission was still there when the validator ended; with both ends of its own, if that failed.
    `left`: the validator failed, and the submission had closed an end or went by itself. `waited`: when both were found waiting
    for each other, what each waited for. `too_long`: the submission had more wall time than it may.
    """

    submission: Result
    validator: Result
    validator_first: bool
    left: bool
    waited: tuple[Wait, Wait] | None
    deadlock: bool
    too_long: bool


class Match:
    """One use. `wall_seconds`: how long the submission may keep the validator waiting, or live on after it."""

    def __init__(self, validator: Spawn, submission: Spawn, wall_seconds: float, says: Callable[[Result], Said]) -> None:
        """`says`: what a validator's end means."""
        self._spawn_validator, self._spawn_submission = validator, submission
        self._wall_seconds, self._says = wall_seconds, says
        self._to_validator, self._to_submission = Pipe(), Pipe()
        self._since: float | None = None  # both were found stuck, and nothing has moved
        self._before: tuple[Look, Look] | None = None
        self._waited: tuple[Wait, Wait] | None = None
        self._charged = 0.0
        self._deadlock = self._too_long = self._validator_first = self._left = False
        self._leaving_until: float | None = None  # a validator has failed, and the submission is still there

    def play(self) -> Played:
        """Errors as of `Sandbox.spawn` and `Process.wait`."""
        with ExitStack() as stack:
            stack.enter_context(self._to_validator)
            stack.enter_context(self._to_submission)
            self._validator = stack.enter_context(
                self._spawn_validator(PipeEnd(self._to_validator.read_fd), PipeEnd(self._to_submission.write_fd))
            )
            self._submission = stack.enter_context(
                self._spawn_submission(PipeEnd(self._to_submission.read_fd), PipeEnd(self._to_validator.write_fd))
            )
            self._looked = time.monotonic()
            self._to_submission.close_read()
            self._to_validator.close_write()
            return self._until_both_end()

    def _until_both_end(self) -> Played:
        poller = select.poll()
        sides = {process.fileno(): process for process in (self._validator, self._submission)}
        for fd in sides:
            poller.register(fd, select.POLLIN)
        results: dict[Process, Result] = {}
        next_look = self._looked + LOOK_MS / 1000
        while len(results) < len(sides):
            poller.poll(max(0, 1000 * (next_look - time.monotonic())))
            for fd, process in sides.items():
                if process not in results and (result := process.poll()) is not None:
                    poller.unregister(fd)
                    results[process] = result
                    if process is self._validator:
                        self._validator_ended(result)
                    elif self._leaving_until is not None and not self._too_long:
                        self._leave()
            if time.monotonic() >= next_look:
                self._look()
                next_look = time.monotonic() + LOOK_MS / 1000
        return Played(
            submission=results[self._submission],
            validator=results[self._validator],
            validator_first=self._validator_first,
            left=self._left,
            waited=self._waited,
            deadlock=self._deadlock,
            too_long=self._too_long,
        )

    def _validator_ended(self, result: Result) -> None:
        self._validator_first = self._submission_runs()
        said = self._says(result)
        if said is Said.NOTHING and self._validator_first:
            self._leaving_until = time.monotonic() + LEAVING_SECONDS
            if self._has_closed():
                self._leave()
            return
        self._left = said is Said.NOTHING
        if said is Said.REJECTED and self._validator_first:
            self._submission.kill()
        self._to_validator.close_read()
        self._to_submission.close_write()

    def _has_closed(self) -> bool:
        """Whether the submission has closed an end."""
        return self._to_validator.has_no_writer() or self._to_submission.has_no_reader()

    def _leave(self) -> None:
        self._left, self._validator_first = True, False

    def _look_for_leave(self, submission: Look) -> None:
        """When the validator has failed: the submission leaves by itself, or is ended."""
        if not self._left and self._has_closed():
            self._leave()
        assert self._leaving_until is not None
        if submission.stuck or (not self._left and time.monotonic() > self._leaving_until):
            self._leaving_until = None
            self._submission.kill()

    def _submission_runs(self) -> bool:
        """Whether it has not ended; one that has not begun yet is waited for."""
        poller = select.poll()
        poller.register(self._submission.fileno(), select.POLLIN)
        while self._submission.poll() is None:
            pids = self._submission.pids()
            if pids:
                return is_running(pids[0])
            poller.poll(1)
        return False

    def _look(self) -> None:
        if self._submission.over:
            return
        pipes = frozenset((self._to_validator.inode, self._to_submission.inode))
        submission = look(self._submission.pids(), pipes)
        validator = Look() if self._validator.over else look(self._validator.pids(), pipes)
        self._charge(self._validator.over or validator.waits_for_pipe)
        if self._leaving_until is not None:
            self._look_for_leave(submission)
        if not validator.waits:
            return
        if validator.pipes and self._to_validator.inode not in validator.pipes:
            self._to_validator.close_read()
        if validator.pipes and self._to_submission.inode not in validator.pipes:
            self._to_submission.close_write()
        self._note_deadlock(submission, validator)

    def _charge(self, owes: bool) -> None:
        """The submission with the time since the last look, if it is what the match waits for."""
        now = time.monotonic()
        self._charged += now - self._looked if owes else 0.0
        self._looked = now
        if self._charged > self._wall_seconds and not self._too_long:
            self._too_long = True
            self._submission.kill()

    def _note_deadlock(self, submission: Look, validator: Look) -> None:
        both = submission, validator
        self._waited = (submission.waits[-1], validator.waits[-1]) if all(side.waits_for_pipe for side in both) else None
        if not all(side.stuck for side in both) or self._before != both:
            self._since, self._before = None, both
            return
        now = time.monotonic()
        if self._since is None:
            self._since = now
        elif now - self._since >= STUCK_SECONDS:
            self._deadlock = True
            self._submission.kill()
            self._validator.kill()
