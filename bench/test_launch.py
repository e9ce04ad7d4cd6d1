"""One run: three programs, each contender, back to back and 30 ms apart."""

from __future__ import annotations

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sandbox_native.bench.contenders import FRESH, LIGHT, PARKED, Contenders, bare
from sandbox_native.bench.launch import PAUSE_SECONDS, programs
from sandbox_native.bench.measure import BARE, Entry
from sandbox_native.bench.others import docker

CONTENDERS = (BARE, PARKED, FRESH, LIGHT, "bwrap", "nsjail", "isolate")


@pytest.mark.parametrize("contender", CONTENDERS)
@pytest.mark.parametrize("program", ["static", "/bin/true", "python"])
@pytest.mark.parametrize("pause", [0.0, PAUSE_SECONDS], ids=["back-to-back", "spaced"])
def test_launch(benchmark: BenchmarkFixture, boxes: Contenders, tiny: str, contender: str, program: str, pause: float) -> None:
    entries = boxes.entries(programs(tiny)[program], others=True)
    if contender not in entries:
        pytest.skip(f"no {contender} here")
    entry = Entry.of(entries[contender])

    def before() -> None:
        if entry.before is not None:
            entry.before()
        time.sleep(pause)

    benchmark.group = f"{program}, {'30 ms apart' if pause else 'back to back'}"
    benchmark.pedantic(entry.run, setup=before, rounds=40 if program == "python" else 100)


def test_docker(benchmark: BenchmarkFixture) -> None:
    tool, why = docker()
    if tool is None:
        pytest.skip(f"docker: {why}")
    benchmark.group = "/bin/true, back to back"
    benchmark.pedantic(bare, args=([*tool.prefix, "/bin/true"],), rounds=5, warmup_rounds=1)
