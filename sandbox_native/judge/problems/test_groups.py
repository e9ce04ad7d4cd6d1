"""Test data of the 2025-09 format: test_group.yaml, one level of groups, points, a `.yaml` of single cases.

`read_test_groups` is called by package.py. Arguments that data/secret/test_group.yaml gives hold for the cases of its groups too,
unless a group or a case gives its own.

Source: the specification's version 2025-09, "Test data" and "Result aggregation".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sandbox_native.judge.problems.cases import Found, found_cases, no_cases, subdirectories
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.fields import Fields
from sandbox_native.judge.problems.metadata import Metadata
from sandbox_native.judge.problems.tree import Tree
from sandbox_native.judge.problems.yaml_file import load
from sandbox_native.judge.values import Case, FlagGrading, Group, OnReject, PointsGrading, ScoreMode

FILE: Final = "test_group.yaml"
_POINTS: Final = ("max_score", "score_aggregation", "require_pass")
_MODES: Final = (ScoreMode.PASS_FAIL, ScoreMode.SUM, ScoreMode.MIN)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arguments:
    """What a case inherits."""

    args: tuple[str, ...] = ()
    input_validator: tuple[str, ...] | Mapping[str, tuple[str, ...]] = ()
    output_validator: tuple[str, ...] = ()


def read_test_groups(tree: Tree, metadata: Metadata, notes: list[str]) -> Group:
    """The group of data/, with sample (where there is one) and secret in it. ProblemError for what the format does not allow."""
    for entry in subdirectories(tree, "data"):
        if entry.name not in ("sample", "secret", "invalid_input", "invalid_output", "valid_output"):
            notes.append(f"{entry.inside}/ has no meaning in the format: ignored")
    items = [group for group in (_sample(tree, metadata), _secret(tree, metadata)) if group is not None]
    if not metadata.scoring:
        return Group(items=tuple(items))
    secret = items[-1].grading
    assert isinstance(secret, PointsGrading)
    # Samples are judged, score nothing, and do not keep the rest from being judged.
    return Group(
        items=tuple(items),
        on_reject=OnReject.CONTINUE,
        grading=PointsGrading(score_mode=ScoreMode.SUM, max_score=secret.max_score),
    )


def _sample(tree: Tree, metadata: Metadata) -> Group | None:
    fields = _fields(tree, "data/sample")
    for key in _POINTS:
        if fields.has(key):
            fields.refuse(key, "it is not permitted in data/sample", "remove it")
    for entry in subdirectories(tree, "data/sample"):
        if tree.entry(f"{entry.inside}/{FILE}"):
            raise ProblemError(
                "data/sample has no groups", file=entry.inside, field="group", value=entry.name, remedy=f"remove its {FILE}"
            )
    arguments = read_arguments(fields, Arguments())
    fields.done()
    cases = _cases(tree, "data/sample", arguments)
    if not cases:
        return None
    grading = PointsGrading(max_score=0.0) if metadata.scoring else FlagGrading()
    return Group(name="sample", items=cases, grading=grading)


def _secret(tree: Tree, metadata: Metadata) -> Group:
    inside = "data/secret"
    fields = _fields(tree, inside)
    points = _points(fields, metadata, PointsGrading(score_mode=ScoreMode.SUM, max_score=100.0))
    arguments = read_arguments(fields, Arguments())
    fields.done()
    grouped = [entry for entry in subdirectories(tree, inside) if tree.entry(f"{entry.inside}/{FILE}")]
    items: tuple[Case | Group, ...]
    if grouped:
        _only_groups(tree, inside, len(grouped))
        items = tuple(_test_group(tree, entry.inside, metadata, arguments) for entry in grouped)
    else:
        items = _cases(tree, inside, arguments)
    if not items:
        raise no_cases(tree, inside)
    if not metadata.scoring:
        return Group(name="secret", items=items)
    if points.require_pass not in ((), ("sample",)):
        fields.refuse("require_pass", "secret can depend on sample only", "name groups in the groups' own files")
    group = Group(name="secret", items=items, on_reject=_on_reject(points), grading=points)
    _check_points(group, points)
    return group


def _only_groups(tree: Tree, inside: str, count: int) -> None:
    loose = found_cases(tree, inside)
    if loose:
        raise ProblemError(
            f"data/secret has groups or cases, not both, and there are {count} groups",
            file=loose[0].input.inside,
            field="case",
            value=loose[0].name,
            remedy=f"put it into a directory with a {FILE}",
        )
    for entry in subdirectories(tree, inside):
        if not tree.entry(f"{entry.inside}/{FILE}"):
            raise ProblemError(
                "beside groups every directory must be one",
                file=f"{entry.inside}/",
                field="group",
                value=entry.name,
                remedy=f"put a {FILE} there (it may be empty)",
            )


def _test_group(tree: Tree, inside: str, metadata: Metadata, inherited: Arguments) -> Group:
    fields = _fields(tree, inside)
    points = _points(fields, metadata, PointsGrading())
    arguments = read_arguments(fields, inherited)
    fields.done()
    for file in tree.files(inside):
        if file.name == FILE and file.inside != f"{inside}/{FILE}":
            raise ProblemError(
                "a group has no groups in it",
                file=file.inside,
                field="group",
                value=inside,
                remedy="remove it, or move the group to data/secret",
            )
    cases = _cases(tree, inside, arguments)
    if not cases:
        raise no_cases(tree, inside)
    name = inside.removeprefix("data/")
    if not metadata.scoring:
        return Group(name=name, items=cases)
    return Group(name=name, items=cases, on_reject=_on_reject(points), grading=points)


def _on_reject(points: PointsGrading) -> OnReject:
    """After a rejected case a sum can still grow; the other aggregations are 0 whatever comes."""
    return OnReject.CONTINUE if points.score_mode is ScoreMode.SUM else OnReject.BREAK


def _fields(tree: Tree, inside: str) -> Fields:
    old = tree.entry(f"{inside}/testdata.yaml")
    if old is not None:
        raise ProblemError(
            f"this version of the format calls it {FILE}",
            file=old.inside,
            field="name",
            value=old.name,
            remedy="rename it, and adapt its keys",
        )
    entry = tree.entry(f"{inside}/{FILE}")
    fields = Fields(load(tree.text(entry), entry.inside) if entry else None, f"{inside}/{FILE}")
    fields.ignore("input_visualizer_args", "output_visualizer_args")
    for key in ("static_validation_score", "static_validator_args"):
        if fields.has(key):
            fields.refuse(key, "static validators are not run by this judge", "remove it to judge without")
    return fields


def _points(fields: Fields, metadata: Metadata, default: PointsGrading) -> PointsGrading:
    if not metadata.scoring:
        for key in _POINTS:
            if fields.has(key):
                fields.refuse(key, "it is for scoring problems only", "remove it, or add scoring to type in problem.yaml")
        return default
    bounded = fields.get("max_score") not in (None, "unbounded")
    unbounded = math.inf if fields.has("max_score") else default.max_score
    return PointsGrading(
        score_mode=fields.choice("score_aggregation", ScoreMode, default.score_mode, _MODES),
        max_score=float(fields.whole("max_score", 0, least=0)) if bounded else unbounded,
        require_pass=fields.texts("require_pass"),
    )


def _check_points(secret: Group, points: PointsGrading) -> None:
    """The rules that hold between secret and its groups."""
    earlier: dict[str, ScoreMode] = {"sample": ScoreMode.PASS_FAIL}
    for group in secret.groups():
        grading = group.grading
        assert isinstance(grading, PointsGrading)
        most = "unbounded" if math.isinf(grading.max_score) else f"{grading.max_score:g}"
        fields = Fields({"max_score": most, "score_aggregation": grading.score_mode}, f"data/{group.name}/{FILE}")
        if grading.score_mode is ScoreMode.PASS_FAIL and math.isinf(grading.max_score):
            fields.refuse("max_score", "a group that is all or nothing needs a maximal score", "write `max_score: 10`, say")
        if group is secret:
            continue
        if math.isinf(grading.max_score) and not math.isinf(points.max_score):
            fields.refuse("max_score", "it is unbounded, and that of data/secret is not", "write a max_score here")
        if points.score_mode is ScoreMode.PASS_FAIL and grading.score_mode is not ScoreMode.PASS_FAIL:
            fields.refuse("score_aggregation", "data/secret is all or nothing, so its groups must be", "write pass-fail")
        for name in grading.require_pass:
            if earlier.get(name) is not ScoreMode.PASS_FAIL:
                raise ProblemError(
                    "it must be sample or an earlier group, with the aggregation pass-fail",
                    file=fields.file,
                    field="require_pass",
                    value=name,
                    remedy="write names as `secret/group1`; groups are ordered by name",
                )
        earlier[group.name] = grading.score_mode


def read_arguments(fields: Fields, inherited: Arguments) -> Arguments:
    """Those that are written there, over the inherited ones."""
    fields.flag("full_feedback")  # for whoever shows results to contestants
    return Arguments(
        args=fields.texts("args") if "args" in fields.values else inherited.args,
        input_validator=_named(fields) if "input_validator_args" in fields.values else inherited.input_validator,
        output_validator=(
            fields.texts("output_validator_args") if "output_validator_args" in fields.values else inherited.output_validator
        ),
    )


def _named(fields: Fields) -> tuple[str, ...] | dict[str, tuple[str, ...]]:
    if not isinstance(fields.get("input_validator_args"), dict):
        return fields.texts("input_validator_args")
    named = fields.inner("input_validator_args")
    return {name: named.texts(name) for name in named.values}


def _cases(tree: Tree, inside: str, inherited: Arguments) -> tuple[Case, ...]:
    """The cases in a directory and in those below, ordered by name."""
    found = {case.name: _case(tree, case, inherited) for case in found_cases(tree, inside)}
    for entry in subdirectories(tree, inside):
        if entry.inside.removeprefix("data/") in found:
            raise ProblemError(
                "a directory and a case have the same name",
                file=entry.inside,
                field="name",
                value=entry.name,
                remedy="rename one",
            )
        found.update({case.name: case for case in _cases(tree, entry.inside, inherited)})
    return tuple(found[name] for name in sorted(found))


def _case(tree: Tree, found: Found, inherited: Arguments) -> Case:
    entry = found.others.get("yaml")
    fields = Fields(load(tree.text(entry), entry.inside) if entry else None, entry.inside if entry else "")
    fields.ignore("input_visualizer_args", "output_visualizer_args", "args", "input_validator_args", "output_validator_args")
    arguments = read_arguments(fields, inherited)
    case = Case(
        name=found.name,
        input=found.input.path,
        answer=found.answer.path,
        arguments=arguments.args,
        checker_flags=arguments.output_validator,
        input_validator_flags=arguments.input_validator,
        files=found.files,
        hint=fields.text("hint"),
        description=fields.text("description"),
    )
    fields.done()
    return case
