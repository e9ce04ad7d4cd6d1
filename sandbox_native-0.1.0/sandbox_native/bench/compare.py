"""``--compare OLD.json``: the change against an earlier run, as ratios. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox_native.bench.measure import Row
from sandbox_native.bench.report import show

_NOISE = 0.05  # of a ratio; what is nearer to 1 is called the same


@dataclass(frozen=True, kw_only=True)
class Change:
    """One contender in one scenario, then and now. `median` and `p99` are now to then; `to_bare` is that of the ratios to bare,
    which says more when the machine was not as busy or is another one."""

    row: Row
    before: Row

    @property
    def median(self) -> float:
        return self.row.median / self.before.median

    @property
    def p99(self) -> float:
        return self.row.p99 / self.before.p99

    @property
    def to_bare(self) -> float | None:
        now, then = self.row.ratio, self.before.ratio
        return None if now is None or not then else now / then

    @property
    def word(self) -> str:
        """By the ratio to bare where there is one."""
        change = self.to_bare if self.to_bare is not None else self.median
        if self.row.unit.endswith("/s"):
            change = 1 / change
        if abs(change - 1) <= _NOISE:
            return "same"
        return "slower" if change > 1 else "faster"


def changes(new: Sequence[Row], old: Sequence[Row]) -> list[Change]:
    """Of what both runs measured, with figures other than zero."""
    then = {(one.scenario, one.contender): one for one in old}
    found = []
    for one in new:
        before = then.get((one.scenario, one.contender))
        if before is not None and before.unit == one.unit and min(one.median, one.p99, before.median, before.p99) > 0:
            found.append(Change(row=one, before=before))
    return found


def comparison(new: Sequence[Row], old: Sequence[Row]) -> str:
    """A table: then, now, and the ratios."""
    found = changes(new, old)
    lines = [f"{'now to then':<44}{'then':>14}{'now':>14}{'median':>8}{'p99':>8}{'to bare':>9}"]
    scenario = ""
    for one in found:
        if one.row.scenario != scenario:
            scenario = one.row.scenario
            lines += ["", scenario]
        then, now = show(one.before.median, one.row.unit), show(one.row.median, one.row.unit)
        to_bare = "" if one.to_bare is None else f"{one.to_bare:.2f}"
        name = one.row.contender
        lines.append(f"  {name:<42}{then:>14}{now:>14}{one.median:>8.2f}{one.p99:>8.2f}{to_bare:>9}  {one.word}")
    known = {(one.row.scenario, one.row.contender) for one in found}
    lost = [f"{one.scenario}, {one.contender}" for one in old if (one.scenario, one.contender) not in known]
    return "\n".join([*lines, *(f"note: not compared, measured then only: {name}" for name in lost)])
