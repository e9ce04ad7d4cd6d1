"""What a guest may consume. Pure values, checked when they are made; used by the host's side only.

The fields are lowered to rlimits by request.py, to control group settings by cgroup/ and to init's own clocks by
backends/linux.py. The bounds below are those of the kernel's interfaces, so that a number which passes here can be
written there, and a limit that would round to nothing (and so to "no limit") is refused.
"""

from __future__ import annotations

import math
import numbers
import operator
import os
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from sandbox_native.errors import PolicyError
from sandbox_native.units import format_bytes

_Number = TypeVar("_Number", int, float)

_NOT_POSITIVE: Final = "must be positive"
_TOO_LARGE: Final = "too large"
_KIB: Final = 1 << 10
_MIB: Final = 1 << 20
_DAY_SECONDS: Final = 24 * 3600.0
_MICROSECOND: Final = 1e-6
_LARGEST_BYTES: Final = 1 << 60  # beyond it control group v1 means "unlimited"
UNLIMITED_STACK_BYTES: Final = _LARGEST_BYTES
_LARGEST_CAPTURE: Final = 64 * _MIB  # the host holds it in memory
_LARGEST_COLLECTION: Final = 1 << 30  # so does it with the files that come back

# 1 and not 0: where kernel.core_pattern is a pipe the kernel starts its helper, as root, for every crash whatever the limit
# is, but for this value (fs/coredump.c: "RLIMIT_CORE is set to 1, aborting core"). To a file it is as good as 0.
CORE_BYTES: Final = 1


class Overflow(Enum):
    """What happens when the guest writes more than `Limits.stdout_bytes` or `Limits.stderr_bytes`."""

    TRUNCATE = "truncate"
    """The head is kept, the rest is read and counted; the guest goes on."""
    KILL = "kill"
    """The guest is ended, with the status output_limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Limits of one run; they hold for the guest's whole tree unless said otherwise. None is no limit.

    A number that is zero, negative, not finite or out of bounds is a `PolicyError`; so is a bool or a string.

    - `wall_seconds`: from the guest's start; at most 24 hours.
    - `cpu_seconds`: user and system time of the tree.
    - `memory_bytes`: resident memory of the tree (not address space), at least 1 MiB.
    - `processes`: processes and threads at once.
    - `cpus`: share of cores, 1.5 is one and a half; at least 0.01. Needs a writable control group.
    - `open_files`: descriptors of each process, at least 3.
    - `file_bytes`: size of each file that the guest writes.
    - `tmp_bytes`: size of each private tmpfs (/tmp, /home, /workspace).
    - `stdout_bytes`, `stderr_bytes`: what is kept of each stream, at most 64 MiB; `on_overflow` says what happens then.
    - `address_space_bytes`: of each process. Run-times reserve far more than they use (node, Java, Go, numpy), so this
      is for those who know that they need it; at least 1 MiB.
    - `stack_bytes`: main thread's stack of each process, at least 64 KiB. `UNLIMITED_STACK_BYTES`, the largest number, is
      RLIM_INFINITY: the stack may take all of `memory_bytes`, and other threads get the size that their library gives
      them, which by any other number is that number.
    - `collect_bytes`, `collect_files`: size of all files that `collect` brings back together (at most 1 GiB), and
      their number.
    """

    wall_seconds: float = 10.0
    cpu_seconds: float | None = None
    memory_bytes: int = 512 * _MIB
    processes: int = 64
    cpus: float | None = None
    open_files: int = 256
    file_bytes: int = 64 * _MIB
    tmp_bytes: int = 64 * _MIB
    stdout_bytes: int = 4 * _MIB
    stderr_bytes: int = 4 * _MIB
    on_overflow: Overflow = Overflow.TRUNCATE
    address_space_bytes: int | None = None
    stack_bytes: int | None = None
    collect_bytes: int = 64 * _MIB
    collect_files: int = 256

    def __post_init__(self) -> None:
        for name, (least, most, unit) in _BOUNDS.items():
            value = getattr(self, name)
            if value is None and name in _OPTIONAL:
                continue
            check = _real if isinstance(least, float) else _whole
            object.__setattr__(self, name, check(f"Limits.{name}", value, least, most, unit))
        if not isinstance(self.on_overflow, Overflow):
            raise PolicyError(
                "not an Overflow",
                field="Limits.on_overflow",
                value=self.on_overflow,
                remedy="give Overflow.TRUNCATE or Overflow.KILL",
            )

    @classmethod
    def from_toml(cls, source: str | os.PathLike[str]) -> Limits:
        """The table `limits` of a policy's file, or of TOML as `Policy.from_toml` takes it; the defaults where there is none."""
        from sandbox_native.policy_toml import load

        return load(source).limits or cls()


_OPTIONAL: Final = frozenset({"cpu_seconds", "cpus", "address_space_bytes", "stack_bytes"})

# name -> least, most, unit; a float bound means that fractions are allowed
_BOUNDS: Final[dict[str, tuple[float, float, str]]] = {
    "wall_seconds": (_MICROSECOND, _DAY_SECONDS, "seconds"),
    "cpu_seconds": (_MICROSECOND, _DAY_SECONDS * 4096, "seconds"),
    "memory_bytes": (_MIB, _LARGEST_BYTES, "bytes"),
    "processes": (1, (1 << 22) - 2, "processes"),  # pids.max takes 2^22, and on v1 two processes of ours count
    "cpus": (0.01, 4096.0, "cores"),  # cpu.max: at least 1 ms of each 100 ms
    "open_files": (3, 1 << 20, "descriptors"),  # 0, 1, 2 are always open; the kernel's fs.nr_open
    "file_bytes": (1, _LARGEST_BYTES, "bytes"),
    "tmp_bytes": (1, _LARGEST_BYTES, "bytes"),
    "stdout_bytes": (1, _LARGEST_CAPTURE, "bytes"),
    "stderr_bytes": (1, _LARGEST_CAPTURE, "bytes"),
    "address_space_bytes": (_MIB, _LARGEST_BYTES, "bytes"),
    "stack_bytes": (64 * _KIB, _LARGEST_BYTES, "bytes"),
    "collect_bytes": (1, _LARGEST_COLLECTION, "bytes"),
    "collect_files": (1, 1 << 16, "files"),
}


def _real(field: str, value: object, least: float, most: float, unit: str) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise _refused(field, value, "not a number", least, most, unit)
    try:
        number = float(value)
    except OverflowError:  # an int or a fraction that no float can hold: finite, but out of bounds
        reason = _NOT_POSITIVE if value < 0 else _TOO_LARGE
        raise _refused(field, value, reason, least, most, unit) from None
    if not math.isfinite(number):
        raise _refused(field, value, "not finite", least, most, unit)
    return _bounded(field, number, least, most, unit)


def _whole(field: str, value: object, least: float, most: float, unit: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise _refused(field, value, "not a whole number", least, most, unit)
    return _bounded(field, operator.index(value), least, most, unit)


def _bounded(field: str, value: _Number, least: float, most: float, unit: str) -> _Number:
    if value <= 0:
        raise _refused(field, value, _NOT_POSITIVE, least, most, unit)
    if value < least:
        raise _refused(field, value, "too small to be kept", least, most, unit)
    if value > most:
        raise _refused(field, value, _TOO_LARGE, least, most, unit)
    return value


def _refused(field: str, value: object, reason: str, least: float, most: float, unit: str) -> PolicyError:
    show, of = (lambda size: format_bytes(int(size)), "") if unit == "bytes" else (_plain, f" {unit}")
    kind = "a number" if isinstance(least, float) else "a whole number of bytes" if unit == "bytes" else "a whole number"
    bounds = f"{show(least)} to {show(most)}{of}"
    none = ", or None for no limit" if field.removeprefix("Limits.") in _OPTIONAL else ""
    return PolicyError(reason, field=field, value=value, remedy=f"give {kind} from {bounds}{none}")


def _plain(number: float) -> str:
    """1, 0.000001, 86,400: no exponent, and no fraction that says nothing."""
    return f"{number:,.6f}".rstrip("0").rstrip(".")
