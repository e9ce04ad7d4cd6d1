"""What a warm start of Python costs next to a cold one: a program that does nothing, and one that needs numpy."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from functools import partial
from typing import Final

from sandbox_native import Limits, Policy, Sandbox
from sandbox_native.bench.boxes import Tally, boxed
from sandbox_native.bench.contenders import bare
from sandbox_native.bench.measure import BARE, Action, Entry, Row, rows, take_turns
from sandbox_native.warm.python import WarmPython

BACK_TO_BACK: Final = "warm, back to back"
COLD: Final = "strict, cold"
WAITING: Final = "warm parked"
_APART_SECONDS: Final = 0.03
_LIMITS: Final = Limits(wall_seconds=60)
_PROGRAMS: Final = {"pass": ("", "pass"), "numpy": ("numpy", "import numpy; print(numpy.arange(10).sum())")}
_PYTHON: Final = "/usr/bin/python3"


def scenario(name: str) -> str:
    return f"warm Python, {name}"


def measure_warm(*, rounds: int) -> tuple[list[Row], list[str]]:
    """Turns 30 ms apart, and of ten runs back to back for the contender of that name."""
    found: list[Row] = []
    notes: list[str] = []
    for name, (module, code) in _PROGRAMS.items():
        if subprocess.run([_PYTHON, "-I", "-c", f"import {module or 'sys'}"], capture_output=True, check=False).returncode:
            notes.append(f"{_PYTHON} has no {module}: {scenario(name)} was left out")
            continue
        with ExitStack() as stack:
            imports, command = [module] if module else [], [_PYTHON, "-I", "-c", code]
            cold = stack.enter_context(Sandbox(Policy.strict(), _LIMITS, prepared=4))
            warm = stack.enter_context(WarmPython(imports, limits=_LIMITS, python=_PYTHON, prepared=4))
            busy = stack.enter_context(WarmPython(imports, limits=_LIMITS, python=_PYTHON))
            apart: dict[str, Action | Entry] = {
                BARE: partial(bare, command),
                COLD: partial(boxed, cold, command),
                WAITING: _parked(warm, code),
            }
            taken = take_turns(apart, rounds=rounds, pause=_APART_SECONDS)
            taken |= take_turns({BACK_TO_BACK: partial(_run, busy, code)}, rounds=rounds, burst=10)
            found += rows(scenario(name), taken)
    return found, notes


def _run(python: WarmPython, code: str) -> None:
    result = python.run(code)
    if not result.ok:
        raise RuntimeError(f"a warm run ended as {result.status}: {result.stderr[-500:]!r}")


def _parked(python: WarmPython, code: str) -> Entry:
    tally = Tally(python)
    return Entry(run=lambda: _run(python, code), before=tally.begin, counts=tally.hit)
