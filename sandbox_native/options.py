"""What a run takes besides its argv: the names for the type checker, and Job, which holds them for later. Public; every
system."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Self, TypedDict

from sandbox_native.errors import PolicyError
from sandbox_native.limits import Limits
from sandbox_native.pipe_end import PipeEnd
from sandbox_native.request import Argument
from sandbox_native.stdin import Input

Path = str | os.PathLike[str]


class RunOptions(TypedDict, total=False):
    """The options of `Sandbox.run`; what they mean is said there."""

    stdin: Input
    stdout: PipeEnd | None
    limits: Limits | None
    env: Mapping[str, str] | None
    secrets: Mapping[str, str] | None
    cwd: Path | None
    workspace: Path | None
    files: Mapping[str, bytes] | None
    collect: Iterable[str]
    merge_stderr: bool
    commit: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One run for later: for `Sandbox.map`, for a SandboxExecutor, or for another process, since it can be pickled where its
    stdin can.

    Fields as the options of `Sandbox.run`.
    """

    argv: Sequence[Argument]
    stdin: Input = None
    stdout: PipeEnd | None = None
    limits: Limits | None = None
    env: Mapping[str, str] | None = None
    secrets: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: Path | None = None
    workspace: Path | None = None
    files: Mapping[str, bytes] | None = None
    collect: Iterable[str] = ()
    merge_stderr: bool = False
    commit: bool = True

    @classmethod
    def of(cls, spec: object) -> Self:
        """From a Job, a mapping with `argv`, or an argv. PolicyError names what is wrong."""
        if isinstance(spec, cls):
            return spec
        if isinstance(spec, Mapping):
            known = {one.name for one in fields(cls)}
            for name in spec:
                if name not in known:
                    raise PolicyError(
                        "unknown", field=f"job[{name!r}]", value=spec[name], remedy=f"a job has: {', '.join(sorted(known))}"
                    )
            if "argv" not in spec:
                raise PolicyError(
                    "has no argv", field="job", value=sorted(map(str, spec)), remedy="give {'argv': [program, …], …}"
                )
            return cls(**spec)
        if isinstance(spec, (str, bytes)) or not isinstance(spec, Iterable):
            raise PolicyError("not a job", field="job", value=spec, remedy="give an argv, a Job, or a mapping with 'argv'")
        return cls(argv=list(spec))

    def options(self) -> dict[str, Any]:
        """Everything but argv, as `Sandbox.run` takes it."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name != "argv"}
