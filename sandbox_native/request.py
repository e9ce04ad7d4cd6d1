"""One run lowered to the body of a request: strings and files in the order that csrc/common/wire.h states. Pure.

Called by sandbox.py for every run, so what repeats between runs (the encoded environment, argv and
candidates of a program that is run again and again) is kept by `Encoder`.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from sandbox_native.environment import WORKSPACE, guest_environment
from sandbox_native.errors import STAGES, PolicyError, setup_error
from sandbox_native.executables import candidates
from sandbox_native.limits import Limits

# execve refuses more than 6 MiB of strings whatever the stack limit is (fs/exec.c, bprm_set_stack_limits): refused
# here with the same error, so that nothing of that size is copied about first.
_MAX_STRINGS: Final = 6 << 20
_STAGE_EXEC: Final = next(number for number, name in STAGES.items() if name == "exec")
_KEPT: Final = 64  # bodies that an encoder remembers, each of at most
_KEPT_BYTES: Final = 64 << 10
_FILE: Final = struct.Struct("=QII")  # struct sn_file
_ALIGN: Final = 8
_SIGNALS: Final = 1024  # waiting signals and POSIX timers
_QUEUE_BYTES: Final = 256 << 10  # three POSIX message queues of the default size


Argument = str | bytes | os.PathLike[str]


@dataclass(frozen=True, slots=True)
class Body:
    """`data` as it travels, the counts that say how to read it, and argv[0] for messages."""

    data: bytes
    program: str
    candidates: int
    argc: int
    envc: int
    path: str = ""
    """The guest's PATH, for messages too."""
    files: int = 0


class Encoder:
    """Makes bodies, and remembers the last ones. Safe in threads: the worst that a race costs is work done twice."""

    def __init__(self) -> None:
        self._known: dict[object, Body] = {}

    def body(
        self,
        argv: Sequence[Argument],
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> Body:
        """PolicyError for arguments that no process can have, ExecError(E2BIG) for more than the kernel takes."""
        if isinstance(argv, (str, bytes)):
            raise PolicyError("one string", field="argv", value=argv, remedy="give a list of arguments")
        try:
            words = tuple(argv)
        except TypeError:
            raise PolicyError("not a list", field="argv", value=argv, remedy="give a list of arguments") from None
        # A path object may name another file the next time that it is asked.
        words = tuple(word if isinstance(word, (str, bytes)) else _path(word) for word in words)
        if env is not None and not isinstance(env, Mapping):
            raise PolicyError("not a mapping", field="env", value=env, remedy="give {'NAME': 'value'}")
        key = (words, None if env is None else tuple(env.items()), cwd)
        try:
            plain = self._known.get(key)
        except TypeError:  # an argument that cannot be hashed is none that can be encoded: _text says which
            plain = None
        if plain is None:
            plain = _strings(words, env, cwd)
            if len(plain.data) <= _KEPT_BYTES:
                if len(self._known) >= _KEPT:
                    self._known.clear()
                self._known[key] = plain
        if not files:
            return plain
        return replace(plain, data=plain.data + _records(len(plain.data), files), files=len(files))


def _path(word: Argument) -> Argument:
    return os.fspath(word) if isinstance(word, os.PathLike) else word


def _strings(argv: tuple[object, ...], env: Mapping[str, str] | None, cwd: str | None) -> Body:
    if not argv:
        raise PolicyError("empty", field="argv", value=argv, remedy="give the program as its first element")
    words = [_text(word, f"argv[{at}]") for at, word in enumerate(argv)]
    if not words[0]:
        raise PolicyError("empty", field="argv[0]", value=argv[0], remedy="name the program")
    environment = guest_environment(env)
    program = words[0].decode("utf-8", "surrogateescape")
    tried = [_text(path, "argv[0]") for path in candidates(program, environment["PATH"])]
    pairs = [_text(f"{name}={value}", "env") for name, value in environment.items()]
    parts = [_text(cwd or WORKSPACE, "cwd"), *tried, *words, *pairs]
    size = sum(map(len, words)) + sum(map(len, pairs)) + len(words) + len(pairs)
    if size > _MAX_STRINGS:
        raise setup_error(_STAGE_EXEC, errno.E2BIG, program[:100])
    return Body(b"\0".join(parts) + b"\0", program, len(tried), len(words), len(pairs), environment["PATH"])


def _text(value: object, what: str) -> bytes:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if isinstance(value, str):
        try:
            value = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError as error:
            reason = f"cannot be encoded as UTF-8: {error.reason}"
            raise PolicyError(reason, field=what, value=value, remedy="give text, or os.fsdecode of the bytes") from None
    if not isinstance(value, bytes):
        raise PolicyError("not text", field=what, value=value, remedy="give str, bytes or a path")
    if b"\0" in value:
        raise PolicyError("holds a NUL byte", field=what, value=value, remedy="none can: pass such data by stdin= or files=")
    return value


def _records(at: int, files: Mapping[str, bytes]) -> bytes:
    """struct sn_file, name and data for each, every header at a multiple of 8 counted from the body's start."""
    parts = [bytes(-at % _ALIGN)]
    for name, data in files.items():
        encoded = _text(name, "files") + b"\0"
        size = len(data)
        parts += (_FILE.pack(size, len(encoded), _mode(data)), encoded, data)
        parts.append(bytes(-(_FILE.size + len(encoded) + size) % _ALIGN))
    return b"".join(parts)


def _mode(data: bytes) -> int:
    return 0o755 if data[:2] == b"#!" or data[:4] == b"\x7fELF" else 0o644


@dataclass(frozen=True, slots=True)
class Rlimit:
    """`name` as in the resource module, lower case and without its prefix. What cannot be raised keeps the hard limit."""

    name: str
    value: int


def rlimits(limits: Limits, count_processes: bool) -> tuple[Rlimit, ...]:
    """`count_processes`: RLIMIT_NPROC is to do it; it counts init too."""
    chosen = [
        # 1 and not 0: where kernel.core_pattern is a pipe the kernel starts its helper, as root, for every crash whatever the
        # limit is, but for this value (fs/coredump.c: "RLIMIT_CORE is set to 1, aborting core"). To a file it is as good as 0.
        Rlimit("core", 1),
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
        chosen.append(Rlimit("stack", limits.stack_bytes))
    if count_processes:
        chosen.append(Rlimit("nproc", limits.processes + 1))
    return tuple(chosen)
