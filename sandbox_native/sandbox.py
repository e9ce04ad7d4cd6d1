"""Sandbox: one policy, one launcher, any number of runs. Public; every system.

Arguments are checked here, before anything is touched; what a run needs of the operating system is the backend's.
"""

from __future__ import annotations

import errno
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Final, Self, TypeVar

from sandbox_native import files as collecting
from sandbox_native import paths
from sandbox_native import workspace as workspaces
from sandbox_native.backends.base import Job
from sandbox_native.backends.select import open_backend
from sandbox_native.environment import Environment
from sandbox_native.errors import ExecError, PolicyError
from sandbox_native.executables import ExecutableResolver
from sandbox_native.limits import Limits
from sandbox_native.policy import Policy
from sandbox_native.process import Process
from sandbox_native.request import Argument, Encoder, words_of
from sandbox_native.result import Result
from sandbox_native.stdin import NOTHING, Input, open_source

_Value = TypeVar("_Value", Policy, Limits)
_STRICT: Final = Policy.strict()
_DEFAULT: Final = Limits()


class Sandbox:
    """Keeps a launcher that stamps out boxes for one policy. Safe in threads; a context manager.

    `limits` are those of runs that bring none. `cgroup` names the directory of an empty, delegated control group (v2)
    to use instead of the host's own.

    Making one starts the launcher: `UnsupportedError` when this machine cannot reach the policy's `minimum_rung`,
    `PolicyError` when a path of the policy is not there, `SetupError` when a step failed. After a fork the child's copy makes a
    launcher of its own at its first run.
    """

    def __init__(
        self, policy: Policy | None = None, limits: Limits | None = None, *, cgroup: str | os.PathLike[str] | None = None
    ) -> None:
        self._policy = checked_policy(policy)
        self._limits = _checked("limits", limits, Limits, _DEFAULT)
        self._closed = False
        group = None if cgroup is None else paths.absolute("cgroup", cgroup)
        self._backend = open_backend(self._policy, self._limits, group)
        self._encoder = _encoder(self._policy)
        self._finalizer = weakref.finalize(self, self._backend.close)

    @property
    def policy(self) -> Policy:
        return self._policy

    @property
    def limits(self) -> Limits:
        return self._limits

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
        - `commit`: with `Writes.COMMIT`, whether what is allowed is committed when the run is over, however it ended; False
          keeps the changes apart, and `Result.changes` decides.

        Whatever the guest does is in the Result. `PolicyError`: an argument makes no sense. `ExecError`: the program is
        missing, not executable, set-id, for another machine, or has a bad interpreter. `SetupError`: something of ours failed.
        On return, also by an exception (KeyboardInterrupt), every process of the run is dead and reaped.
        """
        argv = words_of(argv)
        job = self._job(argv, limits, env, secrets, cwd, workspace, files, collect, merge_stderr, commit)
        if stdin is not None:
            job.stdin = open_source(stdin)
        try:
            return self._backend.run(job)
        except ExecError as error:
            if error.errno != errno.ESTALE or job.stdin.fd >= 0:  # of a descriptor something may have been read already
                raise
            # The program was replaced between our look at it and the box's.
            self._encoder.forget()
            job.body = self._encoder.body(argv, env, job.cwd or None, job.files, secrets, job.workspace)
            return self._backend.run(job)
        finally:
            job.stdin.close()

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
            return Process(self._backend.start(job), source)
        except BaseException:
            source.close()
            raise

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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _encoder(policy: Policy) -> Encoder:
    environment = Environment(
        path=policy.path, inherit=policy.inherit, inherit_unsafe=policy.inherit_unsafe, deterministic=policy.deterministic
    )
    return Encoder(environment, ExecutableResolver(policy), os.environ)


def checked_policy(policy: Policy | None) -> Policy:
    """The policy itself, or the default one; PolicyError for anything else."""
    return _checked("policy", policy, Policy, _STRICT)


def _checked(field: str, value: object, kind: type[_Value], default: _Value) -> _Value:
    if value is None:
        return default
    if not isinstance(value, kind):
        raise PolicyError(f"not a {kind.__name__}", field=field, value=value, remedy=f"give a {kind.__name__} or None")
    return value
