"""A package's own output validator: a program in a box of its own, which says 42 or 43. Host process.

Made by setup.py; casework.py calls it when a run has ended well, and multipass.py after each pass. Source: the problem package
format, "Output Validators": `validator input answer feedback_dir [flags] < output`, exit code 42 for accepted and 43 for wrong;
any other end is a judge error. What it leaves in the feedback directory is read when it is over: judgemessage.txt,
teammessage.txt, score.txt, score_multiplier.txt, nextpass.in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sandbox_native.environment import WORKSPACE
from sandbox_native.judge.helpers import Helper, limit_of
from sandbox_native.judge.opinions import Opinion, Output
from sandbox_native.judge.shown import Shown
from sandbox_native.judge.values import Case, Source
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.result import Result

ACCEPT: Final = 42
REJECT: Final = 43
FEEDBACK: Final = f"{WORKSPACE}/"  # the private workspace, empty but for an earlier pass's feedback
NEXT_PASS: Final = "nextpass.in"
_MESSAGE_BYTES: Final = 4096
_READ: Final = ("judgemessage.txt", "teammessage.txt", "score.txt", "score_multiplier.txt")
ALL: Final = ("**", NEXT_PASS)  # which is to be refused by name when it is no file
_ABSENT: Final = "no such file"


@dataclass(frozen=True, kw_only=True, slots=True)
class Validation:
    """What a validator made of one output. `feedback`: all that it left, where somebody asked for it."""

    opinion: Opinion
    feedback: Mapping[str, bytes] = field(default_factory=dict)


class Validator:
    """Safe in threads."""

    def __init__(self, helper: Helper, shown: Shown, flags: tuple[str, ...]) -> None:
        self.helper, self.shown, self._flags = helper, shown, flags

    def __call__(self, case: Case, output: Output, /) -> Opinion:
        return self.validate(case, output, case.input).opinion

    def validate(self, case: Case, output: Output, given: Source, feedback: Mapping[str, bytes] | None = None) -> Validation:
        """`given`: the input of the run. `feedback`: what the earlier passes left ({}: nothing yet), when this is a pass of
        several."""
        if not isinstance(output, bytes):
            output.seek(0)
        keep = feedback is not None
        with Arguments(self.shown, given, case.answer) as places:
            result = self.helper.sandbox.run(
                self.argv(case, places),
                stdin=output,
                limits=self.helper.limits,
                env=self.helper.program.env,
                files=feedback,
                collect=ALL if keep else _READ,
            )
        return Validation(opinion=self.opinion(result), feedback=result.files if keep else {})

    def argv(self, case: Case, places: Arguments) -> tuple[str, ...]:
        return self.helper.argv((*places.paths, FEEDBACK, *self._flags, *case.checker_flags))

    def opinion(self, result: Result) -> Opinion:
        """Of a validator that has ended; its files are in the result."""
        said, team = _text(result.files, "judgemessage.txt"), _text(result.files, "teammessage.txt")
        code = result.exit_code
        if code not in (ACCEPT, REJECT):
            limit = limit_of(result)
            fault = self.helper.fault(result)
            return Opinion(
                verdict=Verdict.JE,
                message=f"{fault}\n{said}" if said else fault,
                limit=None if limit is None else f"validation {limit}",
            )
        refused = "; ".join(f"{name}: {_in_words(why)}" for name, why in result.files_refused.items() if why != _ABSENT)
        try:
            score, multiplier = _number(result.files, "score.txt"), _number(result.files, "score_multiplier.txt")
        except ValueError as error:
            return Opinion(verdict=Verdict.JE, message=str(error), team_message=team)
        if refused:
            return Opinion(verdict=Verdict.JE, message=f"feedback cannot be read: {refused}", team_message=team)
        return Opinion(
            verdict=Verdict.AC if code == ACCEPT else Verdict.WA,
            message=said,
            team_message=team,
            score=score,
            score_multiplier=multiplier,
        )


class Arguments:
    """Input and answer where the validator's box sees them, as long as the context lasts."""

    def __init__(self, shown: Shown, given: Source, answer: Source | None) -> None:
        self._shown, self._given, self._answer = shown, given, b"" if answer is None else answer
        self._made: list[str | None] = []
        self.paths: tuple[str, ...] = ()

    def __enter__(self) -> Arguments:
        for source in (self._given, self._answer):
            path, made = self._shown.path(source)
            self._made.append(made)
            self.paths += (path,)
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.forget(*self._made)


def _in_words(why: str) -> str:
    """With the limit by the name that it has in a package."""
    return why.replace("Limits.collect_bytes", "limits.validation_output")


def _text(files: Mapping[str, bytes], name: str) -> str:
    return files.get(name, b"")[:_MESSAGE_BYTES].decode("utf-8", "replace").strip()


def _number(files: Mapping[str, bytes], name: str) -> float | None:
    """ValueError for what is no finite number."""
    if name not in files:
        return None
    text = files[name][:_MESSAGE_BYTES].decode("utf-8", "replace").strip()
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"the output validator wrote {text[:80]!r} to {name}, and should write one number")
    return value
