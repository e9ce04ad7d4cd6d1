"""The bench as a command: its options, what it writes, and one quick pass over every scenario."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_native.bench import __main__ as bench
from sandbox_native.bench.contenders import FRESH, PARKED
from sandbox_native.bench.crowds import BATCH, STARTS, TICKS
from sandbox_native.bench.hosts import BIG, SCENARIO
from sandbox_native.bench.judging import CPP, HUMANEVAL
from sandbox_native.bench.launch import BURST
from sandbox_native.bench.measure import row
from sandbox_native.bench.report import document
from sandbox_native.bench.scenarios import Effort
from sandbox_native.bench.threads import COUNTS, scenario
from sandbox_native.bench.warming import scenario as warm

WHERE = {"kernel": "6", "machine": "x86_64", "cpus": 2, "python": "3", "root": True, "load": 0.5}
LEAST = Effort(
    rounds=8,
    docker_rounds=1,
    ballast_bytes=64 << 20,
    thread_seconds=0.15,
    thread_repeats=1,
    batch_runs=16,
    starts=8,
    crowd_repeats=1,
    drain_bytes=32 << 20,
    drain_repeats=1,
    trees=1,
    judge_rounds=1,
)


@pytest.fixture
def told(tmp_path: Path) -> str:
    """The --json of a run that measured two rows."""
    rows = [row("launch static, back to back", name, [value, value * 2]) for name, value in (("bare", 0.001), (PARKED, 0.002))]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document(rows, ["a note"], WHERE)))
    return str(path)


@pytest.mark.slow
@pytest.mark.needs("userns")
def test_a_tiny_pass_measures_every_scenario(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bench, "QUICK", LEAST)
    target, page = tmp_path / "figures.json", tmp_path / "page.html"
    assert bench.main(["--quick", "--json", str(target)]) == 0
    told = json.loads(target.read_text())
    scenarios = {one["scenario"] for one in told["rows"]}
    for name in ("static", "/bin/true", "python"):
        assert {f"launch {name}, back to back", f"launch {name}, 30 ms apart"} <= scenarios
    assert {scenario(count) for count in COUNTS} <= scenarios
    assert {SCENARIO, "drain past the bound", "deadline to an empty tree", TICKS, STARTS} <= scenarios
    assert {"what options cost, /bin/true", "what a commit costs, 1 file", "what a commit costs, 100 files"} <= scenarios
    assert any(one.startswith(BATCH) for one in scenarios)
    assert {CPP, HUMANEVAL, warm("pass"), warm("numpy")} <= scenarios
    assert [one for one in told["rows"] if one["median"] <= 0 and one["scenario"] != TICKS] == []
    contenders = {one["contender"] for one in told["rows"]}
    assert {PARKED, FRESH, f"{PARKED}, {BIG}", "with explain", "minimal_for(/bin/true)", "commit"} <= contenders
    # In a process of its own: matplotlib keeps its fonts open.
    command = [sys.executable, "-m", "sandbox_native.bench", "--from", str(target), "--html", str(page)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert page.read_text().count("<svg") > 8
    assert LEAST.rounds < BURST  # a burst that is longer than the rounds measures no more than those
    assert max(one["count"] for one in told["rows"] if one["scenario"] == "launch static, back to back") == LEAST.rounds


def test_an_earlier_run_is_shown_again_and_compared(told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again.json"
    assert bench.main(["--from", told, "--compare", told, "--json", str(again)]) == 0
    assert json.loads(again.read_text()) == json.loads(Path(told).read_text())
    out = capsys.readouterr().out
    assert "load 0.50 before" in out and "note: a note" in out and "now to then" in out and "same" in out


@pytest.mark.parametrize("text", ["", "[]", '{"version": 3, "rows": []}', '{"rows": 1}'])
@pytest.mark.parametrize("option", ["--compare", "--from"])
def test_what_is_no_earlier_run_is_refused_at_once(option: str, text: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(SystemExit) as error:
        bench.main([option, str(path)])
    assert error.value.code == 2


def test_a_page_without_matplotlib_is_refused_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as error:
        bench.main(["--html", "page.html"])
    assert error.value.code == 2 and not os.path.exists("page.html")


def test_the_command_prints_its_options() -> None:
    done = subprocess.run([sys.executable, "-m", "sandbox_native.bench", "--help"], capture_output=True, text=True, check=True)
    assert all(option in done.stdout for option in ("--quick", "--json", "--html", "--compare", "--from"))
