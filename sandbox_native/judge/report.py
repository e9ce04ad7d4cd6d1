"""The judge's report: one HTML page, self-contained, with all submissions and cases of one problem. Host process.

Called by the judge's command, and by whoever has judgements. Submissions, messages and outputs are hostile text: the template
(report.html.j2) escapes all of it, and the page's own policy lets it load nothing.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any, Final

from sandbox_native.errors import PolicyError, UnsupportedError
from sandbox_native.judge.summary import limits_in_words, most, remark, why
from sandbox_native.judge.values import Problem
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.units import format_bytes, format_seconds

Told = Mapping[str, Any]
"""A judgement as of `Judgement.to_dict`."""

_MOST_DOTS: Final = 5000
_WIDTH, _HEIGHT, _LEFT, _TOP = 960, 240, 84, 16  # of the plot, in its own units
_TEMPLATE: Final = "report.html.j2"


class Report:
    """A page at `path`: what cannot be written is found out before anything is judged. UnsupportedError: there is no jinja2."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        _library()
        self._path = os.fspath(path)
        self._put("a", "")

    def write(self, problem: Problem, judgements: Iterable[Told]) -> None:
        """The page, in place of what is there. Errors as of the construction."""
        self._put("w", html(problem, judgements))

    def _put(self, mode: str, page: str) -> None:
        try:
            with open(self._path, mode, encoding="utf-8", errors="backslashreplace") as file:
                file.write(page)
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
            remedy = "name a file that the host can write"
            raise PolicyError(reason, field="--html", value=self._path, remedy=remedy) from None


def html(problem: Problem, judgements: Iterable[Told]) -> str:
    """The page for judgements as of `Judgement.to_dict`. UnsupportedError: there is no jinja2."""
    jinja2 = _library()
    ready = list(judgements)
    names = [case.name for case in problem.cases()]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = resources.files(__package__).joinpath(_TEMPLATE).read_text("utf-8")
    limit = next((told["cpu_limit_seconds"] for told in ready if told["cpu_limit_seconds"]), None)
    scores = any(told["max_score"] is not None for told in ready)
    page: str = environment.from_string(text).render(
        title=problem.title or problem.name,
        limits=limits_in_words(problem, limit),
        names=names,
        heads=["submission", "language", "verdict", *(["score"] if scores else []), "accepted", "CPU", "memory", "remark"],
        rows=[_row(told, names) for told in ready],
        scores=scores,
        counts=_counts(ready),
        notes=problem.notes,
        plot=_plot(ready, limit),
    )
    return page


def _library() -> Any:
    try:
        import jinja2
    except ImportError as error:
        remedy = "pip install 'sandbox-native[judge]'"
        raise UnsupportedError("a report is made with jinja2, which is not installed", ("jinja2",), remedy) from error
    return jinja2


def _counts(judgements: Sequence[Told]) -> dict[str, int]:
    counts = Counter(told["verdict"] for told in judgements)
    return {verdict.value: counts[verdict] for verdict in Verdict if counts[verdict]}


def _row(told: Told, names: Sequence[str]) -> dict[str, Any]:
    cases = {case["case"]: case for case in told["cases"]}
    return {
        **told,
        "remark": remark(told),
        "compiler": _compiler(told),
        "accepted": sum(case["verdict"] == "AC" for case in told["cases"]),
        "cpu": most(told, "cpu_seconds"),
        "cpu_words": format_seconds(most(told, "cpu_seconds")) if cases else "",
        "memory": most(told, "peak_memory_bytes"),
        "memory_words": format_bytes(int(most(told, "peak_memory_bytes"))) if cases else "",
        "cells": [_cell(cases.get(name)) for name in names],
    }


def _compiler(told: Told) -> str:
    """What the compiler said, where there is more than the remark has of it."""
    said = str(told["compilation"]["output"]).strip() if told["compilation"] else ""
    return said if told["verdict"] == Verdict.CE and said.count("\n") else ""


def _cell(case: Told | None) -> dict[str, Any] | None:
    if case is None:
        return None
    words = [why(case), case["message"], "" if case["limit"] else case["hint"], "again, near the limit" if _rerun(case) else ""]
    return {
        "verdict": case["verdict"],
        "cpu": case["cpu_seconds"],
        "time": format_seconds(case["cpu_seconds"]),
        "memory": format_bytes(case["peak_memory_bytes"]),
        "words": "\n".join(dict.fromkeys(word for word in words if word)),
    }


def _rerun(case: Told) -> bool:
    return case["noise"] is not None and len(case["noise"]["runs"]) > 1


@dataclass(frozen=True, kw_only=True)
class _Dot:
    x: float
    y: float
    verdict: str
    words: str


def _ticks(top: float) -> list[float]:
    """From 0 up to `top` in three to six steps that people count in."""
    size = 10.0 ** math.floor(math.log10(top / 3))
    step = max(size * part for part in (1, 2, 5) if size * part <= top / 3)
    return [step * at for at in range(math.floor(top / step) + 1)]


def _plot(judgements: Sequence[Told], limit: float | None) -> dict[str, Any] | None:
    """CPU time of each case, a column for each submission; of many only the slowest case of each. None: nothing ran."""
    shown = [(at, case) for at, told in enumerate(judgements) for case in told["cases"]]
    if not shown:
        return None
    whole = len(shown) <= _MOST_DOTS
    if not whole:
        slowest = [
            (at, max(told["cases"], key=lambda case: case["cpu_seconds"])) for at, told in enumerate(judgements) if told["cases"]
        ]
        shown = slowest[:: 1 + len(slowest) // _MOST_DOTS]
    top = 1.1 * max(limit or 0.0, *(case["cpu_seconds"] for _, case in shown), 1e-3)
    step = (_WIDTH - _LEFT) / len(judgements)

    def height(seconds: float) -> float:
        return float(round(_TOP + (_HEIGHT - _TOP) * (1 - seconds / top), 1))

    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "left": _LEFT,
        "whole": whole,
        "limit": None if limit is None else height(limit),
        "limit_words": None if limit is None else format_seconds(limit),
        "ticks": [(height(seconds), format_seconds(seconds) if seconds else "0") for seconds in _ticks(top)],
        "dots": [
            _Dot(
                x=round(_LEFT + (at + 0.5) * step, 1),
                y=height(case["cpu_seconds"]),
                verdict=case["verdict"],
                words=f"{judgements[at]['submission']}, {case['case']}: {format_seconds(case['cpu_seconds'])}",
            )
            for at, case in shown
        ],
    }
