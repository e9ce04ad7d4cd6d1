"""What the bench says of a change against an earlier run."""

from __future__ import annotations

import pytest

from sandbox_native.bench.compare import changes, comparison
from sandbox_native.bench.measure import Row, rows


def of(bare: float, strict: float, unit: str = "s") -> list[Row]:
    return rows("s", {"bare": [bare] * 3, "strict": [strict] * 3}, unit=unit)


@pytest.mark.parametrize(
    ("then", "now", "unit", "word"),
    [
        (of(1, 2), of(1, 2.02), "s", "same"),
        (of(1, 2), of(1, 3), "s", "slower"),
        (of(1, 2), of(2, 3), "s", "faster"),  # the machine was twice as slow
        (of(100, 50, "runs/s"), of(100, 60, "runs/s"), "runs/s", "faster"),
        (of(100, 50, "runs/s"), of(100, 40, "runs/s"), "runs/s", "slower"),
    ],
)
def test_the_word_follows_the_ratio_to_bare(then: list[Row], now: list[Row], unit: str, word: str) -> None:
    (change,) = [one for one in changes(now, then) if one.row.contender == "strict"]
    assert change.word == word and change.row.unit == unit


def test_ratios_are_now_to_then() -> None:
    (_, strict) = changes(of(1, 3), of(1, 2))
    assert (strict.median, strict.p99, strict.to_bare) == (1.5, 1.5, 1.5)


def test_what_only_one_run_measured_is_not_compared_and_named_where_it_is_lost() -> None:
    then = [*of(1, 2), *rows("gone", {"bare": [1.0]})]
    now = [*of(1, 2), *rows("new", {"bare": [1.0]})]
    assert {one.row.scenario for one in changes(now, then)} == {"s"}
    text = comparison(now, then)
    assert "measured then only: gone, bare" in text and "new" not in text
