"""How fast output is drained past the bound, next to a bare pipe that is read into one buffer again and again."""

from __future__ import annotations

import os
import subprocess
import time

from sandbox_native import Sandbox
from sandbox_native.bench.contenders import Contenders
from sandbox_native.bench.measure import Row, rows

_BUFFER = 1 << 20


def _command(size: int) -> list[str]:
    """A writer of large blocks: with small ones it is the cost of the guest's own filtered calls that is measured."""
    return ["/usr/bin/dd", "if=/dev/zero", "bs=64k", f"count={size}", "iflag=count_bytes", "status=none"]


def drain_bare(size: int) -> float:
    """Bytes a second of a pipe read into a reused buffer."""
    buffer = bytearray(_BUFFER)
    total = 0
    start = time.perf_counter()
    with subprocess.Popen(_command(size), stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0) as process:
        assert process.stdout is not None
        pipe = process.stdout.fileno()
        while got := os.readv(pipe, [buffer]):
            total += got
    if total != size:
        raise RuntimeError(f"{total} of {size} bytes came")
    return total / (time.perf_counter() - start)


def drain_boxed(sandbox: Sandbox, size: int) -> float:
    """Bytes a second that a run writes, nearly all of them past its bound."""
    start = time.perf_counter()
    result = sandbox.run(_command(size))
    if not result.ok or result.stdout_total != size:
        raise RuntimeError(f"{result.stdout_total} of {size} bytes came, {result.status}")
    return result.stdout_total / (time.perf_counter() - start)


def measure_drain(boxes: Contenders, *, size: int, repeats: int) -> list[Row]:
    """Bare and strict in turn, ``size`` bytes each time."""
    rates: dict[str, list[float]] = {"bare": [], "strict": []}
    drain_bare(size // 8)
    drain_boxed(boxes.strict, size // 8)
    for _ in range(repeats):
        rates["bare"].append(drain_bare(size))
        rates["strict"].append(drain_boxed(boxes.strict, size))
    return rows("drain past the bound", rates, unit="B/s")
