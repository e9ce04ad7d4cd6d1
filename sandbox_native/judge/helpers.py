"""Programs of a package that are not judged: validators and graders. Each runs in a box of its own, with the limits that the
problem states for validation. Host process; made by setup.py and inputs.py, run by them and by validators.py and interactive.py.

Source: the problem package format, "Programs": a directory with a script `build` is built by it, in a copy of the directory, and
what is run then is `run`; with `run` alone there is nothing to build. Other programs are compiled as submissions are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sandbox_native.errors import SandboxError
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.compiling import compile_submission
from sandbox_native.judge.language import Language
from sandbox_native.judge.languages import Languages
from sandbox_native.judge.program import Program
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import ProblemLimits, ProgramSource
from sandbox_native.limits import UNLIMITED_STACK_BYTES, Limits, Overflow
from sandbox_native.paths import Pair
from sandbox_native.result import Result, Status
from sandbox_native.sandbox import Sandbox

_LARGEST: Final = 64 << 20
_WORDS: Final = 300
_BUILD: Final = (
    "chmod u+x build && if [ -e run ]; then chmod u+x run; fi && ./build || exit; "
    "[ -f run ] && [ -x run ] || { echo 'build has left no executable run' >&2; exit 1; }"
)
_BUILT: Final = Language(
    name="built", title="Build script", compile=("sh", "-c", _BUILD), outputs=("**",), run=("{directory}/run",)
)
_RUN: Final = Language(name="run", title="Run script", keep_sources=True, run=("{directory}/run",))
_LIMITS: Final = {
    Status.WALL_LIMIT: "wall",
    Status.CPU_LIMIT: "cpu",
    Status.MEMORY_LIMIT: "memory",
    Status.OUTPUT_LIMIT: "output",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Helper:
    """A program of the package, ready to run. `role` for messages: "the output validator"."""

    role: str
    program: Program
    sandbox: Sandbox
    limits: Limits
    problem: Limits

    def argv(self, arguments: Iterable[str]) -> tuple[str, ...]:
        return self.program.argv(self.problem, arguments)

    def fault(self, result: Result) -> str:
        """What went wrong with a run that did not end with an exit code of its own choosing."""
        name = limit_of(result)
        if name:
            return f"{self.role} passed its {name} limit ({result.hint})"
        if result.status is Status.SIGNALED:
            how = f"was ended by signal {result.signal}"
        elif result.exit_code is not None:
            how = f"exited with {result.exit_code}"
        else:
            how = f"was ended: {result.hint or result.status}"
        said = result.stderr[-_WORDS:].decode("utf-8", "replace").strip()
        return f"{self.role} {how}{f': {said}' if said else ''}"


def limit_of(result: Result) -> str | None:
    return _LIMITS.get(result.status)


def helper(
    role: str,
    source: ProgramSource,
    limits: ProblemLimits,
    boxes: Boxes,
    languages: Languages,
    store: Store | None,
    readable: Iterable[Pair] = (),
) -> Helper:
    """Compiles it. `readable`: what its box shows beside the program. SandboxError when it does not compile; otherwise as of
    `compile_submission`."""
    compiled = compile_submission(
        source, language=_scripted(source), languages=languages, limits=limits, store=store, boxes=boxes
    )
    if compiled.program is None:
        said = compiled.result.output.strip()[-_WORDS:]
        raise SandboxError(f"{role} {source.name} does not compile ({compiled.result.failure}): {said}")
    stated = validation_limits(limits)
    program = compiled.program
    run = program.limits(stated)
    return Helper(
        role=role,
        program=program,
        sandbox=boxes.of(program.policy(readable=tuple(readable))),
        limits=replace(run, stack_bytes=UNLIMITED_STACK_BYTES),
        problem=stated,
    )


def _scripted(source: ProgramSource) -> Language | None:
    """How a program with scripts of its own is built and run; None: by the language of its files."""
    names = {file.name for file in source.files}
    return _BUILT if "build" in names else _RUN if "run" in names else None


def validation_limits(limits: ProblemLimits) -> Limits:
    seconds, output = limits.validation_seconds, min(max(1, limits.validation_output_bytes), _LARGEST)
    return Limits(
        cpu_seconds=seconds,
        wall_seconds=max(2 * seconds, seconds + 1),
        memory_bytes=max(1 << 20, limits.validation_memory_bytes),
        stack_bytes=max(1 << 20, limits.validation_memory_bytes),
        stdout_bytes=output,
        stderr_bytes=output,
        tmp_bytes=max(_LARGEST, output),
        collect_bytes=output,
        on_overflow=Overflow.KILL,
    )
