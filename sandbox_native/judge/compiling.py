"""Compiles submissions, validators and graders, each in a box of its own, and keeps what came of it in a store. Host process.

Called by judging.py for submissions and by helpers.py for the package's own programs. A compiler does what its source says
(macros, includes, constant expressions, BEGIN blocks), so it is a guest like any other: no network, limits of its own, and
nothing to read but the system's programs and the submission. What went wrong is told apart: the compiler's own refusal, time,
memory, output. Only programs and plain refusals are kept: what a limit or a signal ended may go well another time.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Unpack

from sandbox_native.errors import SandboxError
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.handed_in import MOST_FILES
from sandbox_native.judge.language import Entry, Language
from sandbox_native.judge.languages import Languages, builtin, version_of
from sandbox_native.judge.outcomes import CompileFailure, CompileResult
from sandbox_native.judge.program import Program
from sandbox_native.judge.sources import Sources, prepared
from sandbox_native.judge.store import Lease, Store
from sandbox_native.judge.values import ProblemLimits, ProgramSource
from sandbox_native.limits import Limits
from sandbox_native.options import RunOptions
from sandbox_native.policy import Policy
from sandbox_native.result import Result, Status
from sandbox_native.runner import run

_MIB: Final = 1 << 20
_DEFAULT: Final = ProblemLimits()
_WORDS_BYTES: Final = 64 << 10  # of the compiler's that are kept
_MAIN: Final = (b"main", b"([Ljava/lang/String;)V")  # a class with a main method has both in its pool of constants
_STATUSES: Final[Mapping[Status, CompileFailure]] = {
    Status.WALL_LIMIT: CompileFailure.TIME,
    Status.CPU_LIMIT: CompileFailure.TIME,
    Status.MEMORY_LIMIT: CompileFailure.MEMORY,
    Status.OUTPUT_LIMIT: CompileFailure.OUTPUT,
}
# What compilers, and what they are made of, say when they are refused memory, or room for a file; and when somebody else ended
# a part of them, which says nothing of the source. Lines of the source that they show begin otherwise, but a source has its ways
# to make a compiler say what it likes: of memory the words count only when much of it was in use.
_MUCH: Final = 0.5
_NO_MEMORY: Final = re.compile(
    rb"^(?:\S+/)?(?:cc1(?:plus)?|lto1|as|ld): .*(?:out of memory|memory exhausted)|^virtual memory exhausted"
    rb"|^The system is out of resources\.|^# There is insufficient memory for the Java Runtime|^LLVM ERROR: out of memory"
    rb"|^memory allocation of \d+ bytes failed|^fatal error: runtime: out of memory|^FATAL ERROR: .*out of memory|^MemoryError",
    re.MULTILINE,
)
_NO_ROOM: Final = re.compile(
    rb"^(?! *\d+ \|).*(?:No space left on device|File too large|File size limit exceeded|signal: file size limit)",
    re.MULTILINE,
)
_ENDED: Final = re.compile(rb"^\S+: .*Killed signal terminated|signal: killed|Resource temporarily unavailable", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compiled:
    """What became of a compilation; `program` is there when `result.ok`."""

    result: CompileResult
    program: Program | None = None


def compile_limits(limits: ProblemLimits = _DEFAULT) -> Limits:
    """The limits of a compilation, from those of a problem: CPU time and memory of the compiler's whole tree."""
    return Limits(
        wall_seconds=2 * limits.compilation_seconds + 1,
        cpu_seconds=limits.compilation_seconds,
        memory_bytes=limits.compilation_memory_bytes,
        processes=256,
        open_files=1024,
        file_bytes=256 * _MIB,
        tmp_bytes=512 * _MIB,
        stdout_bytes=_WORDS_BYTES,
        stderr_bytes=_WORDS_BYTES,
        collect_bytes=256 * _MIB,
        collect_files=MOST_FILES,
    )


def compile_submission(
    source: ProgramSource,
    *,
    language: Language | None = None,
    languages: Languages | None = None,
    limits: ProblemLimits | Limits = _DEFAULT,
    store: Store | None = None,
    hidden: Iterable[str | os.PathLike[str]] = (),
    boxes: Boxes | None = None,
) -> Compiled:
    """Compiles a submission, validator or grader, unless the store has what came of the same before.

    - `language`: None finds it among `languages` (default: those that come with the package).
    - `limits`: of the compilation. `store`: where programs are kept (default: one in the user's cache directory).
    - `hidden`: host paths that the compiler must not see, such as a problem's directory: it matters for one that lies beneath
      the system's directories (/usr, /opt …) or beneath what the language has readable.
    - `boxes`: Sandboxes to compile in; whoever closes them ends the compilation. None: those of `run`.

    `PolicyError`: no language for these files, or one cannot be read; `SourceError`: one is no file, none is the main one, a bad
    name, or too large. `UnsupportedError`: the
    compiler is not installed. `StoreError`: the store has no room. `SandboxError`: it was ended from outside. What the compiler
    says of the program is in the result.
    """
    chosen = language or (languages if languages is not None else builtin()).of(source)
    given = prepared(source, chosen)
    key = given.key(version_of(chosen))
    kept_in = store or _default_store()
    with kept_in.turn(key):
        known = _known(kept_in, key, given)
        if known is not None:
            return known
        bounds = limits if isinstance(limits, Limits) else compile_limits(limits)
        policy = chosen.policy(hidden=chosen.to_hide(hidden))
        return _fresh(kept_in, key, given, bounds, functools.partial(_run, boxes, policy))


def _run(boxes: Boxes | None, policy: Policy, argv: Sequence[str], **options: Unpack[RunOptions]) -> Result:
    if boxes is None:
        return run(argv, policy=policy, **options)
    return boxes.of(policy).run(argv, **options)


@functools.cache
def _default_store() -> Store:
    return Store()


def _known(store: Store, key: str, given: Sources) -> Compiled | None:
    """What was kept of an earlier compilation, if its program is still there."""
    content = store.record(key)
    if content is None:
        return None
    record = json.loads(content)
    failure = record["failure"]
    result = CompileResult(
        failure=None if failure is None else CompileFailure(failure),
        output=record["output"],
        wall_seconds=record["wall_seconds"],
        cpu_seconds=record["cpu_seconds"],
        peak_memory_bytes=record["peak_memory_bytes"],
        cached=True,
        command=given.command,
        language=given.language.name,
    )
    if failure is not None:
        return Compiled(result=result)
    lease = store.lease(record["program"])
    return None if lease is None else Compiled(result=result, program=_program(store, given, record["entry"], lease))


def _program(store: Store, given: Sources, entry: str, lease: Lease) -> Program:
    return Program(language=given.language, name=lease.name, store=store.programs, entry=entry, lease=lease)


def _fresh(store: Store, key: str, given: Sources, limits: Limits, run_compiler: Callable[..., Result]) -> Compiled:
    result, files, doubtful = _compiled(given, limits, run_compiler)
    entry = given.entry
    if result.ok and given.language.entry is Entry.JVM_CLASS:
        entry = _class(given, files)
        if not entry:
            wrong = f"there is no class {given.entry}" if given.entry else "no class has a main method"
            result = replace(result, failure=CompileFailure.ERROR, output=f"{result.output}{wrong}\n")
    record: dict[str, Any] = {
        "failure": result.failure,
        "output": result.output,
        "wall_seconds": result.wall_seconds,
        "cpu_seconds": result.cpu_seconds,
        "peak_memory_bytes": result.peak_memory_bytes,
    }
    if result.ok:
        lease = store.keep(files)
        store.keep_record(key, json.dumps({**record, "program": lease.name, "entry": entry}).encode())
        return Compiled(result=result, program=_program(store, given, entry, lease))
    if result.failure is CompileFailure.ERROR and not doubtful:
        store.keep_record(key, json.dumps(record).encode())
    return Compiled(result=result)


def _compiled(
    given: Sources, limits: Limits, run_compiler: Callable[..., Result]
) -> tuple[CompileResult, dict[str, bytes], bool]:
    """What the compiler said, the files of the program, and whether another time may end otherwise."""
    language = given.language
    kept = dict(given.files) if language.keep_sources else {}
    if not language.compile:
        return CompileResult(language=language.name), kept, False
    result = run_compiler(
        given.command,
        limits=limits,
        files=given.files,
        collect=language.outputs,
        env=dict(language.compile_environment),
        merge_stderr=True,
    )
    if result.status is Status.CANCELLED:
        raise SandboxError("the compilation was ended from outside")
    # Of a program that is its sources the rest is a convenience.
    refused = result.files_refused if result.ok and not language.keep_sources else {}
    outcome = CompileResult(
        failure=_failure(result, refused, limits),
        output=_words(result, refused),
        wall_seconds=result.usage.wall_seconds,
        cpu_seconds=result.usage.cpu_seconds,
        peak_memory_bytes=result.usage.peak_memory_bytes,
        command=given.command,
        language=language.name,
    )
    doubtful = result.status not in (Status.OK, Status.NONZERO_EXIT) or _ENDED.search(result.stdout) is not None
    return outcome, {**result.files, **kept}, doubtful


def _failure(result: Result, refused: Mapping[str, str], limits: Limits) -> CompileFailure | None:
    if result.ok:
        if not refused:
            return None
        return CompileFailure.OUTPUT if any("Limits.collect" in why for why in refused.values()) else CompileFailure.ERROR
    if result.status in _STATUSES:
        return _STATUSES[result.status]
    if _NO_ROOM.search(result.stdout):
        return CompileFailure.OUTPUT
    much = result.usage.peak_memory_bytes >= _MUCH * limits.memory_bytes
    return CompileFailure.MEMORY if much and _NO_MEMORY.search(result.stdout) else CompileFailure.ERROR


def _words(result: Result, refused: Mapping[str, str]) -> str:
    """The compiler's, and ours where a limit or a signal ended it, or it made something else than a program."""
    lines = [result.text.rstrip("\n")] if result.stdout else []
    if result.stdout_truncated:
        lines.append(f"[{result.stdout_total} bytes in all]")
    if result.status is Status.SIGNALED or result.status in _STATUSES or result.status is Status.FORBIDDEN_SYSCALL:
        lines.append(f"[{result.status}: {result.hint}]" if result.hint else f"[{result.status}]")
    lines += (f"[{name}: {why}]" for name, why in refused.items())
    return "".join(f"{line}\n" for line in lines)


def _class(given: Sources, files: Mapping[str, bytes]) -> str:
    """The stated class, else one with a main method: of the only source's name, called Main, or the first. Empty: there is
    none, or not the stated one."""
    all_names = [name for name in sorted(files) if name.endswith(".class")]
    if given.entry:
        return given.entry if given.entry in map(_class_name, all_names) else ""
    classes = [_class_name(name) for name in all_names if all(one in files[name] for one in _MAIN)]
    stems = [os.path.basename(name).rpartition(".")[0] for name in given.names]
    for wanted in (*(stems if len(stems) == 1 else ()), "Main", *stems):
        for name in classes:
            if name.rpartition(".")[2] == wanted:
                return name
    return classes[0] if classes else ""


def _class_name(path: str) -> str:
    """Of a file beneath the directory of what was compiled."""
    return path.partition("/")[2].removesuffix(".class").replace("/", ".")
