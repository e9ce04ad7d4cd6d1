"""``sandbox-native batch``: a file of jobs to a file of results, many at once, and on from where an earlier one ended.

Called by :mod:`sandbox_native.cli` with checked values. A job whose id has a result is not run again; an error of ours, and what
a Ctrl-C or a kill cut short, is no result. Exit status: 0 when every job has a result, whatever that says; 1 when some have an
error instead; 125 when the batch itself cannot go on; 130 after Ctrl-C, with what was done by then written.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from typing import BinaryIO, Final

from sandbox_native import Budget, Limits, Policy, PolicyError, Result, Sandbox, Status
from sandbox_native.arguments import places
from sandbox_native.batch import Outcome, outcomes
from sandbox_native.clirun import error_object
from sandbox_native.interrupts import Interrupts
from sandbox_native.joblines import Defaults, Line, read
from sandbox_native.progress import Show, shown_on, silent
from sandbox_native.resultlines import ResultFile
from sandbox_native.supervisor import Task

_SOME_FAILED: Final = 1
_INTERRUPTED: Final = 130

Told = Generator[tuple[Line, Outcome], None, None]


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What to do, as the API takes it."""

    jobs: str
    """A path; ``-`` is our standard input."""
    results: str
    policy: Policy
    limits: Limits
    env: Mapping[str, str]
    secrets: Mapping[str, str] | None
    concurrency: int | None
    ordered: bool
    pinned: bool
    memory_bytes: int | None
    """Of all runs together."""
    quiet: bool


def run_batch(batch: Batch) -> int:
    """Runs what is not finished and gives the exit status. SandboxError: it cannot begin or go on; what was written stays."""
    at_once = places(batch.concurrency)
    tally = _Tally()
    with ExitStack() as held:
        source = held.enter_context(_open(batch.jobs))
        budget = None if batch.memory_bytes is None else Budget(memory_bytes=batch.memory_bytes)
        sandbox = held.enter_context(Sandbox(batch.policy, batch.limits, pinned=batch.pinned, budget=budget))
        results = held.enter_context(ResultFile(batch.results))
        if results.is_file(source.fileno()):
            raise PolicyError("is the file of jobs too", field="--results", value=batch.results, remedy="name another file")
        lines = read(source, Defaults(limits=batch.limits, env=batch.env, secrets=batch.secrets))

        def task_of(line: Line) -> Task:
            if isinstance(line.job, PolicyError):
                raise line.job
            return sandbox._task(line.job)

        jobs = tally.without_finished(lines, results.finished)
        told = outcomes(lambda: sandbox._supervisor(at_once), task_of, jobs, at_once, batch.ordered, None, _pair)
        held.enter_context(closing(told))
        quiet = batch.quiet or sys.stderr is None  # it was closed before we began
        show = silent if quiet else held.enter_context(shown_on(sys.stderr, _size(source)))
        status = _write_all(told, results, tally, show)
    if not quiet:
        print(f"sandbox-native: {tally.words}", file=sys.stderr, flush=True)
    return status


def _write_all(told: Told, results: ResultFile, tally: _Tally, show: Show) -> int:
    try:
        with Interrupts() as interrupts:
            while (got := interrupts.next_of(told)) is not None:
                line, outcome = got
                if isinstance(outcome, Result) and outcome.status is Status.CANCELLED:
                    continue  # by us: it is to run again
                results.write(_entry(line, outcome))
                tally.count(line, outcome)
                show(tally.bytes, tally.words)
    except KeyboardInterrupt:
        tally.interrupted = True
        return _INTERRUPTED
    return _SOME_FAILED if tally.errors else 0


def _open(path: str) -> BinaryIO:
    try:
        return open(0 if path == "-" else path, "rb", closefd=path != "-")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise PolicyError(reason, field="JOBS", value=path, remedy="name a file of jobs, or - for standard input") from None


def _size(source: BinaryIO) -> int | None:
    status = os.fstat(source.fileno())
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _pair(line: Line, outcome: Outcome) -> tuple[Line, Outcome]:
    return line, outcome


def _entry(line: Line, outcome: Outcome) -> dict[str, object]:
    id = {} if line.key is None else {"id": line.id}
    return {"line": line.number, **id, **(outcome.to_dict() if isinstance(outcome, Result) else error_object(outcome))}


class _Tally:
    """What has become of the lines so far."""

    def __init__(self) -> None:
        self.errors = self.bytes = 0
        self.interrupted = False
        self._skipped = 0
        self._ended: Counter[str] = Counter()

    def without_finished(self, lines: Iterator[Line], finished: set[bytes]) -> Iterator[Line]:
        """The lines that are to run, or are wrong. An id that was there before is an error, also when that one is finished."""
        seen: set[bytes] = set()
        for line in lines:
            if line.key in seen:
                remedy = "give each job an id of its own"
                wrong = PolicyError("an earlier line has this id", field="id", value=line.id, remedy=remedy)
                yield replace(line, key=None, job=wrong)  # the id's result is the earlier line's
                continue
            if line.key is not None:
                seen.add(line.key)
            if line.key in finished:
                finished.remove(line.key)  # it is in the other set now
                self._skipped += 1
                self.bytes += line.size
            else:
                yield line

    def count(self, line: Line, outcome: Outcome) -> None:
        self.bytes += line.size
        if isinstance(outcome, Result):
            self._ended[outcome.status.value] += 1
        else:
            self.errors += 1

    @property
    def words(self) -> str:
        ended = ", ".join(f"{count} {name}" for name, count in self._ended.most_common())
        parts = [
            f"{self._ended.total()} run{f' ({ended})' if ended else ''}",
            *([f"{self.errors} with an error"] if self.errors else []),
            *([f"{self._skipped} finished before"] if self._skipped else []),
            *(["interrupted: start it again to go on"] if self.interrupted else []),
        ]
        return ", ".join(parts)
