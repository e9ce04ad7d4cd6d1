"""Sandbox: one policy, one launcher, any number of runs. Public; every system.

Arguments are checked here, before anything is touched; what a run needs of the operating system is the backend's.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, Unpack

from sandbox_native import arguments, paths, pipe_end
from sandbox_native import files as collecting
from sandbox_native import workspace as workspaces
from sandbox_native.aio import AsyncProcess
from sandbox_native.aio_start import Starter, begun, claimed, start, whole
from sandbox_native.backends.base import Job, Stats, Upkeep
from sandbox_native.backends.select import open_backend
from sandbox_native.batch import Outcome, alone, outcomes
from sandbox_native.budget import Budget, Claim
from sandbox_native.environment import Environment
from sandbox_native.errors import ExecError, PolicyError
from sandbox_native.executables import ExecutableResolver
from sandbox_native.limits import Limits
from sandbox_native.options import Job as JobSpec
from sandbox_native.options import Path, RunOptions
from sandbox_native.pipe_end import PipeEnd
from sandbox_native.policy import Policy
from sandbox_native.process import Process
from sandbox_native.request import Argument, Body, Encoder, words_of
from sandbox_native.result import Result
from sandbox_native.stdin import NOTHING, Input, open_source
from sandbox_native.supervisor import Supervisor, Task

_DEFAULT: Final = Limits()
_NO_BUDGET: Final = Budget()


class Sandbox:
    """Keeps a launcher that stamps out boxes for one policy. Safe in threads; a context manager.

    - `limits`: those of runs that bring none.
    - `cgroup`: the directory of an empty, delegated control group (v2) to use instead of the host's own.
    - `prepared`: how many boxes (0 to 1024) stand ready at any time; a run then only starts its program in one. Two always do,
      once they were used. Boxes above that number end when nobody wanted them for `idle_seconds` (1 to 86,400). `stats` tells
      how many runs found one ready.
    - `pinned`: each run gets one core, the one with the fewest runs of ours, for stable timing.
    - `budget`: what the runs of this and other Sandboxes may have together; a run waits until there is
      room, without end.

    Making one starts the launcher: `UnsupportedError` when this machine cannot reach the policy's `minimum_rung`,
    `PolicyError` when a path of the policy is not there, `SetupError` when a step failed. After a fork the child's copy makes a
    launcher of its own at its first run.
    """

    def __init__(
        self,
        policy: Policy | None = None,
        limits: Limits | None = None,
        *,
        cgroup: str | os.PathLike[str] | None = None,
        prepared: int = 0,
        idle_seconds: float = 60.0,
        pinned: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self._policy = arguments.checked_policy(policy)
        self._budget = arguments.checked("budget", budget, Budget, _NO_BUDGET)
        self._starters: weakref.WeakKeyDictionary[object, Starter] = weakref.WeakKeyDictionary()  # by event loop
        self._limits = arguments.checked("limits", limits, Limits, _DEFAULT)
        self._closed = False
        group = None if cgroup is None else paths.absolute("cgroup", cgroup)
        upkeep = arguments.upkeep(prepared, idle_seconds, pinned)
        self._backend = open_backend(self._policy, self._limits, group, self._kept(upkeep))
        self._finalizer = weakref.finalize(self, self._backend.close)
        self._encoder = self._make_encoder(arguments.environment(self._policy))

    def _make_encoder(self, environment: Environment) -> Encoder:
        return Encoder(environment, ExecutableResolver(self._policy), os.environ)

    def _kept(self, upkeep: Upkeep) -> Upkeep:
        return upkeep

    @property
    def policy(self) -> Policy:
        """What the guests of this Sandbox may see and do."""
        return self._policy

    @property
    def limits(self) -> Limits:
        """Those of runs that bring none."""
        return self._limits

    def stats(self) -> Stats:
        """How boxes were kept ready since the launcher was started."""
        return self._backend.stats()

    def run(self, argv: Sequence[Argument], **options: Unpack[RunOptions]) -> Result:
        """Runs a program in a box of its own and waits for its end.

        - `argv`: the program, by path or sought in the box's PATH (see `ExecutableResolver`), and its arguments.
        - `stdin`: None (empty), bytes, a path, or a descriptor or file that is open for reading; the host relays it.
        - `stdout`: None (captured). Here and for stdin a `PipeEnd` is the guest's own end of a pipe that the caller made.
        - `env`: added to the clean environment that every guest gets; PATH, HOME, USER, LOGNAME, LANG and TMPDIR are ours.
        - `secrets`: the same for values that nothing of ours shows or keeps: no message, repr, result or cache.
        - `cwd`: in the box; default /workspace.
        - `workspace`: a host directory shown read-write as /workspace. Its bytes are bounded for each file only.
        - `files`: {relative name: bytes}, placed in the private workspace first; 0755 for what begins as a program or script
          does, else 0644.
        - `collect`: names and patterns of files in the workspace that come back in `Result.files`: `*`, `?` and `[...]` within a
          directory, `**` for any number of directories.
        - `commit`: with `Writes.COMMIT`, whether what is allowed is committed when the run is over, however it ended; False
          keeps the changes apart, and `Result.changes` decides. PolicyError where the policy has other writes.
        - `limits`: of this run (default: the Sandbox's). `merge_stderr`: all output is in `Result.stdout`, as it was written.

        Whatever the guest does is in the Result. `PolicyError`: an argument makes no sense. `ExecError`: the program is
        missing, not executable, set-id, for another machine, or has a bad interpreter. `SetupError`: something of ours failed.
        On return, also by an exception (KeyboardInterrupt), every process of the run is dead and reaped.
        """
        job = self._job(argv, **options)
        if job.given_stdin is not None:
            job.stdin = open_source(job.given_stdin)
        try:
            if self._budget is _NO_BUDGET:
                return self._run(job)
            with self._budget.hold(job.limits):
                return self._run(job)
        finally:
            job.stdin.close()

    def _run(self, job: Job) -> Result:
        try:
            return self._backend.run(job)
        except ExecError as error:
            if not job.renewed_after(error):
                raise
            return self._backend.run(job)

    def spawn(self, argv: Sequence[Argument], **options: Unpack[RunOptions]) -> Process:
        """Starts a program as `run` does and returns at once. With stdin=None, `Process.stdin` is there to write to.

        Errors as in `run`; what goes wrong after the start comes with the first use of the Process.
        """
        job = self._job(argv, **options)
        claim = None
        if self._budget is not _NO_BUDGET:
            room = threading.Event()
            claim = self._budget.ask(job.limits, room.set)
            with claim.kept():
                room.wait()
        return self._spawn(job, claim)

    def _spawn(self, job: Job, claim: Claim | None) -> Process:
        """The claim is the Process's from here on."""
        source = NOTHING
        try:
            source = job.stdin = open_source(job.given_stdin)
            job.pipe_stdin = source.is_nothing
            return Process(self._backend.start(job), source, claim)
        except BaseException:
            source.close()
            if claim is not None:
                claim.release()
            raise

    async def run_async(self, argv: Sequence[Argument], **options: Unpack[RunOptions]) -> Result:
        """As `run`, in an event loop: without a thread, and with one descriptor for the loop to watch. Cancelling it ends the
        run, and returns when every process of the run is dead and reaped. Any loop that has `add_reader` serves. Errors as of
        `run`."""
        options.setdefault("stdin", b"")
        job = self._job(argv, **options)
        return await whole(job, lambda: self._begin(job))

    async def spawn_async(self, argv: Sequence[Argument], **options: Unpack[RunOptions]) -> AsyncProcess:
        """As `spawn`, in an event loop: `async with` the Process, `async for chunk in process.stdout`. With stdin=None,
        `process.stdin` is there to write to. The Process belongs to the loop that made it. Errors as of `run`."""
        job = self._job(argv, **options)
        return await begun(job, lambda: self._begin(job))

    async def _begin(self, job: Job) -> AsyncProcess:
        claim = None
        if self._budget is not _NO_BUDGET:
            claim = await claimed(self._budget, job.limits)
        return await start(self._starter(), claim, lambda: self._spawn(job, claim))

    def _starter(self) -> Starter:
        loop = asyncio.get_running_loop()
        starter = self._starters.get(loop)
        if starter is None:
            starter = self._starters[loop] = Starter(self._backend)
        return starter

    def map(
        self,
        jobs: Iterable[object],
        *,
        concurrency: int | None = None,
        ordered: bool = True,
        stop_on: Callable[[Outcome], object] | None = None,
    ) -> Iterator[Outcome]:
        """Runs many jobs, `concurrency` at once (1 to 1024; default: one for each core), and gives their outcomes: a Result
        each, or the SandboxError that kept a job from having one.

        - `jobs`: an argv, a Job, or a mapping of the options of `run` with `argv`, each. Taken from the iterator as there is
          room: at most twice `concurrency` ahead of what the caller has got.
        - `ordered`: in the order of the jobs, else as they end.
        - `stop_on`: after the first outcome for which this is true nothing more is taken; what runs is ended, and comes as it is.

        One thread serves all of them. KeyboardInterrupt ends what runs and comes through after what is done was given.
        """
        places = arguments.places(concurrency)
        return outcomes(lambda: self._supervisor(places), self._task, jobs, places, ordered, stop_on, alone)

    def run_many(self, jobs: Iterable[object], *, concurrency: int | None = None) -> list[Outcome]:
        """As `map`, to the end: the outcomes in the order of the jobs."""
        return list(self.map(jobs, concurrency=concurrency))

    def _supervisor(self, places: int | None = None) -> Supervisor:
        """What `map` and SandboxExecutor run their jobs with."""
        budget = None if self._budget is _NO_BUDGET else self._budget
        return Supervisor(self._backend, arguments.places(places), budget)

    def _task(self, spec: object) -> Task:
        job = JobSpec.of(spec)
        return Task(self._job(job.argv, **job.options()))

    def _job(
        self,
        argv: Sequence[Argument],
        *,
        stdin: Input = None,
        stdout: PipeEnd | None = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        workspace: Path | None = None,
        files: Mapping[str, bytes] | None = None,
        collect: Iterable[str] = (),
        merge_stderr: bool = False,
        commit: bool = True,
        **unknown: object,
    ) -> Job:
        arguments.refuse_unknown(unknown)
        if self._closed:
            raise PolicyError("this Sandbox is closed", remedy="make a new one")
        if workspace is not None and files:
            raise PolicyError("files= and workspace= exclude each other", remedy="write the files into the workspace")
        placed = paths.files(files) if files else {}
        where = None if cwd is None else paths.absolute("cwd", cwd)
        wanted = paths.patterns(collect) if collect != () else ()
        shown = None if workspace is None else workspaces.check(workspace)
        words = words_of(argv)

        def look_again() -> Body:
            self._encoder.forget()
            return self._encoder.body(words, env, where, placed, secrets, shown)

        return Job(
            body=self._encoder.body(words, env, where, placed, secrets, shown),
            look_again=look_again,
            given_stdin=stdin,
            limits=arguments.checked("limits", limits, Limits, self._limits),
            stdin=NOTHING,
            stdout=None if stdout is None else pipe_end.check("stdout", stdout),
            merge_stderr=bool(merge_stderr),
            workspace=shown,
            commit=arguments.commit(commit, self._policy),
            collect=collecting.parse(wanted) if wanted else None,
            cwd=where or "",
            files=placed,
        )

    def close(self) -> None:
        """Ends every run (each is `cancelled`), the launcher and all that it made. Harmless when repeated."""
        self._closed = True
        self._finalizer()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
