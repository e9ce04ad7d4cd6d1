"""Test data of the legacy format: groups of any depth, testdata.yaml inherited from parent to child, grader flags.

`read_testdata` is called by package.py. Values are checked where they are written, so that a message names that file, and then
inherited ready. Order: by base name, cases and groups mixed.

Source: the specification's version legacy, "Test data groups" and "Default grader specification".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from sandbox_native.judge.problems.cases import Found, found_cases, no_cases, subdirectories
from sandbox_native.judge.problems.default_flags import wrong_grader_flags
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.fields import Fields, float_of
from sandbox_native.judge.problems.metadata import FILE, Metadata
from sandbox_native.judge.problems.tree import Tree
from sandbox_native.judge.problems.yaml_file import load
from sandbox_native.judge.values import Case, FlagGrading, Grading, Group, OnReject, ProgramGrading, ScoreMode, VerdictMode

_GROUPS: Final = ("sample", "secret")
_SCORES: Final = ("accept_score", "reject_score", "range")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Settings:
    """What holds for a group: its own testdata.yaml over that of its parents."""

    on_reject: OnReject = OnReject.BREAK
    custom: bool = False
    grader_flags: tuple[str, ...] = ()
    input_validator_flags: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    output_validator_flags: tuple[str, ...] = ()
    accept_score: float = 1.0
    reject_score: float = 0.0
    score_range: tuple[float, float] = (-math.inf, math.inf)


def read_testdata(tree: Tree, metadata: Metadata, notes: list[str]) -> Group:
    """The group of data/, with sample (where there is one) and secret in it.

    ProblemError when there are no secret cases, when cases lie right in data/, and for what testdata.yaml may not say.
    """
    inherited = replace(
        _Settings(), **_own(Fields(dict(metadata.group_defaults), FILE, "grading"), _Settings(), metadata.scoring)
    )
    settings = replace(inherited, **_written(tree, "data", inherited, metadata.scoring))
    loose = found_cases(tree, "data")
    if loose:
        raise ProblemError(
            "cases belong into data/sample or data/secret",
            file=loose[0].input.inside,
            field="case",
            value=loose[0].name,
            remedy="move it to data/secret",
        )
    groups: list[Case | Group] = []
    for entry in subdirectories(tree, "data"):
        if entry.name not in _GROUPS:
            notes.append(f"{entry.inside}/ is neither data/sample nor data/secret: ignored")
            continue
        group = _group(tree, entry.inside, settings, metadata)
        if any(True for _ in group.cases()):
            groups.append(group)
    if not any(isinstance(group, Group) and group.name == "secret" for group in groups):
        raise no_cases(tree, "data/secret")
    return Group(name="", items=tuple(groups), on_reject=settings.on_reject, grading=_grading(settings, root=True))


def _group(tree: Tree, inside: str, inherited: _Settings, metadata: Metadata) -> Group:
    settings = replace(inherited, **_written(tree, inside, inherited, metadata.scoring))
    cases = {found.name: _case(tree, found, settings, metadata) for found in found_cases(tree, inside)}
    items: dict[str, Case | Group] = dict(cases)
    for entry in subdirectories(tree, inside):
        group = _group(tree, entry.inside, settings, metadata)
        if group.name in items:
            raise ProblemError(
                "a group and a case have the same name", file=entry.inside, field="name", value=entry.name, remedy="rename one"
            )
        if not group.items:
            raise no_cases(tree, entry.inside)
        items[group.name] = group
    return Group(
        name=inside.removeprefix("data/"),
        items=tuple(items[name] for name in sorted(items)),
        on_reject=settings.on_reject,
        grading=_grading(settings, root=False),
    )


def _case(tree: Tree, found: Found, settings: _Settings, metadata: Metadata) -> Case:
    return Case(
        name=found.name,
        input=found.input.path,
        answer=found.answer.path,
        checker_flags=(*metadata.validator_flags, *settings.output_validator_flags),
        input_validator_flags=settings.input_validator_flags,
        hint=found.words(tree, "hint"),
        description=found.words(tree, "desc"),
    )


def _written(tree: Tree, inside: str, inherited: _Settings, scoring: bool) -> dict[str, Any]:
    entry = tree.entry(f"{inside}/testdata.yaml")
    if entry is None:
        return {}
    fields = Fields(load(tree.text(entry), entry.inside), entry.inside)
    own = _own(fields, inherited, scoring)
    if inside != "data" and "ignore_sample" in own.get("grader_flags", ()):
        fields.refuse("grader_flags", "ignore_sample is for data/testdata.yaml only", "remove it here")
    return own


def _own(fields: Fields, inherited: _Settings, scoring: bool) -> dict[str, Any]:
    """The fields of `_Settings` that are written there."""
    own: dict[str, Any] = {}
    if fields.has("on_reject"):
        own["on_reject"] = fields.choice("on_reject", OnReject, OnReject.BREAK)
    if fields.has("grading"):
        grading = fields.text("grading")
        if grading not in ("default", "custom"):
            fields.refuse("grading", "there is no such grading", "write default or custom")
        own["custom"] = grading == "custom"
    if fields.has("grader_flags"):
        own["grader_flags"] = fields.words("grader_flags")
        wrong = wrong_grader_flags(own["grader_flags"])
        if wrong and not own.get("custom", inherited.custom):
            fields.refuse("grader_flags", wrong, "correct it, or write `grading: custom`")
    if fields.has("input_validator_flags"):
        own["input_validator_flags"] = _validator_flags(fields, "input_validator_flags")
    if fields.has("output_validator_flags"):
        flags = _validator_flags(fields, "output_validator_flags")
        own["output_validator_flags"] = flags if isinstance(flags, tuple) else next(iter(flags.values()))
    for key in _SCORES:
        if fields.has(key) and not scoring:
            fields.refuse(key, "it is for scoring problems only", "remove it, or write `type: scoring` into problem.yaml")
    for key in ("accept_score", "reject_score"):
        if fields.has(key):
            own[key] = fields.number(key, 0.0, least=-1e12)
    if fields.has("range"):
        own["score_range"] = _range(fields)
    fields.ignore("on_reject", "grading", "grader_flags", "input_validator_flags", "output_validator_flags", *_SCORES)
    fields.done()
    return own


def _validator_flags(fields: Fields, key: str) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    """Flags for every validator (a text), or for the one that is named (a mapping of name and flags)."""
    if not isinstance(fields.get(key), dict):
        return fields.words(key)
    named = fields.inner(key)
    flags = {named.text("name"): named.words("flags")}
    named.done()
    return flags


def _range(fields: Fields) -> tuple[float, float]:
    bounds = [float_of(word, infinite=True) for word in fields.words("range")]
    if len(bounds) != 2 or bounds[0] is None or bounds[1] is None:
        fields.refuse("range", "it is two numbers (or -inf, +inf) with a space between them", "write `range: 0 100`, say")
    if bounds[0] > bounds[1]:
        fields.refuse("range", "the least score is above the greatest", "write the lower one first")
    return bounds[0], bounds[1]


def _grading(settings: _Settings, *, root: bool) -> Grading:
    flags = settings.grader_flags
    if settings.custom:
        return ProgramGrading(
            flags=flags,
            accept_score=settings.accept_score,
            reject_score=settings.reject_score,
            score_range=settings.score_range,
        )
    verdict_modes = [VerdictMode(flag) for flag in flags if flag in list(VerdictMode)]
    score_modes = [ScoreMode(flag) for flag in flags if flag in list(ScoreMode)]
    return FlagGrading(
        verdict_mode=verdict_modes[-1] if verdict_modes else VerdictMode.WORST_ERROR,
        score_mode=score_modes[-1] if score_modes else ScoreMode.SUM,
        ignore_sample=root and "ignore_sample" in flags,  # inherited with the other flags, it has no meaning below the root
        accept_if_any_accepted="accept_if_any_accepted" in flags,
        accept_score=settings.accept_score,
        reject_score=settings.reject_score,
        score_range=settings.score_range,
    )
