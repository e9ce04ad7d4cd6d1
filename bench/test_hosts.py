"""From a host that holds 1 GiB, and from one with 300 more mounts."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sandbox_native.bench.contenders import Contenders
from sandbox_native.bench.hosts import ballast, measure_mounts


@pytest.fixture(params=[0, 1 << 30], ids=["small", "1GiB"], scope="module")
def held(request: pytest.FixtureRequest) -> Iterator[int]:
    if not request.param:
        yield 0
        return
    with ballast(request.param):
        yield request.param


@pytest.mark.parametrize("contender", ["bare", "strict", "light"])
def test_host_with_ballast(benchmark: BenchmarkFixture, boxes: Contenders, held: int, contender: str) -> None:
    benchmark.group = f"/bin/true, {contender}"
    benchmark.pedantic(boxes.actions(["/bin/true"], others=False)[contender], rounds=60, warmup_rounds=3)


def test_host_with_mounts(benchmark: BenchmarkFixture) -> None:
    """The child host measures by itself; what is timed here is all of it, the figures are in extra_info."""
    if os.geteuid() != 0:
        pytest.skip("mounts need root")
    rows, notes = benchmark.pedantic(measure_mounts, kwargs={"rounds": 60}, rounds=1)
    assert not notes
    benchmark.extra_info["medians"] = {row.contender: row.median for row in rows}
