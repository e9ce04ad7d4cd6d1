"""The bench's figures as a table and as JSON. Pure but for :func:`machine`."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Sequence
from typing import Any, Final

from sandbox_native.bench.goals import goals, of_row
from sandbox_native.bench.measure import Row
from sandbox_native.units import format_bytes, format_seconds

VERSION: Final = 2  # 1: rows without curves
LEGEND: Final = (
    "bare: the same program by subprocess.run(capture_output=True), on the host without a box (drain: a pipe read by us)",
    "parked: the box waits for the run; fresh: none does, all of it is made when the run is asked for",
)


def show(value: float, unit: str) -> str:
    """A figure with its unit, short."""
    if unit == "s":
        return format_seconds(value)
    if unit == "B/s":
        return f"{format_bytes(int(value))}/s"
    return f"{value:,.0f} {unit}"


def figures(one: Row) -> list[str]:
    """Median, p90, p99: only the first of a single measurement, which has no distribution."""
    shown = (one.median, one.p90, one.p99) if one.count > 1 else (one.median,)
    return [show(value, one.unit) for value in shown]


def table(rows: Sequence[Row], notes: Sequence[str]) -> str:
    """Plain text: a block for each scenario, then the goals and what was left out."""
    lines = [*LEGEND, ""]
    wanted = goals(rows)
    scenario = ""
    for one in rows:
        if one.scenario != scenario:
            scenario = one.scenario
            lines += ["", f"{scenario:<44}{'median':>14}{'p90':>14}{'p99':>14}{'ratio':>8}{'n':>6}  goal"]
        shown = "".join(f"{figure:>14}" for figure in figures(one)).ljust(3 * 14)
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        lines.append(f"  {one.contender:<42}{shown}{ratio:>8}{one.count:>6}  {of_row(one, wanted)}".rstrip())
    lines += ["", "goals"]
    for goal in wanted:
        word = {None: "not measured", True: "reached", False: "MISSED"}[goal.reached]
        measured = "" if goal.measured is None else f"{goal.measured:.2f}"
        lines.append(f"  {goal.text:<56}{goal.sign:<8}{measured:>8}  {word}")
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


def headline(where: dict[str, Any]) -> str:
    """`machine`'s, in a line."""
    cpus = f"{where['cpus']} cpus, Python {where['python']}, {'root' if where['root'] else 'a plain user'}"
    return f"{where['kernel']} {where['machine']}, {cpus}, load {where['load']:.2f} before"


def document(rows: Sequence[Row], notes: Sequence[str], where: dict[str, Any]) -> dict[str, Any]:
    """The JSON object of --json."""
    return {
        "version": VERSION,
        "machine": where,
        "rows": [dataclasses.asdict(one) for one in rows],
        "goals": [{**dataclasses.asdict(goal), "reached": goal.reached} for goal in goals(rows)],
        "notes": list(notes),
    }


def rows_of(told: dict[str, Any]) -> list[Row]:
    """The rows of a document, also of an earlier version. ValueError: it is none of ours."""
    if told.get("version") not in (1, VERSION) or not isinstance(told.get("rows"), list):
        raise ValueError(f"not the JSON of this bench (version {told.get('version')!r})")
    return [Row(**one) for one in told["rows"]]
