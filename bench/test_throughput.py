"""Runs a second of many threads, bytes a second past the bound, and deadlines."""

from __future__ import annotations

import asyncio

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sandbox_native.bench.contenders import Contenders
from sandbox_native.bench.crowds import load_of, start_bare
from sandbox_native.bench.measure import quantile
from sandbox_native.bench.streams import drain_bare, drain_boxed
from sandbox_native.bench.threads import COUNTS, rate
from sandbox_native.bench.trees import TREE, overshoot

DRAINED = 256 << 20


@pytest.mark.parametrize("contender", ["bare", "strict", "light"])
@pytest.mark.parametrize("threads", COUNTS)
def test_threads(benchmark: BenchmarkFixture, boxes: Contenders, contender: str, threads: int) -> None:
    """A slice of time each; its runs a second are in extra_info."""
    action = boxes.plain(["/bin/true"])[contender]
    benchmark.group = f"{threads} threads"
    rates: list[float] = []
    benchmark.pedantic(lambda: rates.append(rate(action, threads, 0.5)), rounds=3, warmup_rounds=1)
    benchmark.extra_info["runs_per_second"] = max(rates)


@pytest.mark.parametrize("contender", ["bare", "strict"])
def test_drain(benchmark: BenchmarkFixture, boxes: Contenders, contender: str) -> None:
    benchmark.group = f"{DRAINED >> 20} MiB of output"
    if contender == "bare":
        benchmark.pedantic(drain_bare, args=(DRAINED,), rounds=5, warmup_rounds=1)
    else:
        benchmark.pedantic(drain_boxed, args=(boxes.strict, DRAINED), rounds=5, warmup_rounds=1)


@pytest.mark.parametrize("processes", [1, TREE])
def test_deadline(benchmark: BenchmarkFixture, boxes: Contenders, processes: int) -> None:
    """A run takes its wall limit and what is in extra_info."""
    benchmark.group = "deadline to an empty tree"
    late: list[float] = []
    benchmark.pedantic(lambda: late.append(overshoot(boxes.strict, processes)), rounds=3)
    benchmark.extra_info["late_seconds"] = sorted(late)[len(late) // 2]


@pytest.mark.parametrize("places", [2, 8])
def test_batch(benchmark: BenchmarkFixture, boxes: Contenders, places: int) -> None:
    """500 jobs through Sandbox.map."""
    benchmark.group = f"a batch, {places} at once"
    jobs = [["/bin/true"]] * 500
    benchmark.pedantic(lambda: boxes.strict.run_many(jobs, concurrency=places), rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("contender", ["bare", "strict"])
def test_event_loop(benchmark: BenchmarkFixture, boxes: Contenders, contender: str) -> None:
    """200 starts at once; how late a task ticks meanwhile is in extra_info."""
    benchmark.group = "200 concurrent starts in an event loop"
    late: list[float] = []

    def load() -> None:
        start = start_bare if contender == "bare" else lambda: boxes.strict.run_async(["/bin/true"])
        late.extend(asyncio.run(load_of(start, 200))[0])

    benchmark.pedantic(load, rounds=3, warmup_rounds=1)
    benchmark.extra_info["late_seconds_p99"] = quantile(late, 0.99)
