"""What the project set itself, as ratios that the bench measures, and what came of it. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sandbox_native.bench.contenders import FRESH, PARKED
from sandbox_native.bench.crowds import TICKS
from sandbox_native.bench.hosts import BIG, SCENARIO
from sandbox_native.bench.judging import CASES, CPP, HUMANEVAL, JUDGED
from sandbox_native.bench.measure import BARE, Row
from sandbox_native.bench.threads import scenario as threads_scenario
from sandbox_native.bench.warming import WAITING
from sandbox_native.bench.warming import scenario as warm


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """A ratio that the project set itself, and what came of it (None: not measured here)."""

    text: str
    bound: float
    at_least: bool = False
    scenario: str
    contender: str
    measured: float | None = None

    @property
    def reached(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def sign(self) -> str:
        return f"{'>=' if self.at_least else '<='} {self.bound:g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Wanted:
    text: str
    bound: float
    scenario: str
    contender: str
    base: str = BARE
    figure: str = "median"
    base_figure: str = "median"
    at_least: bool = False


_BACK, _APART = "back to back", "30 ms apart"


def _launches() -> list[_Wanted]:
    wanted = []
    for program, contender, bound in (
        ("/bin/true", PARKED, 1.25),
        ("/bin/true", FRESH, 1.6),
        ("static", PARKED, 2.2),
        ("python", PARKED, 1.05),
    ):
        for when in (_BACK, _APART):
            text = f"{program}, {contender} to bare, {when}"
            wanted.append(_Wanted(text=text, bound=bound, scenario=f"launch {program}, {when}", contender=contender))
    for contender in (PARKED, FRESH):
        for when in (_BACK, _APART):
            text = f"/bin/true, {contender}, p99 to median, {when}"
            where = f"launch /bin/true, {when}"
            wanted.append(_Wanted(text=text, bound=4.0, scenario=where, contender=contender, base=contender, figure="p99"))
    return wanted


def _big(contender: str) -> _Wanted:
    return _Wanted(
        text=f"{contender} from a big host to without",
        bound=1.1,
        scenario=SCENARIO,
        contender=f"{contender}, {BIG}",
        base=contender,
    )


_OTHERS = (
    _Wanted(
        text="8 threads, fresh, runs/s to bare",
        bound=0.65,
        at_least=True,
        scenario=threads_scenario(8),
        contender="strict fresh",
    ),
    _big(PARKED),
    _big(FRESH),
    _Wanted(
        text="a tick's lateness (p99) to bare",
        bound=1.5,
        scenario=TICKS,
        contender="strict",
        figure="p99",
        base_figure="p99",
    ),
    _Wanted(
        text=f"bwrap to {FRESH}, /bin/true, {_BACK}",
        bound=3.0,
        at_least=True,
        scenario=f"launch /bin/true, {_BACK}",
        contender="bwrap",
        base=FRESH,
    ),
    _Wanted(
        text="drain past the bound to a bare pipe",
        bound=0.8,
        at_least=True,
        scenario="drain past the bound",
        contender="strict",
    ),
    _Wanted(
        text=f"import numpy, cold and bare to {WAITING}",
        bound=25,
        at_least=True,
        scenario=warm("numpy"),
        contender=BARE,
        base=WAITING,
    ),
    _Wanted(text=f"python, {WAITING} to cold and bare", bound=0.5, scenario=warm("pass"), contender=WAITING),
    _Wanted(text=f"a C++ submission, {CASES} cases, to bare", bound=1.35, scenario=CPP, contender=JUDGED),
    _Wanted(text="HumanEval in two boxes each, to bare run twice", bound=0.5, scenario=HUMANEVAL, contender=JUDGED),
)


def goals(rows: Sequence[Row]) -> list[Goal]:
    """All of them, in the order of the README."""
    found = []
    for one in (*_launches(), *_OTHERS):
        above = _figure(rows, one.scenario, one.contender, one.figure)
        below = _figure(rows, one.scenario, one.base, one.base_figure)
        measured = above / below if above is not None and below else None
        found.append(
            Goal(
                text=one.text,
                bound=one.bound,
                at_least=one.at_least,
                scenario=one.scenario,
                contender=one.contender,
                measured=measured,
            )
        )
    return found


def _figure(rows: Sequence[Row], scenario: str, contender: str, figure: str) -> float | None:
    for one in rows:
        if (one.scenario, one.contender) == (scenario, contender):
            return float(getattr(one, figure))
    return None


def of_row(row: Row, found: Sequence[Goal]) -> str:
    """The column beside a row: the aims of its ratio or its p99, and what came of them."""
    words = []
    for goal in found:
        if (goal.scenario, goal.contender) == (row.scenario, row.contender) and goal.measured is not None:
            what = "p99/median " if "p99 to median" in goal.text else ""
            measured = f" ({goal.measured:.2f})" if what or not _same(goal.measured, row.ratio) else ""
            words.append(f"{what}{goal.sign} {'reached' if goal.reached else 'MISSED'}{measured}")
    return ", ".join(words)


def _same(measured: float, ratio: float | None) -> bool:
    return ratio is not None and abs(measured - ratio) < 0.005
