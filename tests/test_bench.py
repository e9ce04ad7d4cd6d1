"""The bench: its arithmetic, its smallest program, and one quick pass over every scenario."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.bench import __main__ as bench
from sandbox_native.bench.measure import Row, quantile, row, rows, take_turns
from sandbox_native.bench.report import document, goals, table
from sandbox_native.bench.threads import COUNTS, scenario
from sandbox_native.bench.tiny import tiny_elf, write_tiny


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.floats(0, 1))
def test_a_quantile_lies_between_the_extremes(values: list[float], share: float) -> None:
    assert min(values) <= quantile(values, share) <= max(values)


@pytest.mark.parametrize(("share", "wanted"), [(0.0, 1), (0.5, 3), (0.9, 4.6), (1.0, 5)])
def test_quantiles_are_those_of_the_inclusive_method(share: float, wanted: float) -> None:
    assert quantile([5, 1, 4, 2, 3], share) == pytest.approx(wanted)


def test_the_bad_end_of_a_rate_is_the_low_one() -> None:
    times = row("s", "c", [1.0, 2.0, 3.0])
    rates = row("s", "c", [1.0, 2.0, 3.0], unit="runs/s")
    assert times.p99 > times.p90 > times.median == 2.0 == rates.median > rates.p90 > rates.p99 >= 1.0


def test_ratios_refer_to_bare() -> None:
    found = {one.contender: one.ratio for one in rows("s", {"bare": [2.0], "strict": [3.0]})}
    assert found == {"bare": 1.0, "strict": 1.5}
    assert rows("s", {"strict": [3.0]})[0].ratio is None


def test_contenders_take_turns() -> None:
    seen: list[str] = []
    taken = take_turns({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, rounds=3, warm_up=1)
    assert seen == ["a", "b"] * 4
    assert {name: len(values) for name, values in taken.items()} == {"a": 3, "b": 3}


def test_a_goal_is_reached_missed_or_not_measured() -> None:
    def launch(contender: str, median: float) -> Row:
        return row("launch /bin/true, back to back", contender, [median])

    found = {goal.text: goal.reached for goal in goals([launch("bare", 1.0), launch("strict", 2.0), launch("bwrap", 7.0)])}
    assert found["strict /bin/true to bare, back to back"] is False
    assert found["bwrap to strict, /bin/true"] is True
    assert found["drain past the bound to a bare pipe"] is None


def test_the_table_and_the_document_tell_the_same() -> None:
    taken = rows("drain past the bound", {"bare": [2e9], "strict": [1.8e9]}, unit="B/s")
    told = document(taken, ["bwrap left out"], {"kernel": "6"})
    text = table(taken, ["bwrap left out"])
    assert json.loads(json.dumps(told))["rows"][1]["ratio"] == pytest.approx(0.9)
    assert "1.7 GiB/s" in text and "0.90" in text and "reached" in text and "note: bwrap left out" in text


def test_one_figure_has_no_quantiles_and_bare_is_explained() -> None:
    one, many = (table(rows("s", {"bare": [0.5] * count}), []) for count in (1, 2))
    assert (one.count("500 ms"), many.count("500 ms")) == (1, 3)
    assert one.splitlines()[0].startswith("bare: ") and "subprocess.run" in one.splitlines()[0]
    assert [line.index("1.00") for line in one.splitlines() if "500 ms" in line] == [
        line.index("1.00") for line in many.splitlines() if "500 ms" in line
    ]


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_static_program_is_an_elf_of_its_machine(machine: str) -> None:
    program = tiny_elf(machine)
    assert program[:4] == b"\x7fELF" and len(program) < 256
    assert int.from_bytes(program[18:20], "little") == {"x86_64": 62, "aarch64": 183}[machine]


def test_the_static_program_ends_with_zero(tmp_path: Path) -> None:
    program = write_tiny(str(tmp_path))
    assert subprocess.run([program], check=False).returncode == 0
    assert os.stat(program).st_mode & 0o777 == 0o755


@pytest.mark.slow
def test_a_tiny_pass_measures_every_scenario(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    least = bench.Effort(
        rounds=8,
        docker_rounds=1,
        thread_seconds=0.05,
        thread_repeats=1,
        drain_bytes=32 << 20,
        drain_repeats=1,
        trees=1,
    )
    monkeypatch.setattr(bench, "QUICK", least)
    target = tmp_path / "figures.json"
    assert bench.main(["--quick", "--json", str(target)]) == 0
    told = json.loads(target.read_text())
    scenarios = {one["scenario"] for one in told["rows"]}
    for name in ("static", "/bin/true", "python"):
        assert {f"launch {name}, back to back", f"launch {name}, 30 ms apart"} <= scenarios
    assert {scenario(count) for count in COUNTS} <= scenarios
    assert {"/bin/true from a host of 1 GiB", "drain past the bound", "deadline to an empty tree"} <= scenarios
    assert "/bin/true with 300 more mounts" in scenarios or os.geteuid() != 0
    assert all(one["median"] > 0 for one in told["rows"])


def test_the_command_prints_its_options() -> None:
    done = subprocess.run([sys.executable, "-m", "sandbox_native.bench", "--help"], capture_output=True, text=True, check=True)
    assert "--quick" in done.stdout and "--json" in done.stdout
