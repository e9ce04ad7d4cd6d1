"""The boxes of function-style grading: clones of two warm interpreters, one for examiners and one for programs.

Each has imported what its boxes run. A machine without namespaces for us has no warm interpreters: there the boxes
are started cold, from the same files.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from importlib import resources
from typing import Any, Final

from sandbox_native.budget import Budget
from sandbox_native.errors import SetupError, UnsupportedError
from sandbox_native.limits import Limits, Overflow
from sandbox_native.options import RunOptions
from sandbox_native.pipe_end import PipeEnd
from sandbox_native.policy import Policy
from sandbox_native.process import Process
from sandbox_native.sandbox import Sandbox
from sandbox_native.warm.python import WarmPython, with_interpreter

_PACKAGE: Final = "grading"
_COMMON: Final = (
    *("bisect", "collections", "copy", "datetime", "decimal", "functools", "hashlib", "heapq", "itertools", "json", "math"),
    *("operator", "random", "re", "string", "typing"),
)


class Role(Enum):
    """Who is in a box; the value is its module of inside/, and what it calls there."""

    EXAMINER = ("examiner", "main()")
    PROGRAM = ("program", "serve({most})")
    TOGETHER = ("together", "main()")
    SCRIPT = ("", "")
    """The program as a script of its own, between stdin and stdout."""


_IMPORTS: Final[Mapping[Role, tuple[str, ...]]] = {
    Role.EXAMINER: (*_COMMON, "fractions", "statistics", "unittest"),
    Role.PROGRAM: _COMMON,
    Role.TOGETHER: (*_COMMON, "unittest"),
    Role.SCRIPT: _COMMON,
}


class Boxes:
    """Those of one role. Safe in threads; errors of a WarmPython."""

    def __init__(
        self,
        role: Role,
        *,
        python: str | os.PathLike[str] | None,
        imports: Iterable[str],
        policy: Policy,
        prepared: int,
        budget: Budget | None,
    ) -> None:
        self._role, self._cold = role, None
        self._policy, self._python = with_interpreter(policy, python)
        self._budget = budget
        module, _ = role.value
        ours = (f"{_PACKAGE}.{module}", f"{_PACKAGE}.rehearsal") if module else ()
        names = dict.fromkeys((*_IMPORTS[role], *imports, *ours))
        self._warm: WarmPython | None = None
        try:
            self._warm = WarmPython(
                names, policy, python=python, modules=_files() if ours else None, prepared=prepared, budget=budget
            )
        except UnsupportedError:
            self._cold = self._make_cold()

    def spawn(
        self,
        files: Mapping[str, bytes],
        *,
        most: int,
        limits: Limits,
        stdin: PipeEnd | None = None,
        stdout: PipeEnd | None = None,
    ) -> Process:
        """Starts what the role says, with these files in its workspace. Where the warm interpreter has died it is started
        cold."""
        module, call = self._role.value
        call = call.format(most=most)
        warm = f"import sys\nsys.modules['{_PACKAGE}.{module}'].{call}\n".encode()
        cold = f"from {_PACKAGE}.{module} import {call.partition('(')[0]}\n{call}\n".encode()
        return self._start(warm, {**_files(), "main.py": cold}, files, {"limits": limits, "stdin": stdin, "stdout": stdout})

    def spawn_script(self, code: bytes, stdin: bytes, limits: Limits) -> Process:
        """Starts a program as a script; the role is SCRIPT."""
        return self._start(code, {"main.py": code}, {}, {"limits": limits, "stdin": stdin})

    def _start(self, warm: bytes, cold: Mapping[str, bytes], files: Mapping[str, bytes], options: RunOptions) -> Process:
        """`cold`: what a cold start needs besides."""
        given: Any = options
        if self._warm is not None:
            try:
                return self._warm.spawn(warm, files=files, **given)
            except SetupError as error:
                if error.stage != "lost":
                    raise
        if self._cold is None:
            self._cold = self._make_cold()
        return self._cold.spawn([self._python, "-s", "main.py"], files={**cold, **files}, **given)

    def _make_cold(self) -> Sandbox:
        return Sandbox(self._policy, budget=self._budget)

    def close(self) -> None:
        for kept in (self._warm, self._cold):
            if kept is not None:
                kept.close()


@functools.cache
def _files() -> Mapping[str, bytes]:
    """inside/, under the name that it has in the boxes."""
    directory = resources.files("sandbox_native.judge.functions.inside")
    return {f"{_PACKAGE}/{file.name}": file.read_bytes() for file in directory.iterdir() if file.name.endswith(".py")}


def examiner_limits(limits: Limits, tests: int) -> Limits:
    """Of an examiner, given the program's: it outlives the program, and what it says is told whole."""
    room = (64 << 10) + tests * (8 << 10)
    return replace(
        limits,
        wall_seconds=1.5 * limits.wall_seconds + 1.0,
        cpu_seconds=None,
        memory_bytes=max(limits.memory_bytes, 512 << 20),
        stderr_bytes=room,
        on_overflow=Overflow.TRUNCATE,
    )
