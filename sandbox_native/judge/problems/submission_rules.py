"""submissions/submissions.yaml of the 2025-09 format, and what its directories ask for by default.

Used by submissions.py. A rule has a pattern for submissions; what it says of a part of the cases becomes a `Requirement` of its
own.

Source: the specification's version 2025-09, "Example submissions".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.fields import Fields, float_of
from sandbox_native.judge.problems.globs import MOST_PATTERNS, expanded, matches
from sandbox_native.judge.problems.tree import Tree
from sandbox_native.judge.problems.yaml_file import Plain, load
from sandbox_native.judge.values import Requirement
from sandbox_native.judge.verdicts import Verdict

FILE: Final = "submissions/submissions.yaml"
_CODES: Final = ("AC", "WA", "TLE", "RTE")
_WHOLE: Final = ("language", "entrypoint", "authors", "model_solution")
_ASKED: Final = ("permitted", "required", "score", "message", "use_for_time_limit")

DEFAULTS: Final[Mapping[str, Mapping[str, Plain]]] = {
    "accepted": {"permitted": ["AC"]},
    "rejected": {"required": ["RTE", "TLE", "WA"]},
    "wrong_answer": {"permitted": ["AC", "WA"], "required": ["WA"]},
    "time_limit_exceeded": {"permitted": ["AC", "TLE"], "required": ["TLE"]},
    "run_time_error": {"permitted": ["AC", "RTE"], "required": ["RTE"]},
    "brute_force": {"permitted": ["AC", "RTE", "TLE"], "required": ["RTE", "TLE"]},
}
"""Directory -> what the format asks of the submissions in it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """What holds for the submissions that `pattern` matches."""

    pattern: str
    language: str | None = None
    entry_point: str | None = None
    requirements: tuple[Requirement, ...] = ()

    def applies(self, submission: str) -> bool:
        """Whether it holds for the submission of that name (`accepted/slow.py`)."""
        return matches(self.pattern, submission)


def read_rules(tree: Tree, scoring: bool) -> tuple[Rule, ...]:
    """The rules for a package's submissions; those of the standard directories where the file does not replace them."""
    entry = tree.entry(FILE)
    fields = Fields(load(tree.text(entry), FILE) if entry else None, FILE)
    rules: list[Rule] = []
    for pattern, standard in DEFAULTS.items():
        merged = {**standard, **fields.inner(pattern).values}
        rules.append(_rule(pattern, Fields(merged, FILE, pattern), scoring, f"submissions/{pattern}"))
    for pattern in fields.values:
        if expanded(pattern) is None or "**" in pattern or "[" in pattern:
            raise ProblemError(
                f"a pattern has `*` and braces that pair, and stands for at most {MOST_PATTERNS} names",
                file=FILE,
                field="pattern",
                value=pattern,
                remedy="write `accepted/*.py` or `{simple,complex}.cpp`, say",
            )
        if pattern not in DEFAULTS:
            rules.append(_rule(pattern, fields.inner(pattern), scoring, f"submissions.yaml: {pattern}"))
    return tuple(rules)


def _rule(pattern: str, fields: Fields, scoring: bool, origin: str) -> Rule:
    fields.ignore(*_WHOLE, *_ASKED)
    requirements = _requirements("", fields, scoring, origin)
    for key, value in fields.values.items():
        if key not in (*_WHOLE, *_ASKED):
            if not isinstance(value, dict):
                fields.refuse(key, "it is neither a key nor a group of cases", f"keys are {', '.join((*_WHOLE, *_ASKED))}")
            inner = fields.inner(key)
            inner.ignore(*_ASKED)
            requirements += _requirements(key, inner, scoring, f"{origin}: {key}")
            inner.done()
    return Rule(
        pattern=pattern,
        language=fields.text("language") or None,
        entry_point=fields.text("entrypoint") or None,
        requirements=requirements,
    )


def _requirements(cases: str, fields: Fields, scoring: bool, origin: str) -> tuple[Requirement, ...]:
    permitted, required = _verdicts(fields, "permitted"), _verdicts(fields, "required")
    if permitted is not None and required is not None and not permitted & required:
        fields.refuse("required", "none of these verdicts is permitted", "add one of them to permitted")
    use = fields.text("use_for_time_limit", "true")
    if use not in ("true", "false", "lower", "upper"):
        fields.refuse("use_for_time_limit", "there is no such choice", "write true, false, lower or upper")
    if fields.has("score") and not scoring:
        fields.refuse("score", "it is for scoring problems only", "remove it, or add scoring to type in problem.yaml")
    requirement = Requirement(
        cases=cases,
        permitted=permitted,
        required=required,
        score=_score(fields) if fields.has("score") else None,
        message=fields.text("message"),
        bounds_time=_bounds(use, permitted, required),
        origin=origin,
    )
    if requirement == Requirement(cases=cases, origin=origin):
        return ()
    if use == "lower":
        extra = Requirement(cases=cases, permitted=frozenset({Verdict.AC, Verdict.WA, Verdict.RTE}), origin=origin)
    elif use == "upper":
        extra = Requirement(cases=cases, required=frozenset({Verdict.TLE}), origin=origin)
    else:
        return (requirement,)
    return requirement, extra


def _bounds(use: str, permitted: frozenset[Verdict] | None, required: frozenset[Verdict] | None) -> str | None:
    """Which bound of the time limit it gives: "lower" for what may not be too slow, "upper" for what must be."""
    if use in ("lower", "upper"):
        return use
    if use == "false":
        return None
    if required == frozenset({Verdict.TLE}):
        return "upper"
    return "lower" if permitted is not None and Verdict.TLE not in permitted else None


def _verdicts(fields: Fields, key: str) -> frozenset[Verdict] | None:
    if not fields.has(key):
        return None
    words = fields.texts(key)
    if not words or any(word not in _CODES for word in words):
        fields.refuse(key, "it is a list of some of AC, WA, TLE, RTE", "write [AC, TLE], say")
    return frozenset(Verdict(word) for word in words)


def _score(fields: Fields) -> tuple[float, float]:
    bounds = [float_of(word, infinite=True) for word in fields.texts("score")]
    least, most = (bounds * 2)[:2] if bounds else (None, None)
    if len(bounds) > 2 or least is None or most is None or least > most:
        fields.refuse("score", "it is a number, or the least and the greatest of a range", "write 40 or [0, 40], say")
    return least, most
