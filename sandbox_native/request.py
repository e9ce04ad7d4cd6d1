"""One run lowered to the body of a request: strings and files in the order that csrc/common/run.h states.

Called by sandbox.py for every run, so what repeats between runs (the encoded environment, argv and the program that was found
for it) is kept by `Encoder`. Pure, but for what it is given: who finds programs, and the host's environment.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

from sandbox_native.environment import HIDDEN, WORKSPACE, Environment, candidates
from sandbox_native.errors import STAGES, PolicyError, setup_error
from sandbox_native.limits import CORE_BYTES, UNLIMITED_STACK_BYTES, Limits
from sandbox_native.protection import Guard

# execve refuses more than 6 MiB of strings whatever the stack limit is (fs/exec.c, bprm_set_stack_limits): refused
# here with the same error, so that nothing of that size is copied about first.
_MAX_STRINGS: Final = 6 << 20
_STAGE_EXEC: Final = next(number for number, name in STAGES.items() if name == "exec")
_KEPT: Final = 64  # bodies that an encoder remembers, each of at most
_KEPT_BYTES: Final = 64 << 10
_KEPT_PROGRAMS: Final = 256
_FILE: Final = struct.Struct("=QII")  # struct sn_file
_GUARD: Final = struct.Struct("=QQII")  # struct sn_guard
_GUARD_FLAGS: Final = {"read_only": 1, "mask": 2}  # enum sn_guard_flag
_ALIGN: Final = 8
_SIGNALS: Final = 1024  # waiting signals and POSIX timers
_INFINITY: Final = (1 << 64) - 1  # RLIM_INFINITY
_QUEUE_BYTES: Final = 256 << 10  # three POSIX message queues of the default size


Argument = str | bytes | os.PathLike[str]


class Program(Protocol):
    """executables.Executable, as far as a request goes."""

    @property
    def path(self) -> str: ...
    @property
    def real(self) -> str: ...
    @property
    def device(self) -> int: ...
    @property
    def inode(self) -> int: ...
    @property
    def by_run(self) -> bool: ...
    def unchanged(self) -> bool: ...


class Finder(Protocol):
    """executables.ExecutableResolver."""

    def find(self, program: str, cwd: str, workspace: str | None) -> Program: ...


@dataclass(frozen=True, slots=True)
class Body:
    """`data` as it travels, the counts that say how to read it, and argv[0] for messages."""

    data: bytes = field(repr=False)  # with the environment in it, and the run's secrets
    program: str
    candidates: int
    argc: int
    envc: int
    path: str = ""
    """The guest's PATH, for messages too."""
    files: int = 0
    found: Program | None = None
    """What the host found for argv[0]; None: nobody looked."""
    has_secrets: bool = False


class Encoder:
    """Makes bodies, and remembers the last ones. Safe in threads: the worst that a race costs is work done twice."""

    def __init__(
        self, environment: Environment | None = None, finder: Finder | None = None, host: Mapping[str, str] | None = None
    ) -> None:
        """`host`: the environment that `Policy.inherit` takes from, read at each run. Without a finder the box searches."""
        self._environment = environment or Environment()
        self._finder, self._host = finder, host or {}
        self._known: dict[object, Body] = {}
        self._programs: dict[object, Program] = {}

    def body(
        self,
        argv: Sequence[Argument],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
        secrets: Mapping[str, str] | None = None,
        workspace: str | None = None,
    ) -> Body:
        """PolicyError for arguments that no process can have, ExecError for a program that is not there or not to be run, or
        more of arguments than the kernel takes (E2BIG). What is remembered holds no secret."""
        words = words_of(argv)
        if env is not None and not isinstance(env, Mapping):
            raise PolicyError("not a mapping", field="env", value=env, remedy="give {'NAME': 'value'}")
        entries = () if secrets is None else self._environment.secrets(secrets, env)
        inherited = self._environment.inherited(self._host) if self._environment.inherit else ()
        if secrets is not None:
            inherited = tuple(pair for pair in inherited if pair[0] not in secrets)
        body = self._plain(words, env, inherited, cwd, workspace)
        if entries:
            body = _with_secrets(body, entries)
        if not files:
            return body
        return replace(body, data=body.data + _records(len(body.data), files), files=len(files))

    def forget(self) -> None:
        """What is remembered does not hold any more."""
        self._known.clear()
        self._programs.clear()

    def _plain(
        self,
        words: tuple[Any, ...],
        env: Mapping[str, str] | None,
        inherited: tuple[tuple[str, str], ...],
        cwd: str | None,
        workspace: str | None,
    ) -> Body:
        key = (words, None if env is None else tuple(env.items()), cwd, inherited)
        try:
            plain = self._known.get(key)
        except TypeError:  # an argument that cannot be hashed is none that can be encoded: _text says which
            plain = None
        if plain is not None and (plain.found is None or plain.found.unchanged()):
            if plain.found is not None or self._finder is None:
                return plain
            return replace(plain, found=self._find(plain.program, cwd, workspace))  # its program lies in the workspace
        body = _strings(words, self._environment.of(env, inherited), cwd, lambda program: self._find(program, cwd, workspace))
        if len(body.data) <= _KEPT_BYTES:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[key] = replace(body, found=None) if body.found is not None and body.found.by_run else body
        return body

    def _find(self, program: str, cwd: str | None, workspace: str | None) -> Program | None:
        if self._finder is None:
            return None
        key = (program, cwd, workspace)
        found = self._programs.get(key)
        if found is None or not found.unchanged():
            if len(self._programs) >= _KEPT_PROGRAMS:
                self._programs.clear()
            found = self._programs[key] = self._finder.find(program, cwd or WORKSPACE, workspace)
        return found


def words_of(argv: Sequence[Argument]) -> tuple[Argument, ...]:
    """The arguments as they are now. PolicyError for what is no list."""
    if isinstance(argv, (str, bytes)):
        raise PolicyError("one string", field="argv", value=argv, remedy="give a list of arguments")
    try:
        words = tuple(argv)
    except TypeError:
        raise PolicyError("not a list", field="argv", value=argv, remedy="give a list of arguments") from None
    # A path object may name another file the next time that it is asked.
    return tuple(word if isinstance(word, (str, bytes)) else _path(word) for word in words)


def _path(word: Argument) -> Argument:
    return os.fspath(word) if isinstance(word, os.PathLike) else word


def _strings(
    argv: tuple[object, ...], environment: Mapping[str, str], cwd: str | None, find: Callable[[str], Program | None]
) -> Body:
    if not argv:
        raise PolicyError("empty", field="argv", value=argv, remedy="give the program as its first element")
    words = [_text(word, f"argv[{at}]") for at, word in enumerate(argv)]
    if not words[0]:
        raise PolicyError("empty", field="argv[0]", value=argv[0], remedy="name the program")
    pairs = [_text(f"{name}={value}", "env") for name, value in environment.items()]
    program, path = words[0].decode("utf-8", "surrogateescape"), environment["PATH"]
    _check_size(program, words, pairs)
    found = find(program)
    tried = [_text(one, "argv[0]") for one in (candidates(program, path) if found is None else [found.path])]
    data = _joined([_text(cwd or WORKSPACE, "cwd"), *tried, *words, *pairs])
    return Body(data, program, len(tried), len(words), len(pairs), path, found=found)


def _joined(strings: Sequence[bytes]) -> bytes:
    return b"\0".join(strings) + b"\0"


def _with_secrets(body: Body, secrets: Sequence[str]) -> Body:
    """Behind the rest of the environment, which ends the strings."""
    entries = [_text(entry, "secrets", shown=HIDDEN) for entry in secrets]
    _check_size(body.program, [body.data], entries)
    return replace(body, data=body.data + _joined(entries), envc=body.envc + len(entries), has_secrets=True)


def _check_size(program: str, *parts: Sequence[bytes]) -> None:
    if sum(len(string) + 1 for strings in parts for string in strings) > _MAX_STRINGS:
        raise setup_error(_STAGE_EXEC, errno.E2BIG, program[:100])


def _text(value: object, what: str, shown: object = None) -> bytes:
    """`shown`: what a message holds instead of the value."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        reason = ""
        try:
            value = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            reason = f"cannot be encoded as UTF-8: {error.reason}"
        if reason:  # raised here, not above: an error's __context__ would hold the value
            raise PolicyError(reason, field=what, value=shown or value, remedy="give text, or os.fsdecode of the bytes")
    if not isinstance(value, bytes):
        raise PolicyError("not text", field=what, value=shown or value, remedy="give str, bytes or a path")
    if b"\0" in value:
        raise PolicyError(
            "holds a NUL byte", field=what, value=shown or value, remedy="none can: pass such data by stdin= or files="
        )
    return value


def _records(at: int, files: Mapping[str, bytes]) -> bytes:
    """struct sn_file, name and data for each, every header at a multiple of 8 counted from the body's start."""
    parts = [bytes(-at % _ALIGN)]
    for name, data in files.items():
        encoded = _text(name, "files") + b"\0"
        size = len(data)
        parts += (_FILE.pack(size, len(encoded), file_mode(data)), encoded, data)
        parts.append(bytes(-(_FILE.size + len(encoded) + size) % _ALIGN))
    return b"".join(parts)


def file_mode(data: bytes) -> int:
    return 0o755 if data[:2] == b"#!" or data[:4] == b"\x7fELF" else 0o644


def with_guards(body: bytes, guards: Iterable[Guard]) -> bytes:
    """A request's body with a struct sn_guard and name for each, after all that it holds already."""
    parts = [body, bytes(-len(body) % _ALIGN)]
    for guard in guards:
        name = os.fsencode(guard.name) + b"\0"
        flags = sum(flag for field, flag in _GUARD_FLAGS.items() if getattr(guard, field))
        parts += (_GUARD.pack(guard.device, guard.inode, flags, len(name)), name, bytes(-(_GUARD.size + len(name)) % _ALIGN))
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Rlimit:
    """`name` as in the resource module, lower case and without its prefix. What cannot be raised keeps the hard limit."""

    name: str
    value: int


def rlimits(limits: Limits, count_processes: bool) -> tuple[Rlimit, ...]:
    """`count_processes`: RLIMIT_NPROC is to do it; it counts init too."""
    chosen = [
        Rlimit("core", CORE_BYTES),  # set ahead, from the plan
        Rlimit("nofile", limits.open_files),
        Rlimit("fsize", limits.file_bytes),
        # What the kernel counts for each user, through all user namespaces up to the host's own: without a bound of its own
        # a guest could leave the host's user no timer and no message queue.
        Rlimit("sigpending", _SIGNALS),
        Rlimit("msgqueue", _QUEUE_BYTES),
    ]
    if limits.address_space_bytes is not None:
        chosen.append(Rlimit("as", limits.address_space_bytes))
    if limits.stack_bytes is not None:
        unlimited = limits.stack_bytes >= UNLIMITED_STACK_BYTES
        chosen.append(Rlimit("stack", _INFINITY if unlimited else limits.stack_bytes))
    if count_processes:
        chosen.append(Rlimit("nproc", limits.processes + 1))
    return tuple(chosen)
