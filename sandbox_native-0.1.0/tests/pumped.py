"""What the tests of the pump share: guests of tests/probes/verbs.c, told apart bytes, and what the host spends."""

from __future__ import annotations

import resource
from array import array
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sandbox_native import Policy, Result, run

MIB = 1 << 20
PIPE = 65536  # what a pipe holds
Guests = Mapping[str, Path]
Runner = Callable[..., Result]


def policy_for(guest: Guests) -> Policy:
    return Policy.strict(readable=[(str(guest["verbs"]), "/verbs")])


def runner(guest: Guests) -> Runner:
    """`do("write", 1, 100, limits=…)` runs those verbs."""
    policy = policy_for(guest)

    def do(*words: object, **options: Any) -> Result:
        return run(["/verbs", *map(str, words)], policy=policy, **options)

    return do


def pattern(size: int) -> bytes:
    """Bytes that show where one is lost or doubled."""
    return array("Q", range(size // 8)).tobytes()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
