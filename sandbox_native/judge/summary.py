"""Judgements in few words, for tables of people. Pure; used by the judge's command and by report.py.

Judgements come as of `Judgement.to_dict`: those of an earlier run are read from a journal.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from sandbox_native.judge.telling import of_crash
from sandbox_native.judge.values import Problem
from sandbox_native.units import format_bytes, format_seconds

Told = Mapping[str, Any]

_LONGEST: Final = 160


def remark(told: Told) -> str:
    """Why it is not as expected, else why it was not accepted; empty for what was."""
    if told["unmet"]:
        return _short("; ".join(told["unmet"]))
    first = next((case for case in told["cases"] if case["verdict"] != "AC"), None)
    if told["message"] or first is None:
        return _short(told["message"])
    return _short(f"{first['case']}: {why(first) or first['verdict']}")


def why(case: Told) -> str:
    """How a case ended: the limit, the signal or exit code with the program's own words, what the checker said."""
    if case["limit"]:
        return f"{case['limit']} limit"
    if case["signal"] or case["exit_code"]:
        how = case["signal"] or f"exit code {case['exit_code']}"
        said = of_crash(_as_text(case["errors"])).strip()
        return f"{how}: {said}" if said else str(how)
    return str(case["message"])


def _as_text(data: Mapping[str, str]) -> str:
    """Bytes as `to_dict` tells them."""
    return data["text"] if "text" in data else base64.b64decode(data["base64"]).decode("utf-8", "replace")


def limits_in_words(problem: Problem, cpu_seconds: float | None) -> str:
    """`cpu_seconds`: in place of the problem's own."""
    cpu_limit = problem.limits.cpu_seconds if cpu_seconds is None else cpu_seconds
    memory = f"{format_bytes(problem.limits.memory_bytes)} of memory"
    return memory if cpu_limit is None else f"{format_seconds(cpu_limit)} of CPU time, {memory}"


def most(told: Told, name: str) -> float:
    """The largest of its cases, 0 when none ran."""
    return max((case[name] for case in told["cases"]), default=0)


def summary_rows(judgements: Iterable[Told]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Headers and rows. `accepted`: how many cases of all."""
    ready = list(judgements)
    scores = any(told["max_score"] is not None for told in ready)
    headers = ("submission", "verdict", *(("score",) if scores else ()), "accepted", "CPU", "memory", "remark")
    return headers, [_row(told, scores) for told in ready]


def _row(told: Told, scores: bool) -> Sequence[str]:
    score = "" if told["score"] is None else f"{told['score']:g}"
    accepted = sum(case["verdict"] == "AC" for case in told["cases"])
    ran = bool(told["cases"])
    return (
        told["submission"],
        told["verdict"],
        *((score,) if scores else ()),
        f"{accepted}/{len(told['cases']) + len(told['skipped'])}",
        format_seconds(most(told, "cpu_seconds")) if ran else "",
        format_bytes(int(most(told, "peak_memory_bytes"))) if ran else "",
        remark(told),
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
