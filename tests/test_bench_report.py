"""The bench's table, its JSON and its goals."""

from __future__ import annotations

import json

import pytest

from sandbox_native.bench.contenders import FRESH, PARKED
from sandbox_native.bench.goals import goals, of_row
from sandbox_native.bench.measure import Row, row, rows
from sandbox_native.bench.report import document, rows_of, table


def launch(contender: str, *values: float) -> Row:
    return row("launch /bin/true, back to back", contender, values)


def test_a_goal_is_reached_missed_or_not_measured() -> None:
    found = {goal.text: goal.reached for goal in goals([launch("bare", 1.0), launch(FRESH, 2.0), launch("bwrap", 7.0)])}
    assert found[f"/bin/true, {FRESH} to bare, back to back"] is False
    assert found[f"bwrap to {FRESH}, /bin/true, back to back"] is True
    assert found["drain past the bound to a bare pipe"] is None


def test_the_goals_are_those_that_the_project_set_itself() -> None:
    bounds = sorted({goal.bound for goal in goals([])})
    assert bounds == [0.5, 0.65, 0.8, 1.05, 1.1, 1.25, 1.35, 1.5, 1.6, 2.2, 3.0, 4.0, 25]


def test_a_row_tells_its_goals() -> None:
    taken = [launch("bare", 1.0, 1.0), Row(**{**vars_of(launch(PARKED, 1.2, 1.2)), "ratio": 1.2, "p99": 9.0})]
    assert of_row(taken[1], goals(taken)) == "<= 1.25 reached, p99/median <= 4 MISSED (7.50)"
    assert of_row(taken[0], goals(taken)) == ""


def vars_of(one: Row) -> dict[str, object]:
    told = document([one], [], {})["rows"][0]
    assert isinstance(told, dict)
    return told


def test_the_table_and_the_document_tell_the_same() -> None:
    taken = rows("drain past the bound", {"bare": [2e9], "strict": [1.8e9]}, unit="B/s")
    told = document(taken, ["bwrap left out"], {"kernel": "6"})
    text = table(taken, ["bwrap left out"])
    assert json.loads(json.dumps(told))["rows"][1]["ratio"] == pytest.approx(0.9)
    assert "1.7 GiB/s" in text and "0.90" in text and ">= 0.8 reached" in text and "note: bwrap left out" in text


def test_one_figure_has_no_quantiles_and_bare_is_explained() -> None:
    one, many = (table(rows("s", {"bare": [0.5] * count}), []) for count in (1, 2))
    assert (one.count("500 ms"), many.count("500 ms")) == (1, 3)
    assert one.splitlines()[0].startswith("bare: ") and "subprocess.run" in one.splitlines()[0]
    assert [line.index("1.00") for line in one.splitlines() if "500 ms" in line] == [
        line.index("1.00") for line in many.splitlines() if "500 ms" in line
    ]


def test_rows_come_back_from_json_and_from_that_of_an_earlier_version() -> None:
    taken = rows("s", {"bare": [1.0, 2.0, 3.0]})
    told = json.loads(json.dumps(document(taken, [], {})))
    assert [row.median for row in rows_of(told)] == [2.0] and len(rows_of(told)[0].curve) == 101
    del told["rows"][0]["curve"]
    assert rows_of({**told, "version": 1})[0].curve == ()
