"""From a big host: 2 GiB resident, 64 threads, 300 more mounts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sandbox_native.bench.contenders import FRESH, PARKED, Contenders
from sandbox_native.bench.hosts import ballast, measure_big_host, threads
from sandbox_native.bench.measure import BARE, Entry


@pytest.fixture(params=[False, True], ids=["small", "big"], scope="module")
def is_big(request: pytest.FixtureRequest) -> Iterator[bool]:
    with ExitStack() as stack:
        if request.param:
            stack.enter_context(ballast())
            stack.enter_context(threads())
        yield bool(request.param)


@pytest.mark.parametrize("contender", [BARE, PARKED, FRESH])
def test_host_with_ballast_and_threads(benchmark: BenchmarkFixture, boxes: Contenders, is_big: bool, contender: str) -> None:
    benchmark.group = f"/bin/true, {contender}"
    entry = Entry.of(boxes.entries(["/bin/true"])[contender])
    benchmark.pedantic(entry.run, setup=entry.before or (lambda: None), rounds=60, warmup_rounds=3 if entry.before is None else 0)


def test_host_with_mounts_too(benchmark: BenchmarkFixture) -> None:
    """The child host measures by itself; what is timed here is all of it, the figures are in extra_info."""
    rows, notes = benchmark.pedantic(measure_big_host, kwargs={"rounds": 60}, rounds=1)
    assert rows, notes
    benchmark.extra_info["medians"] = {row.contender: row.median for row in rows}
