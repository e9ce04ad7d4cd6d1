"""``sandbox-native run``: one box, its output passed on as it comes (or one JSON object), its verdict in an exit status.

Called by :mod:`sandbox_native.cli` with checked values. Writes to descriptors 1 and 2 directly: what the guest
wrote is bytes, and a reader that went away must be noticed at once (the box is then ended).
"""

from __future__ import annotations

import errno
import json
import os
import select
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox_native import Denial, Limits, Policy, Result, Sandbox, Status
from sandbox_native.errors import ExecError
from sandbox_native.streams import Reader
from sandbox_native.tables import plain_table, printable
from sandbox_native.units import format_bytes, format_seconds

VERSION = 1
_CHUNK = 65536
_FAILED = 125
_MOST_DENIALS = 20
_WIDEST = 200
_TURN_MS = 200  # the host's own deadline is looked at as often
_BY_STATUS = {
    Status.WALL_LIMIT: 124,
    Status.CPU_LIMIT: 124,
    Status.MEMORY_LIMIT: 122,
    Status.OUTPUT_LIMIT: 123,
    Status.FORBIDDEN_SYSCALL: 121,
    Status.CANCELLED: 130,
}


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to run, as the API takes it, and how to tell of it."""

    argv: Sequence[str]
    policy: Policy
    limits: Limits
    stdin: str | int | None = None
    env: Mapping[str, str] | None = None
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    workspace: str | None = None
    files: Mapping[str, bytes] | None = None
    bounded: bool = False
    """--output was given: a stream is passed on up to its bound only."""
    as_json: bool = False
    receipt: bool = False


def run_job(job: Job) -> int:
    """Runs it, prints what it should, and gives the exit status. KeyboardInterrupt ends the box and comes through.

    :raises BrokenPipeError: nobody reads our output any more; the box has been ended.
    """
    with Sandbox(job.policy, job.limits) as sandbox:
        cut = ""
        if job.as_json:
            result = sandbox.run(
                job.argv, stdin=job.stdin, env=job.env, secrets=job.secrets, workspace=job.workspace, files=job.files
            )
            print(json.dumps(result.to_dict()), flush=True)
        else:
            result, cut = pass_on(sandbox, job)
    for note in (notice(result, job.limits), cut):
        if note:
            _say(f"sandbox-native: {printable(note)}")
    if not job.as_json:
        for line in refused(result.denials):
            _say(line)
    if job.receipt:
        for line in receipt(result):
            _say(line)
    return exit_status(result)


class _Passing:
    """One of the guest's streams on its way to a descriptor of ours, up to a bound if there is one."""

    def __init__(self, reader: Reader, fd: int, bound: int | None) -> None:
        self._reader, self._fd, self._bound = reader, fd, bound
        self.ended = False
        self.total = 0

    def serve(self) -> bool:
        """Passes on what is there now; False when there was nothing."""
        data = None if self.ended else self._reader.read_nowait(_CHUNK)
        if data is None:
            return False
        self.ended = not data
        wanted = data if self._bound is None else data[: max(0, self._bound - self.total)]
        self.total += len(data)
        _write(self._fd, wanted)
        return bool(data)

    @property
    def cut(self) -> bool:
        return self._bound is not None and self.total > self._bound


def pass_on(sandbox: Sandbox, job: Job, fds: tuple[int, int] = (1, 2)) -> tuple[Result, str]:
    """Passes both streams on to descriptors of ours as they come; the Result, and a note on what was dropped.

    One thread: Ctrl-C must reach it at once, wherever it waits, and leaving the with block ends the box.
    """
    bound = job.limits.stdout_bytes if job.bounded else None
    stdin = b"" if job.stdin is None else job.stdin  # nothing at all; None would be a pipe that we hold open
    with sandbox.spawn(
        job.argv, stdin=stdin, env=job.env, secrets=job.secrets, workspace=job.workspace, files=job.files
    ) as process:
        streams = [_Passing(process.stdout, fds[0], bound), _Passing(process.stderr, fds[1], bound)]
        watched = select.poll()
        watched.register(process.fileno(), select.POLLIN)
        while not all(stream.ended for stream in streams):
            served = [stream.serve() for stream in streams]  # each of them: one must not starve the other
            if not any(served) and not process.over:
                watched.poll(_TURN_MS)
        result = process.wait()
    names = [name for name, stream in zip(("stdout", "stderr"), streams, strict=True) if stream.cut]
    if not names or result.status is Status.OUTPUT_LIMIT:
        return result, ""
    return result, f"{' and '.join(names)} cut at {format_bytes(bound or 0)}: raise --output"


def _write(fd: int, data: bytes) -> None:
    """All of it, also where somebody made our output non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(fd, rest) :]
        except BlockingIOError:
            select.select([], [fd], [])


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# ---- exit status, one line, receipt: pure


def exit_status(result: Result) -> int:
    """The guest's own, 128 and its signal, or the number of the limit that ended it."""
    if result.status in _BY_STATUS:
        return _BY_STATUS[result.status]
    if result.signal is not None:
        return 128 + result.signal
    return result.exit_code or 0


def exit_status_of_error(error: Exception) -> int:
    """126 and 127 as shells have it, 125 for everything else that we could not do."""
    if not isinstance(error, ExecError):
        return _FAILED
    return 127 if error.errno in (errno.ENOENT, errno.ENOTDIR) else 126


def notice(result: Result, limits: Limits) -> str | None:
    """Which limit ended the run and what raises it, or what else there is to say; None for nothing."""
    cpu = limits.cpu_seconds or 0.0
    said = {
        Status.WALL_LIMIT: f"wall limit of {format_seconds(limits.wall_seconds)} reached: raise --wall",
        Status.CPU_LIMIT: f"CPU limit of {format_seconds(cpu)} used up: raise --cpu",
        Status.MEMORY_LIMIT: f"memory limit of {format_bytes(limits.memory_bytes)} reached: raise --memory",
        Status.OUTPUT_LIMIT: f"more than {format_bytes(limits.stdout_bytes)} of output: raise --output",
        Status.FORBIDDEN_SYSCALL: f"{result.hint or 'forbidden system call'}: --policy light has no filter",
        Status.CANCELLED: "ended from outside",
    }
    return said.get(result.status, result.hint)


def refused(denials: Sequence[Denial]) -> Iterable[str]:
    """What the guest was refused or does not keep, for people: a table, bounded in length and width."""
    if not denials:
        return
    yield f"sandbox-native: refused, or not kept where it was made: {sum(one.count for one in denials)}"
    rows = [(_cut(one.name), str(one.count), _cut(one.reason), _cut(one.allow or "")) for one in denials[:_MOST_DENIALS]]
    for line in plain_table(("refused", "count", "why", "permitted by"), rows):
        yield "         " + line
    if len(denials) > _MOST_DENIALS:
        yield f"         … and {len(denials) - _MOST_DENIALS} more: --json has all of them"


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"


def error_object(error: Exception) -> dict[str, Any]:
    """``{"version": 1, "error": {…}}``: kind, message and what else the exception carries."""
    told: dict[str, Any] = {"kind": type(error).__name__, "message": str(error)}
    for name in ("stage", "errno", "item", "hint", "field", "value", "reason", "missing", "remedy", "usage"):
        value = getattr(error, name, None)
        if value is not None and value != "":
            told[name] = list(value) if isinstance(value, tuple) else value
    return {"version": VERSION, "error": told}


def receipt(result: Result) -> Iterable[str]:
    """Verdict, cost and every layer, for people."""
    usage = result.usage
    ending = f", exit code {result.exit_code}" if result.exit_code is not None else ""
    ending += f", signal {result.signal}" if result.signal is not None else ""
    yield f"verdict  {result.status.value}{ending}"
    yield (
        f"cost     {format_seconds(usage.wall_seconds)} wall, {format_seconds(usage.cpu_seconds)} CPU, "
        f"{format_bytes(usage.peak_memory_bytes)} peak memory ({usage.peak_memory_source})"
    )
    yield (
        f"         processes: {usage.peak_processes} at most, {result.killed_processes} killed at the end; "
        f"{format_bytes(result.stdout_total)} to stdout, {format_bytes(result.stderr_total)} to stderr"
    )
    yield f"receipt  rung {result.enforcement.rung.value}"
    held = {True: "held", False: "NOT HELD", None: "not requested"}
    rows = [(one.name, held[one.held], one.mechanism, one.detail or "") for one in result.enforcement.layers]
    for line in plain_table(("layer", "held", "mechanism", "detail"), rows):
        yield "         " + line
