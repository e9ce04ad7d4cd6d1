"""``--html FILE``: one page with the table, a latency plot for each scenario and the scaling over threads; no network needed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Any, Final

from sandbox_native.bench.compare import changes
from sandbox_native.bench.goals import Goal, goals, of_row
from sandbox_native.bench.measure import Row
from sandbox_native.bench.pictures import latency, scaling
from sandbox_native.bench.report import LEGEND, figures, headline, show
from sandbox_native.bench.threads import COUNTS, scenario

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: .5em 0 1em; width: 100% }
th, td { padding: .15em .6em; text-align: right; border-bottom: 1px solid #ddd; font-variant-numeric: tabular-nums }
th:first-child, td:first-child, td.goal, th.goal { text-align: left }
.reached { color: #17692d }
.MISSED { color: #b3261e; font-weight: 600 }
h2 { margin-top: 2em }
svg { max-width: 100%; height: auto }
"""
_HEAD: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>sandbox_native: bench</title>
<style>{}</style>
</head>
<body>"""


def page(rows: Sequence[Row], notes: Sequence[str], where: dict[str, Any], old: Sequence[Row] = ()) -> str:
    """The whole page. ImportError without matplotlib."""
    wanted = goals(rows)
    parts = [_HEAD.format(_STYLE), "<h1>What a run costs</h1>", f"<p>{escape(headline(where))}</p>"]
    parts += [f"<p>{escape(line)}</p>" for line in LEGEND]
    parts += ["<h2>Goals</h2>", _goals(wanted)]
    if any(one.scenario == scenario(count) for one in rows for count in COUNTS):
        parts += ["<h2>Runs a second over threads</h2>", scaling(rows)]
    for name, group in groupby(rows, lambda one: one.scenario):
        block = list(group)
        parts += [f"<h2>{escape(name)}</h2>", _block(block, wanted)]
        if block[0].unit == "s" and any(one.curve for one in block):
            parts.append(latency(block))
    if old:
        parts += ["<h2>Now to then</h2>", _changes(rows, old)]
    if notes:
        parts += ["<h2>Notes</h2>", "<ul>", *(f"<li>{escape(note)}</li>" for note in notes), "</ul>"]
    return "\n".join([*parts, "</body>", "</html>", ""])


def _row(cells: Sequence[str], kind: str = "td") -> str:
    return "<tr>" + "".join(f"<{kind}>{cell}</{kind}>" for cell in cells) + "</tr>"


def _table(head: Sequence[str], lines: Sequence[str]) -> str:
    return "\n".join(["<table>", _row(head, "th"), *lines, "</table>"])


def _block(block: Sequence[Row], wanted: Sequence[Goal]) -> str:
    lines = []
    for one in block:
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        shown = [*figures(one), "", ""][:3]
        goal = of_row(one, wanted)
        word = "MISSED" if "MISSED" in goal else "reached"
        cells = [escape(one.contender), *map(escape, shown), ratio, str(one.count), f'<span class="{word}">{escape(goal)}</span>']
        lines.append(_row(cells))
    return _table(["contender", "median", "p90", "p99", "ratio", "n", "goal"], lines)


def _goals(wanted: Sequence[Goal]) -> str:
    lines = []
    for goal in wanted:
        word = {None: "not measured", True: "reached", False: "MISSED"}[goal.reached]
        measured = "" if goal.measured is None else f"{goal.measured:.2f}"
        lines.append(_row([escape(goal.text), escape(goal.sign), measured, f'<span class="{word}">{word}</span>']))
    return _table(["goal", "aim", "measured", ""], lines)


def _changes(rows: Sequence[Row], old: Sequence[Row]) -> str:
    lines = []
    for one in changes(rows, old):
        to_bare = "" if one.to_bare is None else f"{one.to_bare:.2f}"
        then, now = show(one.before.median, one.row.unit), show(one.row.median, one.row.unit)
        name = escape(f"{one.row.scenario}: {one.row.contender}")
        lines.append(_row([name, escape(then), escape(now), f"{one.median:.2f}", f"{one.p99:.2f}", to_bare, one.word]))
    return _table(["", "then", "now", "median", "p99", "to bare", ""], lines)
