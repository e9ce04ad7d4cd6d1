"""All scenarios in the order of the table, and how often each is repeated. Used by the command and by its test."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from sandbox_native.bench.contenders import Contenders, contenders
from sandbox_native.bench.costs import measure_commits, measure_options
from sandbox_native.bench.crowds import measure_batch, measure_loop
from sandbox_native.bench.hosts import BALLAST_BYTES, measure_big_host
from sandbox_native.bench.judging import measure_cpp, measure_humaneval
from sandbox_native.bench.launch import left_out, measure_docker, measure_launches
from sandbox_native.bench.measure import Row
from sandbox_native.bench.others import installed
from sandbox_native.bench.streams import measure_drain
from sandbox_native.bench.threads import measure_threads
from sandbox_native.bench.tiny import write_tiny
from sandbox_native.bench.trees import measure_trees
from sandbox_native.bench.warming import measure_warm


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often everything is repeated."""

    rounds: int
    docker_rounds: int
    ballast_bytes: int
    thread_seconds: float
    thread_repeats: int
    batch_runs: int
    starts: int
    crowd_repeats: int
    drain_bytes: int
    drain_repeats: int
    trees: int
    judge_rounds: int


FULL = Effort(
    rounds=600,
    docker_rounds=10,
    ballast_bytes=BALLAST_BYTES,
    thread_seconds=1.0,
    thread_repeats=5,
    batch_runs=2000,
    starts=500,
    crowd_repeats=5,
    drain_bytes=1 << 30,
    drain_repeats=9,
    trees=10,
    judge_rounds=15,
)
QUICK = Effort(
    rounds=60,
    docker_rounds=3,
    ballast_bytes=BALLAST_BYTES,
    thread_seconds=0.2,
    thread_repeats=1,
    batch_runs=200,
    starts=100,
    crowd_repeats=1,
    drain_bytes=256 << 20,
    drain_repeats=3,
    trees=1,
    judge_rounds=2,
)

Found = tuple[list[Row], list[str]]
Step = tuple[str, Callable[[], Found]]


def measure(effort: Effort, tell: bool) -> Found:
    """Everything that this machine can do, and notes on what was left out and on what the other tools do not do."""
    rows: list[Row] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        tiny = write_tiny(folder)
        with installed(folder) as (tools, missing), contenders(folder, tools) as boxes:
            notes += [*missing, *(f"{tool.name} does not give: {tool.lacks}" for tool in tools)]
            for what, step in (*_with_boxes(effort, boxes, tiny), *_by_themselves(effort)):
                if tell:
                    print(f"measuring {what} …", file=sys.stderr, flush=True)
                more, why = step()
                rows, notes = rows + more, notes + why
    return rows, notes + left_out(rows)


def _with_boxes(effort: Effort, boxes: Contenders, tiny: str) -> list[Step]:
    return [
        ("launches", lambda: (measure_launches(boxes, tiny, rounds=effort.rounds), [])),
        ("docker", lambda: measure_docker(boxes, rounds=effort.docker_rounds)),
        ("drain", lambda: (measure_drain(boxes, size=effort.drain_bytes, repeats=effort.drain_repeats), [])),
        ("deadlines", lambda: (measure_trees(boxes, repeats=effort.trees), [])),
    ]


def _by_themselves(effort: Effort) -> list[Step]:
    return [
        ("a big host", lambda: measure_big_host(rounds=effort.rounds // 2, size=effort.ballast_bytes)),
        ("threads", lambda: (measure_threads(seconds=effort.thread_seconds, repeats=effort.thread_repeats), [])),
        ("a batch", lambda: (measure_batch(count=effort.batch_runs, repeats=effort.crowd_repeats), [])),
        ("an event loop", lambda: measure_loop(count=effort.starts, repeats=effort.crowd_repeats)),
        ("options", lambda: (measure_options(rounds=effort.rounds // 3), [])),
        ("warm Python", lambda: measure_warm(rounds=max(effort.rounds // 6, 3))),
        ("judging", lambda: measure_cpp(rounds=effort.judge_rounds)),
        ("HumanEval", lambda: measure_humaneval(rounds=max(effort.judge_rounds // 3, 1))),
        ("commits", lambda: (measure_commits(rounds=max(effort.rounds // 12, 3)), [])),
    ]
