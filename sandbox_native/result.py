"""What a run gives back: how it ended, what it wrote, what it cost, and what really held. Pure values.

Made by the backend at the end of every run, so construction checks and computes nothing; an `Enforcement` is shared by
all runs for which the same held.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sandbox_native.denials import Denial, as_text
from sandbox_native.policy import Rung

if TYPE_CHECKING:
    from sandbox_native.commit.changes import Changes

_VERSION: Final = 1

PEAK_OF_PROCESS: Final = "high-water mark of the largest process"
PEAK_OF_TREE: Final = "sampled sum of anonymous and shared memory"


class Status(StrEnum):
    """What ended the run; equal to its value, a str."""

    OK = "ok"
    """The program exited with 0."""
    NONZERO_EXIT = "nonzero_exit"
    """It exited with `Result.exit_code`."""
    SIGNALED = "signaled"
    """`Result.signal` ended it, and no limit of ours had to do with it."""
    WALL_LIMIT = "wall_limit"
    """`Limits.wall_seconds` went by."""
    CPU_LIMIT = "cpu_limit"
    """The tree used more than `Limits.cpu_seconds`, be it that it ended by itself."""
    MEMORY_LIMIT = "memory_limit"
    """The kernel or the sampler saw the tree pass `Limits.memory_bytes`."""
    OUTPUT_LIMIT = "output_limit"
    """More output than its bound, with `Overflow.KILL`."""
    FORBIDDEN_SYSCALL = "forbidden_syscall"
    """A system call that the policy's filter ends a program for; `Result.hint` names it."""
    CANCELLED = "cancelled"
    """The host ended the run."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Usage:
    """What the guest's whole tree cost.

    `cpu_seconds` is the control group's figure where there is one; `user_seconds` and `system_seconds` need not add up
    to it exactly. `peak_memory_bytes` is resident memory without page cache, and `peak_memory_source` says how it was
    found: `"high-water mark of the largest process"` or `"sampled sum of anonymous and shared memory"`.
    `peak_memory_upper_bytes` is the control group's own peak, page cache included; None where there is none.

    Init measures most of it. A guest whose memory is all in files can make the kernel end init itself for want of memory; then
    the status is memory_limit, `wall_seconds`, and `cpu_seconds` where it is the control group's, are still true, and all else
    is unknown: 0 (with `Result.killed_processes`), None for `peak_memory_upper_bytes`.

    `core` is the one that a pinned Sandbox ran it on, None for another.
    """

    wall_seconds: float
    cpu_seconds: float
    user_seconds: float
    system_seconds: float
    peak_memory_bytes: int
    peak_memory_source: str
    peak_memory_upper_bytes: int | None
    peak_processes: int
    voluntary_switches: int
    involuntary_switches: int
    core: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Layer:
    """One line of the receipt: `held` is None for a layer that was not requested."""

    name: str
    mechanism: str
    held: bool | None
    detail: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Enforcement:
    """The receipt: which rung served, and layer by layer what held during this run and by which mechanism."""

    rung: Rung
    layers: tuple[Layer, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """How one run ended. Whatever the guest did is here; our own failures are exceptions.

    - `status`: what ended it. `exit_code` (0–255) is there for ok and nonzero_exit only, `signal` (its number) for
      signaled only: a run that a limit ended has neither.
    - `stdout`, `stderr`: the bytes that were kept; `stdout_total`, `stderr_total`: how many the guest wrote;
      `…_truncated`: whether there were more than were kept. With merge_stderr all of it is in stdout.
    - `files`: what `collect` brought back, by name; `files_refused`: name -> why it was not.
    - `killed_processes`: how many were still alive when the run ended; all are dead and reaped now.
    - `hint`: one line on what to raise or what went on; None when there is nothing to add.
    - `denials`: what was refused, and why (with `Policy.explain` every refused call; without it what did not stay).
    - `changes`: with `Writes.COMMIT`, what the guest changed in host directories; None otherwise.
    """

    status: Status
    exit_code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    stdout_total: int
    stderr_total: int
    stdout_truncated: bool
    stderr_truncated: bool
    usage: Usage
    killed_processes: int
    enforcement: Enforcement
    hint: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    files_refused: Mapping[str, str] = field(default_factory=dict)
    denials: tuple[Denial, ...] = ()
    changes: Changes | None = None

    @property
    def text(self) -> str:
        """`stdout` as UTF-8, with U+FFFD for what is not."""
        return self.stdout.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        """Whether the program exited with 0 within all limits."""
        return self.status is Status.OK

    def to_dict(self) -> dict[str, Any]:
        """The result for `json.dumps`: bytes as `{"text": …}` when they are UTF-8, else `{"base64": …}`; enums by value.

        In the names of `files` and `files_refused` a backslash is doubled and a byte that is not UTF-8 is `\\xff`, so that every
        encoder takes them and no two become one.
        """
        return {
            "version": _VERSION,
            "status": self.status.value,
            "ok": self.ok,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "stdout": _bytes(self.stdout),
            "stderr": _bytes(self.stderr),
            "stdout_total": self.stdout_total,
            "stderr_total": self.stderr_total,
            "stdout_truncated": self.stdout_truncated,
            "stderr_truncated": self.stderr_truncated,
            "files": {as_text(name): _bytes(data) for name, data in self.files.items()},
            "files_refused": {as_text(name): reason for name, reason in self.files_refused.items()},
            "usage": _fields(self.usage),
            "killed_processes": self.killed_processes,
            "enforcement": {
                "rung": self.enforcement.rung.value,
                "layers": [_fields(layer) for layer in self.enforcement.layers],
            },
            "hint": self.hint,
            "denials": [denial.to_dict() for denial in self.denials],
            "changes": None if self.changes is None else self.changes.to_dict(),
        }


def _bytes(data: bytes) -> dict[str, str]:
    try:
        return {"text": data.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


def _fields(value: Usage | Layer) -> dict[str, Any]:
    return {name: getattr(value, name) for name in type(value).__dataclass_fields__}
