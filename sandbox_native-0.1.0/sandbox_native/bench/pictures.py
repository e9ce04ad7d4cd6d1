"""The bench's rows as inline SVG, by matplotlib (extra `bench`): a latency plot for each scenario, the scaling over threads."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sandbox_native.bench.measure import Row
from sandbox_native.bench.threads import COUNTS, scenario

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE: Final = (7.2, 3.2)
_LOOK: Final[dict[Any, Any]] = {
    "svg.fonttype": "path",
    "svg.hashsalt": "sandbox-native",
    "font.size": 9,
    "axes.grid": True,
    "grid.alpha": 0.3,
}


def latency(rows: Sequence[Row]) -> str:
    """The share of runs that were done within a time, for each contender of one scenario."""
    figure, axes = _drawing()
    for one in rows:
        if one.curve:
            axes.plot([value * 1000 for value in one.curve], range(len(one.curve)), label=one.contender, linewidth=1.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("milliseconds")
    axes.set_ylabel("percent of the runs")
    axes.legend(loc="lower right", frameon=False)
    return _svg(figure, f"latency: {rows[0].scenario}")


def scaling(rows: Sequence[Row]) -> str:
    """Runs a second over the number of threads, for each contender, with the extremes that were measured."""
    figure, axes = _drawing()
    counts = {scenario(count): count for count in COUNTS}
    by_name: dict[str, list[tuple[int, Row]]] = {}
    for one in rows:
        if one.scenario in counts:
            by_name.setdefault(one.contender, []).append((counts[one.scenario], one))
    for name, points in by_name.items():
        places = [count for count, _ in points]
        (line,) = axes.plot(places, [one.median for _, one in points], marker="o", label=name, linewidth=1.4)
        low = [one.curve[0] if one.curve else one.median for _, one in points]
        high = [one.curve[-1] if one.curve else one.median for _, one in points]
        axes.fill_between(places, low, high, alpha=0.15, color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(COUNTS), [str(count) for count in COUNTS])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("threads")
    axes.set_ylabel("runs a second")
    axes.legend(frameon=False)
    return _svg(figure, "runs a second over threads")


def _drawing() -> tuple[Figure, Any]:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_LOOK):
        figure = Figure(figsize=_SIZE, layout="constrained")
        return figure, figure.add_subplot()


def _svg(figure: Figure, title: str) -> str:
    """The element alone, to stand in a page; without a date, so that the same figures give the same bytes."""
    from matplotlib import rc_context

    drawn = io.StringIO()
    with rc_context(_LOOK):
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Title": title})
    text = drawn.getvalue()
    text = re.sub(r"<metadata>.*?</metadata>", "", text[text.index("<svg") :], flags=re.DOTALL)
    return text.replace("<svg", '<svg role="img"', 1)
