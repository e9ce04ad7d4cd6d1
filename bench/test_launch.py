"""One run: three programs, each contender, back to back and 30 ms apart."""

from __future__ import annotations

import time

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from sandbox_native.bench.contenders import Contenders, bare, docker
from sandbox_native.bench.launch import PAUSE_SECONDS, programs

CONTENDERS = ("bare", "strict", "light", "bwrap")


@pytest.mark.parametrize("contender", CONTENDERS)
@pytest.mark.parametrize("program", ["static", "/bin/true", "python"])
@pytest.mark.parametrize("pause", [0.0, PAUSE_SECONDS], ids=["back-to-back", "spaced"])
def test_launch(benchmark: BenchmarkFixture, boxes: Contenders, tiny: str, contender: str, program: str, pause: float) -> None:
    actions = boxes.actions(programs(tiny)[program])
    if contender not in actions:
        pytest.skip(f"no {contender} here")
    benchmark.group = f"{program}, {'30 ms apart' if pause else 'back to back'}"
    benchmark.pedantic(
        actions[contender],
        setup=lambda: time.sleep(pause),
        rounds=40 if program == "python" else 100,
        warmup_rounds=3,
    )


def test_docker(benchmark: BenchmarkFixture) -> None:
    prefix, why = docker()
    if prefix is None:
        pytest.skip(why)
    benchmark.group = "/bin/true, back to back"
    benchmark.pedantic(bare, args=([*prefix, "/bin/true"],), rounds=5, warmup_rounds=1)
