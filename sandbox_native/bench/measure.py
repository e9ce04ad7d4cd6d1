"""Taking turns, and what is told of the figures: median, p90 and p99, the ratio to bare."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Action = Callable[[], object]

BARE: Final = "bare"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One contender in one scenario. The figures are in ``unit``; p90 and p99 are always the bad end."""

    scenario: str
    contender: str
    unit: str  # "s", or a rate: "runs/s", "B/s"
    count: int
    median: float
    p90: float
    p99: float
    ratio: float | None  # median to the median of bare (or of what the scenario compares with)


def quantile(values: Sequence[float], share: float) -> float:
    """Between the two nearest of the sorted values, as statistics.quantiles(method="inclusive") has it."""
    ordered = sorted(values)
    at = (len(ordered) - 1) * share
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def row(scenario: str, contender: str, values: Sequence[float], *, unit: str = "s", base: float | None = None) -> Row:
    """The figures of one contender; ``base`` is the median that the ratio refers to."""
    bad = [-value for value in values] if unit.endswith("/s") else list(values)
    sign = -1 if unit.endswith("/s") else 1
    median = quantile(values, 0.5)
    return Row(
        scenario=scenario,
        contender=contender,
        unit=unit,
        count=len(values),
        median=median,
        p90=sign * quantile(bad, 0.9),
        p99=sign * quantile(bad, 0.99),
        ratio=None if not base else median / base,
    )


def rows(scenario: str, values: Mapping[str, Sequence[float]], *, unit: str = "s", base: str = BARE) -> list[Row]:
    """A row for each contender, with the ratio to ``base``."""
    reference = quantile(values[base], 0.5) if base in values else None
    return [row(scenario, name, taken, unit=unit, base=reference) for name, taken in values.items()]


def take_turns(actions: Mapping[str, Action], *, rounds: int, pause: float = 0.0, warm_up: int = 3) -> dict[str, list[float]]:
    """Seconds that each action took: ``rounds`` times all of them in turn, ``pause`` seconds before each."""
    for _ in range(warm_up):
        for action in actions.values():
            action()
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            if pause:
                time.sleep(pause)
            start = time.perf_counter()
            action()
            taken[name].append(time.perf_counter() - start)
    return taken
