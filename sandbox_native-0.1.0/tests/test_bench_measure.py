"""The bench's arithmetic, and the order in which contenders take turns."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.bench.measure import Entry, quantile, row, rows, take_turns


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


def test_a_curve_has_a_point_for_each_percent() -> None:
    one = row("s", "c", [3.0, 1.0, 2.0])
    assert (len(one.curve), one.curve[0], one.curve[50], one.curve[100]) == (101, 1.0, 2.0, 3.0)
    assert row("s", "c", [1.0, 2.0]).curve == ()


def test_ratios_refer_to_bare() -> None:
    found = {one.contender: one.ratio for one in rows("s", {"bare": [2.0], "strict": [3.0]})}
    assert found == {"bare": 1.0, "strict": 1.5}
    assert rows("s", {"strict": [3.0]})[0].ratio is None


def test_a_contender_of_which_nothing_counted_has_no_row() -> None:
    assert [one.contender for one in rows("s", {"bare": [2.0], "strict parked": []})] == ["bare"]


def test_contenders_take_turns() -> None:
    seen: list[str] = []
    taken = take_turns({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, rounds=3, warm_up=1)
    assert seen == ["a", "b"] * 4
    assert {name: len(values) for name, values in taken.items()} == {"a": 3, "b": 3}


def test_the_first_of_a_burst_is_not_counted() -> None:
    seen: list[str] = []
    taken = take_turns({"a": lambda: seen.append("a"), "b": lambda: seen.append("b")}, rounds=5, burst=3, warm_up=0)
    assert "".join(seen) == "aaaabbbb" + "aaabbb"
    assert {name: len(values) for name, values in taken.items()} == {"a": 5, "b": 5}


def test_what_comes_before_a_run_is_not_timed_and_what_does_not_count_is_left_out() -> None:
    seen: list[str] = []
    verdicts = iter([True, False, True])
    entry = Entry(run=lambda: seen.append("run"), before=lambda: seen.append("before"), counts=lambda: next(verdicts))
    taken = take_turns({"a": entry}, rounds=3, warm_up=0)
    assert seen == ["before", "run"] * 3 and len(taken["a"]) == 2
