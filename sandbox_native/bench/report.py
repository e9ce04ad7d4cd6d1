"""The bench's figures as a table and as JSON, and which of the project's goals they reach. Pure but for :func:`machine`."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Sequence
from typing import Any

from sandbox_native.bench.measure import Row
from sandbox_native.units import format_bytes, format_seconds

VERSION = 1
_BARE = "bare: the same program by subprocess.run(capture_output=True), on the host without a box (drain: a pipe read by us)"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Goal:
    """A ratio that the project set itself, and what came of it (None: not measured here)."""

    text: str
    bound: float
    at_least: bool
    measured: float | None

    @property
    def reached(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


def _median(rows: Sequence[Row], scenario: str, contender: str) -> float | None:
    for one in rows:
        if (one.scenario, one.contender) == (scenario, contender):
            return one.median
    return None


def _ratio(rows: Sequence[Row], scenario: str, contender: str, base: str) -> float | None:
    above, below = _median(rows, scenario, contender), _median(rows, scenario, base)
    return above / below if above is not None and below else None


def goals(rows: Sequence[Row]) -> list[Goal]:
    """All of them, in the order of the README."""
    true, python = "launch /bin/true, ", "launch python, "
    heavy, mounts = "/bin/true from a host of 1 GiB", "/bin/true with 300 more mounts"
    wanted = [
        ("strict /bin/true to bare, back to back", 1.9, False, true + "back to back", "strict", "bare"),
        ("strict /bin/true to bare, 30 ms apart", 1.9, False, true + "30 ms apart", "strict", "bare"),
        ("strict python to bare, back to back", 1.15, False, python + "back to back", "strict", "bare"),
        ("bwrap to strict, /bin/true", 3.0, True, true + "back to back", "bwrap", "strict"),
        ("strict from a host of 1 GiB to without", 1.1, False, heavy, "strict, 1 GiB", "strict"),
        ("strict with 300 more mounts to without", 1.1, False, mounts, "strict, mounts", "strict"),
        ("drain past the bound to a bare pipe", 0.8, True, "drain past the bound", "strict", "bare"),
    ]
    return [
        Goal(text=text, bound=bound, at_least=at_least, measured=_ratio(rows, scenario, contender, base))
        for text, bound, at_least, scenario, contender, base in wanted
    ]


def show(value: float, unit: str) -> str:
    """A figure with its unit, short."""
    if unit == "s":
        return format_seconds(value)
    if unit == "B/s":
        return f"{format_bytes(int(value))}/s"
    return f"{value:,.0f} {unit}"


def table(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """Plain text: a block for each scenario, then the goals and what was left out."""
    lines = [_BARE, ""]
    scenario = ""
    for one in rows:
        if one.scenario != scenario:
            scenario = one.scenario
            lines += ["", f"{scenario:<36}{'median':>14}{'p90':>14}{'p99':>14}{'ratio':>8}{'n':>6}"]
        shown = (one.median, one.p90, one.p99) if one.count > 1 else (one.median,)  # one figure has no distribution
        figures = "".join(f"{show(value, one.unit):>14}" for value in shown).ljust(3 * 14)
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        lines.append(f"  {one.contender:<34}{figures}{ratio:>8}{one.count:>6}")
    lines += ["", "goals"]
    for goal in goals(rows):
        word = {None: "not measured", True: "reached", False: "MISSED"}[goal.reached]
        measured = "" if goal.measured is None else f"{goal.measured:.2f}"
        lines.append(f"  {goal.text:<44}{'>=' if goal.at_least else '<='} {goal.bound:<6g}{measured:>8}  {word}")
    return "\n".join([*lines, *(f"note: {note}" for note in notes)]).lstrip("\n")


def machine() -> dict[str, Any]:
    """Where the figures were taken."""
    return {
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "root": os.geteuid() == 0,
        "load": os.getloadavg()[0],
    }


def document(rows: Sequence[Row], notes: Sequence[str], where: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of --json."""
    return {
        "version": VERSION,
        "machine": where,
        "rows": [dataclasses.asdict(one) for one in rows],
        "goals": [{**dataclasses.asdict(goal), "reached": goal.reached} for goal in goals(rows)],
        "notes": list(notes),
    }
