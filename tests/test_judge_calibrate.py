"""How fast a machine is, by a reference program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox_native import PolicyError, SandboxError
from sandbox_native.cli import main
from sandbox_native.judge import calibrate as module
from sandbox_native.judge.calibrate import REFERENCE_SECONDS, calibrate
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "gcc")]


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(store=Store(tmp_path / "store"))


def test_the_factor_is_that_of_the_least_run(options: Options) -> None:
    found = calibrate(3, options)
    assert len(found.runs) == 3 and min(found.runs) == found.cpu_seconds > 0
    assert found.factor == found.cpu_seconds / REFERENCE_SECONDS and found.reference_seconds == REFERENCE_SECONDS
    assert found.spread == sorted(found.runs)[1] / found.cpu_seconds - 1


def test_a_program_that_computes_something_else_measures_nothing(options: Options, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OUTPUT", b"1 2 3\n")
    with pytest.raises(SandboxError, match="does not work here: WA"):
        calibrate(1, options)


@pytest.mark.parametrize("runs", [0, True, 1001, 1.5])
def test_a_number_of_runs_that_makes_no_sense_is_refused(runs: int) -> None:
    with pytest.raises(PolicyError, match="runs"):
        calibrate(runs)


def test_the_command_tells_the_factor(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(calibrate, "__defaults__", (1, None))  # runs
    assert main(["judge", "calibrate"]) == 0
    assert capsys.readouterr().out.startswith("factor ")
    assert main(["judge", "calibrate", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["factor"] > 0
