"""Taking turns, and what is told of the figures: median, p90 and p99, the ratio to bare, the whole distribution."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

Action = Callable[[], object]

BARE: Final = "bare"
_POINTS: Final = 101  # of a curve: one for each percent


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A contender that needs more than its action: neither of the others is timed."""

    run: Action
    before: Action | None = None
    counts: Callable[[], bool] | None = None  # after the run: whether it was what the contender stands for

    @classmethod
    def of(cls, given: Action | Entry) -> Entry:
        return given if isinstance(given, Entry) else cls(run=given)


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
    curve: Sequence[float] = ()  # the quantiles of 0, 1 … 100 percent; empty for few values


def quantile(values: Sequence[float], share: float) -> float:
    """Between the two nearest of the sorted values, as statistics.quantiles(method="inclusive") has it."""
    return _between(sorted(values), share)


def _between(ordered: Sequence[float], share: float) -> float:
    at = (len(ordered) - 1) * share
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def row(scenario: str, contender: str, values: Sequence[float], *, unit: str = "s", base: float | None = None) -> Row:
    """The figures of one contender; ``base`` is the median that the ratio refers to."""
    is_rate = unit.endswith("/s")
    ordered = sorted(values)
    median = _between(ordered, 0.5)
    return Row(
        scenario=scenario,
        contender=contender,
        unit=unit,
        count=len(values),
        median=median,
        p90=_between(ordered, 0.1 if is_rate else 0.9),
        p99=_between(ordered, 0.01 if is_rate else 0.99),
        ratio=None if not base else median / base,
        curve=tuple(_between(ordered, point / (_POINTS - 1)) for point in range(_POINTS)) if len(values) > 2 else (),
    )


def rows(scenario: str, values: Mapping[str, Sequence[float]], *, unit: str = "s", base: str = BARE) -> list[Row]:
    """A row for each contender that has values, with the ratio to ``base``."""
    reference = quantile(values[base], 0.5) if values.get(base) else None
    return [row(scenario, name, taken, unit=unit, base=reference) for name, taken in values.items() if taken]


def take_turns(
    entries: Mapping[str, Action | Entry], *, rounds: int, pause: float = 0.0, warm_up: int = 3, burst: int = 1
) -> dict[str, list[float]]:
    """Seconds that each contender took: ``rounds`` times, in turns of ``burst`` times, ``pause`` seconds before each.

    What a contender does after its run (making the next box) then falls into its own turn, but for the last of a burst;
    the first of a longer burst is not counted.
    """
    taken: dict[str, list[float]] = {name: [] for name in entries}
    turns = {name: Entry.of(entry) for name, entry in entries.items()}
    for _ in range(warm_up):
        for entry in turns.values():
            _once(entry, 0.0)
    done = 0
    while done < rounds:
        for name, entry in turns.items():
            if burst > 1:
                _once(entry, pause)
            for _ in range(min(burst, rounds - done)):
                seconds = _once(entry, pause)
                if seconds is not None:
                    taken[name].append(seconds)
        done += burst
    return taken


def _once(entry: Entry, pause: float) -> float | None:
    """None: it does not count."""
    if entry.before is not None:
        entry.before()
    if pause:
        time.sleep(pause)
    start = time.perf_counter()
    entry.run()
    seconds = time.perf_counter() - start
    return seconds if entry.counts is None or entry.counts() else None
