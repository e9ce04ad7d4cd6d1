"""What problem.yaml says, for every version of the package format.

`read_metadata` is called by package.py. Keys that do not matter for judging (credits, sources, licences) are known and not
looked at; unknown keys are errors, as the format asks. The versions differ in keys and defaults, see `_legacy` and `_current`.

Source: the problem package format's specification, versions legacy, legacy-icpc and 2025-09 (2023-07-draft was its draft);
DOMjudge's keys `limits.time_limit` and `validation: custom multi-pass` in legacy packages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.fields import Fields
from sandbox_native.judge.problems.programs import Constants
from sandbox_native.judge.problems.yaml_file import Plain
from sandbox_native.judge.values import ProblemLimits

FILE: Final = "problem.yaml"
LEGACY: Final = ("legacy", "legacy-icpc")
DRAFTS: Final = ("2023-07-draft", "2023-07", "2025-09-draft", "draft")
CURRENT: Final = "2025-09"

_MIB: Final = 1 << 20
_DAY: Final = 24 * 3600.0
_TYPES: Final = ("pass-fail", "scoring", "multi-pass", "interactive", "submit-answer")
_APART: Final = (("pass-fail", "scoring"), ("submit-answer", "multi-pass"), ("submit-answer", "interactive"))
_CONSTANT: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")


@dataclass(frozen=True, kw_only=True, slots=True)
class Metadata:
    """What problem.yaml says of judging.

    `custom` is whether the package has an output validator of its own (None: its directory says), `group_defaults` what the
    oldest packages say in problem.yaml instead of testdata.yaml.
    """

    format: str
    title: str
    scoring: bool
    interactive: bool
    multi_pass: bool
    custom: bool | None
    validator_scores: bool
    validator_flags: tuple[str, ...]
    minimise: bool
    limits: ProblemLimits
    languages: frozenset[str] | None
    constants: Constants = field(default_factory=dict)
    group_defaults: Mapping[str, Plain] = field(default_factory=dict)

    @property
    def legacy(self) -> bool:
        """Whether it is one of the legacy versions."""
        return self.format in LEGACY


def read_metadata(values: Plain, *, limited: bool = False) -> Metadata:
    """Metadata of the content of problem.yaml. ProblemError for what the format does not allow. `limited`: the time limit stands
    elsewhere in the package."""
    fields = Fields(values, FILE)
    version = fields.text("problem_format_version", "legacy")
    if version in LEGACY:
        return _legacy(fields, version, limited)
    if version == CURRENT or version in DRAFTS:
        return _current(fields, version)
    fields.refuse("problem_format_version", "that version is not known", f"versions are {', '.join((*LEGACY, *DRAFTS, CURRENT))}")


def _legacy(fields: Fields, version: str, limited: bool) -> Metadata:
    fields.ignore("uuid", "author", "source", "source_url", "license", "rights_owner", "keywords", "libraries")
    kinds = set(fields.words("type")) or {"pass-fail"}
    scoring = "scoring" in kinds
    if not kinds <= {"pass-fail", "scoring", "interactive", "multi-pass"} or kinds >= {"pass-fail", "scoring"}:
        fields.refuse("type", "there is no such type", "write pass-fail or scoring")
    validation = fields.words("validation") or ("default",)
    extras = frozenset(validation[1:])
    if validation[0] not in ("default", "custom") or not extras <= {"score", "interactive", "multi-pass"}:
        fields.refuse(
            "validation", "it is default, or custom with score or interactive behind", "write `custom interactive`, say"
        )
    if validation[0] == "default" and extras:
        fields.refuse("validation", "the default validator takes none of these words", "write flags into validator_flags")
    if "score" in extras and not scoring:
        fields.refuse("validation", "a validator gives scores in scoring problems only", "write `type: scoring`")
    minimise, group_defaults = _legacy_grading(fields.inner("grading"), scoring)
    limits = fields.inner("limits")
    # A limit beside the format's own means (DOMjudge's) was set by hand: then only the distances that are written count.
    multiplier, margin = (1.0, 1.0) if limited or limits.has("time_limit") else (5.0, 2.0)
    multi_pass = "multi-pass" in extras or "multi-pass" in kinds
    metadata = Metadata(
        format=version,
        title=fields.text("name"),
        scoring=scoring,
        interactive="interactive" in extras or "interactive" in kinds,
        multi_pass=multi_pass,
        custom=validation[0] == "custom",
        validator_scores="score" in extras,
        validator_flags=fields.words("validator_flags"),
        minimise=minimise,
        limits=_limits(
            limits,
            time_multiplier=limits.number("time_multiplier", multiplier, least=1.0),
            time_safety_margin=limits.number("time_safety_margin", margin, least=1.0),
            time_resolution=1.0,
        ),
        languages=None,
        group_defaults=group_defaults,
    )
    fields.done()
    return metadata


def _legacy_grading(grading: Fields, scoring: bool) -> tuple[bool, dict[str, Plain]]:
    objective = grading.text("objective", "max")
    if objective not in ("max", "min"):
        grading.refuse("objective", "there is no such objective", "write max or min")
    if grading.flag("show_test_data_groups") and not scoring:
        grading.refuse("show_test_data_groups", "it is for scoring problems only", "remove it, or write `type: scoring`")
    defaults: dict[str, Plain] = {key: grading.get(key) for key in ("accept_score", "reject_score", "range")}
    on_reject = grading.text("on_reject", "worst_error")
    if on_reject not in ("first_error", "worst_error", "grade"):
        grading.refuse("on_reject", "there is no such policy", "write it into data/testdata.yaml: break or continue")
    defaults["on_reject"] = {"first_error": "break", "grade": "continue"}.get(on_reject)
    grading.done()
    return objective == "min", {key: value for key, value in defaults.items() if value is not None}


def _current(fields: Fields, version: str) -> Metadata:
    fields.ignore("uuid", "version", "credits", "source", "source_url", "license", "rights_owner", "embargo_until", "keywords")
    kinds = fields.texts("type") or ("pass-fail",)
    for kind in kinds:
        if kind not in _TYPES or kinds.count(kind) > 1:
            fields.refuse("type", f"{kind!r} is no type, or stands there twice", f"types are {', '.join(_TYPES)}")
    for one, other in _APART:
        if one in kinds and other in kinds:
            fields.refuse("type", f"{one} and {other} exclude each other", "keep one of them")
    if "submit-answer" in kinds:
        fields.refuse(
            "type", "a submission to it is no program, so there is nothing to run", "compare its answers with a checker"
        )
    limits = fields.inner("limits")
    multipliers = limits.inner("time_multipliers")
    if limits.has("validation_passes") and "multi-pass" not in kinds:
        limits.refuse("validation_passes", "it is for multi-pass problems only", "remove it, or add multi-pass to type")
    fields.flag("allow_file_writing")  # of no use in judging: each run has a directory of its own to write to
    languages = fields.texts("languages")
    metadata = Metadata(
        format=version,
        title=_title(fields),
        scoring="scoring" in kinds,
        interactive="interactive" in kinds,
        multi_pass="multi-pass" in kinds,
        custom=None,
        validator_scores="scoring" in kinds,
        validator_flags=(),
        minimise=False,
        limits=_limits(
            limits,
            time_multiplier=multipliers.number("ac_to_time_limit", 2.0, least=1.0),
            time_safety_margin=multipliers.number("time_limit_to_tle", 1.5, least=1.0),
            time_resolution=limits.number("time_resolution", 1.0, least=0.0, strict=True, most=_DAY),
        ),
        languages=None if not languages or languages == ("all",) else frozenset(languages),
        constants=_constants(fields.inner("constants")),
    )
    multipliers.done()
    fields.done()
    return metadata


def _title(fields: Fields) -> str:
    names = fields.get("name")
    if not isinstance(names, dict):
        return fields.text("name")
    title = names.get("en") or next(iter(names.values()), None)
    return title if isinstance(title, str) else ""


def _limits(limits: Fields, *, time_multiplier: float, time_safety_margin: float, time_resolution: float) -> ProblemLimits:
    given = ProblemLimits()
    mib = 1 << 20  # in MiB: up to a TiB
    read = ProblemLimits(
        cpu_seconds=limits.number("time_limit", 0.0, least=0.0, strict=True, most=_DAY) or None,
        memory_bytes=limits.whole("memory", given.memory_bytes // _MIB, most=mib) * _MIB,
        output_bytes=limits.whole("output", given.output_bytes // _MIB, most=mib) * _MIB,
        code_bytes=limits.whole("code", given.code_bytes >> 10, most=mib) << 10,
        compilation_seconds=limits.number("compilation_time", given.compilation_seconds, least=0, strict=True, most=_DAY),
        compilation_memory_bytes=limits.whole("compilation_memory", given.compilation_memory_bytes // _MIB, most=mib) * _MIB,
        validation_seconds=limits.number("validation_time", given.validation_seconds, least=0, strict=True, most=_DAY),
        validation_memory_bytes=limits.whole("validation_memory", given.validation_memory_bytes // _MIB, most=mib) * _MIB,
        validation_output_bytes=limits.whole("validation_output", given.validation_output_bytes // _MIB, most=mib) * _MIB,
        passes=limits.whole("validation_passes", given.passes, least=2, most=10_000),
        time_multiplier=time_multiplier,
        time_safety_margin=time_safety_margin,
        time_resolution_seconds=time_resolution,
    )
    limits.done()
    if read.cpu_seconds is not None and limits.has("time_resolution"):
        parts = read.cpu_seconds / read.time_resolution_seconds
        if abs(parts - round(parts)) > 1e-9 * max(1.0, parts):
            limits.refuse("time_limit", "it is not a multiple of time_resolution", "change one of them")
    return read


def _constants(fields: Fields) -> dict[bytes, bytes]:
    """`{name: bytes}` with `name` and `name.value` for a scalar, `name.variant` for each variant of a mapping."""
    constants: dict[bytes, bytes] = {}
    for name in fields.values:
        if not _CONSTANT.match(name):
            fields.refuse(name, "the name of a constant has letters, digits and underscores", "give it another name")
        value = fields.get(name)
        variants = value if isinstance(value, dict) else {"value": value}
        for variant, written in variants.items():
            if not isinstance(written, str) or "value" not in variants:
                raise ProblemError(
                    "a constant is a text or a number, or a mapping of such with the key `value`",
                    file=fields.file,
                    field=f"constants.{name}",
                    value=value,
                    remedy="write the value there",
                )
            constants[f"{name}.{variant}".encode()] = written.encode()
        constants[name.encode()] = constants[f"{name}.value".encode()]
    return constants
