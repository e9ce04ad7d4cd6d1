"""Sandbox: one policy, one launcher, any number of runs. Public; every system.

Arguments are checked here, before anything is touched; what a run needs of the operating system is the backend's.
"""

from __future__ import annotations

import asyncio
import errno
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self, TypeVar, Unpack

from sandbox_native import files as collecting
from sandbox_native import paths
from sandbox_native import workspace as workspaces
from sandbox_native.aio import AsyncProcess, Starter, start
from sandbox_native.backends.base import Job, Stats, Upkeep
from sandbox_native.backends.select import open_backend
from sandbox_native.batch import Outcome, outcomes
from sandbox_native.budget import Budget
from sandbox_native.environment import Environment
from sandbox_native.errors import ExecError, PolicyError, SandboxError
from sandbox_native.executables import ExecutableResolver
from sandbox_native.limits import Limits
from sandbox_native.options import Job as JobSpec
from sandbox_native.options import RunOptions
from sandbox_native.policy import Policy
from sandbox_native.process import Process
from sandbox_native.request import Argument, Encoder, words_of
from sandbox_native.result import Result
from sandbox_native.stdin import NOTHING, Input, open_source
from sandbox_native.supervisor import Supervisor, Task

_Value = TypeVar("_Value", Policy, Limits, Budget)
_STRICT: Final = Policy.strict()
_DEFAULT: Final = Limits()
_NO_BUDGET: Final = Budget()
_MOST_PREPARED: Final = 1024
_MOST_IDLE_SECONDS: Final = 86_400


class Sandbox:
    """Keeps a launcher that stamps out boxes for one policy. Safe in threads; a context manager.

    - `limits`: those of runs that bring none.
    - `cgroup`: the directory of an empty, delegated control group (v2) to use instead of the host's own.
    - `prepared`: how many boxes stand ready at any time; a run then only starts its program in one. Two always do, once they were used.
      Boxes above that number end when nobody wanted them for `idle_seconds`. `stats` tells how many runs found one ready.
    - `pinned`: each run gets one core, the one with the fewest runs of ours, for stable timing.
    - `budget`: what the runs of this and other Sandboxes may have together; a run waits until there is room.

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
        self._policy = checked_policy(policy)
        self._budget = _checked("budget", budget, Budget, _NO_BUDGET)
        self._starters: weakref.WeakKeyDictionary[object, Starter] = weakref.WeakKeyDictionary()  # by event loop
        self._limits = _checked("limits", limits, Limits, _DEFAULT)
        self._encoder = self._make_encoder(_environment(self._policy))
        self._closed = False
        group = None if cgroup is None else paths.absolute("cgroup", cgroup)
        self._backend = open_backend(self._policy, self._limits, group, self._kept(_upkeep(prepared, idle_seconds, pinned)))
        self._finalizer = weakref.finalize(self, self._backend.close)

    def _make_encoder(self, environment: Environment) -> Encoder:
        return Encoder(environment, ExecutableResolver(self._policy), os.environ)

    def _kept(self, upkeep: Upkeep) -> Upkeep:
        return upkeep

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def limits(self) -> Limits:
        return self._limits

    def stats(self) -> Stats:
        """How boxes were kept ready since the launcher was started."""
        return self._backend.stats()

    def run(
        self,
        argv: Sequence[Argument],
        *,
        stdin: Input = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        files: Mapping[str, bytes] | None = None,
        collect: Iterable[str] = (),
        merge_stderr: bool = False,
        commit: bool = True,
    ) -> Result:
        """Runs a program in a box of its own and waits for its end.

        - `argv`: the program, by path or sought in the box's PATH (see `ExecutableResolver`), and its arguments.
        - `stdin`: None (empty), bytes, a path, or a descriptor or file that is open for reading; the host relays it.
        - `env`: added to the clean environment that every guest gets; PATH, HOME, USER, LOGNAME, LANG and TMPDIR are ours.
        - `secrets`: the same for values that nothing of ours shows or keeps: no message, repr, result or cache.
        - `cwd`: in the box; default /workspace.
        - `workspace`: a host directory shown read-write as /workspace. Its bytes are bounded for each file only.
        - `files`: {relative name: bytes}, placed in the private workspace first; 0755 for what begins as a program or script
          does, else 0644.
        - `collect`: names and patterns of files in the workspace that come back in `Result.files`: `*`, `?` and `[...]` within a
          directory, `**` for any number of directories.
        - `commit`: with `Writes.COMMIT`, whether what is allowed is committed when the run is over, however it ended; False keeps the
          changes apart, and `Result.changes` decides.

        Whatever the guest does is in the Result. `PolicyError`: an argument makes no sense. `ExecError`: the program is
        missing, not executable, set-id, for another machine, or has a bad interpreter. `SetupError`: something of ours failed.
        On return, also by an exception (KeyboardInterrupt), every process of the run is dead and reaped.
        """
        argv = words_of(argv)
        job = self._job(argv, limits, env, secrets, cwd, workspace, files, collect, merge_stderr, commit)
        if stdin is not None:
            job.stdin = open_source(stdin)
        try:
            if self._budget is _NO_BUDGET:
                return self._run(job, argv, env, secrets)
            with self._budget.hold(job.limits):
                return self._run(job, argv, env, secrets)
        finally:
            job.stdin.close()

    def _run(
        self, job: Job, argv: Sequence[Argument], env: Mapping[str, str] | None, secrets: Mapping[str, str] | None
    ) -> Result:
        try:
            return self._backend.run(job)
        except ExecError as error:
            if error.errno != errno.ESTALE or job.stdin.fd >= 0:  # of a descriptor something may have been read already
                raise
            # The program was replaced between our look at it and the box's.
            self._encoder.forget()
            job.body = self._encoder.body(argv, env, job.cwd or None, job.files, secrets, job.workspace)
            return self._backend.run(job)

    def spawn(
        self,
        argv: Sequence[Argument],
        *,
        stdin: Input = None,
        limits: Limits | None = None,
        env: Mapping[str, str] | None = None,
        secrets: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        workspace: str | os.PathLike[str] | None = None,
        files: Mapping[str, bytes] | None = None,
        collect: Iterable[str] = (),
        merge_stderr: bool = False,
        commit: bool = True,
    ) -> Process:
        """Starts a program as `run` does and returns at once. With stdin=None, `Process.stdin` is there to write to.

        Errors as in `run`; what goes wrong after the start comes with the first use of the Process.
        """
        job = self._job(argv, limits, env, secrets, cwd, workspace, files, collect, merge_stderr, commit)
        source = job.stdin = open_source(stdin)
        job.pipe_stdin = source.is_nothing
        try:
            box = self._backend.start(job)
            if secrets:
                job.body = replace(job.body, data=b"")  # the Process outlives the run, and has the job
            return Process(box, source)
        except BaseException:
            source.close()
            raise

    async def run_async(self, argv: Sequence[Argument], **options: Unpack[RunOptions]) -> Result:
        """As `run`, in an event loop: without a thread, and with one descriptor for the loop to watch. Cancelling it ends the run, and
        returns when every process of the run is dead and reaped. Any loop that has `add_reader` serves."""
        options.setdefault("stdin", b"")
        process = await self.spawn_async(argv, **options)
        async with process:
            return await process.wait()

    async def spawn_async(self, argv: Sequence[Argument], **options: Unpack[RunOptions]) -> AsyncProcess:
        """As `spawn`, in an event loop: `async with` the Process, `async for chunk in process.stdout`. With stdin=None,
        `process.stdin` is there to write to. The Process belongs to the loop that made it."""
        return await start(self._starter(), lambda: self.spawn(argv, **options))

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
        """Runs many jobs, `concurrency` at once (default: one for each core), and gives their outcomes: a Result each, or the
        SandboxError that kept a job from having one.

        - `jobs`: an argv, a Job, or a mapping of the options of `run` with `argv`, each. Taken from the iterator as there is room:
          at most twice `concurrency` ahead of what the caller has got.
        - `ordered`: in the order of the jobs, else as they end.
        - `stop_on`: after the first outcome for which this is true nothing more is taken; what runs is ended, and comes as it is.

        One thread serves all of them. KeyboardInterrupt ends what runs and comes through after what is done was given.
        """
        places = _concurrency(concurrency)
        supervisor = self.supervisor(places)
        return outcomes(supervisor, map(self._task, jobs), concurrency=places, ordered=ordered, stop_on=stop_on)

    def _task(self, spec: object) -> Task | SandboxError:
        try:
            return self.task(spec)
        except SandboxError as error:
            return error

    def run_many(self, jobs: Iterable[object], *, concurrency: int | None = None) -> list[Outcome]:
        """As `map`, to the end: the outcomes in the order of the jobs."""
        return list(self.map(jobs, concurrency=concurrency))

    def supervisor(self, places: int | None = None) -> Supervisor:
        """What `map` and SandboxExecutor run their jobs with."""
        budget = None if self._budget is _NO_BUDGET else self._budget
        return Supervisor(self._backend, _concurrency(places), budget)

    def task(self, spec: object) -> Task:
        """A job as the supervisor takes it."""
        job = JobSpec.of(spec)
        given = job.options()
        stdin = given.pop("stdin")
        argv = words_of(job.argv)
        names = ("limits", "env", "secrets", "cwd", "workspace", "files", "collect", "merge_stderr", "commit")
        made = self._job(argv, *(given[name] for name in names))

        def renew() -> None:
            self._encoder.forget()
            made.body = self._encoder.body(argv, job.env, made.cwd or None, made.files, job.secrets, made.workspace)

        return Task(made, stdin, renew)

    def _job(
        self,
        argv: Sequence[Argument],
        limits: Limits | None,
        env: Mapping[str, str] | None,
        secrets: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        workspace: str | os.PathLike[str] | None,
        files: Mapping[str, bytes] | None,
        collect: Iterable[str],
        merge_stderr: bool,
        commit: bool,
    ) -> Job:
        if self._closed:
            raise PolicyError("this Sandbox is closed", remedy="make a new one")
        if workspace is not None and files:
            raise PolicyError("files= and workspace= exclude each other", remedy="write the files into the workspace")
        placed = paths.files(files) if files else {}
        where = None if cwd is None else paths.absolute("cwd", cwd)
        wanted = paths.patterns(collect) if collect != () else ()
        shown = None if workspace is None else workspaces.check(workspace)
        return Job(
            body=self._encoder.body(argv, env, where, placed, secrets, shown),
            limits=_checked("limits", limits, Limits, self._limits),
            stdin=NOTHING,
            merge_stderr=bool(merge_stderr),
            workspace=shown,
            commit=bool(commit),
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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _upkeep(prepared: int, idle_seconds: float, pinned: bool) -> Upkeep:
    if isinstance(prepared, bool) or not isinstance(prepared, int) or not 0 <= prepared <= _MOST_PREPARED:
        raise PolicyError("not a number of boxes", field="prepared", value=prepared, remedy=f"give 0 to {_MOST_PREPARED}")
    if not isinstance(idle_seconds, (int, float)) or not 1 <= idle_seconds <= _MOST_IDLE_SECONDS:
        raise PolicyError("not a time", field="idle_seconds", value=idle_seconds, remedy=f"give 1 to {_MOST_IDLE_SECONDS} seconds")
    return Upkeep(prepared=prepared, idle_seconds=float(idle_seconds), pinned=bool(pinned))


def _concurrency(wanted: int | None) -> int:
    if wanted is None:
        return os.cpu_count() or 1
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= _MOST_PREPARED:
        raise PolicyError("not a number of runs", field="concurrency", value=wanted, remedy=f"give 1 to {_MOST_PREPARED}")
    return wanted


def _environment(policy: Policy) -> Environment:
    return Environment(
        path=policy.path, inherit=policy.inherit, inherit_unsafe=policy.inherit_unsafe, deterministic=policy.deterministic
    )


def checked_policy(policy: Policy | None) -> Policy:
    """The policy itself, or the default one; PolicyError for anything else."""
    return _checked("policy", policy, Policy, _STRICT)


def _checked(field: str, value: object, kind: type[_Value], default: _Value) -> _Value:
    if value is None:
        return default
    if not isinstance(value, kind):
        raise PolicyError(f"not a {kind.__name__}", field=field, value=value, remedy=f"give a {kind.__name__} or None")
    return value
