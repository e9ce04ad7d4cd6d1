"""One case of an interactive problem: the submission and the validator, each in a box of its own, joined by pipes. Host process.

Called by judging.py through setup.py, and by multipass.py. Each side has its own limits: the submission those of the problem, its
wall clock running only while the validator waits for it; the validator those of validation, and the submission's wall time on
top.

What counts is who ended first. A validator that rejects has the last word, whatever the submission does afterwards; a
submission that crashed or passed a limit by itself has done so, whatever the validator makes of the end of its input. A
validator that fails is a judge error only when the submission was there with both of its ends: one that left, by closing an end
or by ending, is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sandbox_native.judge.attempt import End, Terms
from sandbox_native.judge.casework import case_result
from sandbox_native.judge.looks import Wait
from sandbox_native.judge.match import Match, Played, Said
from sandbox_native.judge.multipass import Pass
from sandbox_native.judge.opinions import ACCEPTED, Opinion
from sandbox_native.judge.reruns import measured
from sandbox_native.judge.validators import ACCEPT, ALL, REJECT, Arguments, Validator
from sandbox_native.judge.values import Case, CaseResult, Source
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.pipe_end import PipeEnd
from sandbox_native.process import Process
from sandbox_native.result import Result, Status
from sandbox_native.sandbox import Sandbox

_GRACE_SECONDS: Final = 5.0  # of a box's own clock, beyond what is counted here
_DOES: Final = {Wait.POLLING: "to read or write", Wait.READING: "to read", Wait.WRITING: "to write"}


class Interaction:
    """Judges cases of one submission. Safe in threads."""

    def __init__(self, sandbox: Sandbox, terms: Terms, validator: Validator, *, rerun_near: float = 0.0) -> None:
        self._sandbox, self._validator, self._near = sandbox, validator, rerun_near
        validation = validator.helper.limits
        self._wall = terms.limits.wall_seconds
        self._terms = replace(
            terms, limits=replace(terms.limits, wall_seconds=self._wall + validation.wall_seconds + _GRACE_SECONDS)
        )
        self._limits = replace(validation, wall_seconds=self._wall + validation.wall_seconds + _GRACE_SECONDS)

    def judge(self, case: Case) -> CaseResult:
        """Errors of ours are raised: `SandboxError`, OSError."""

        def once() -> CaseResult:
            one = self.play(case, b"", None)
            return case_result(case, one.result, one.end, one.opinion, captured=False)

        return measured(once, self._terms.cpu_seconds, self._near)

    def play(self, case: Case, given: Source, feedback: Mapping[str, bytes] | None) -> Pass:
        """One pass; `feedback` as of `Validator.validate`. What the validator left in nextpass.in (`given`) nobody reads: it
        talks to the submission itself."""
        helper = self._validator.helper
        with Arguments(self._validator.shown, case.input, case.answer) as places:

            def validator(stdin: PipeEnd, stdout: PipeEnd) -> Process:
                return helper.sandbox.spawn(
                    self._validator.argv(case, places),
                    stdin=stdin,
                    stdout=stdout,
                    limits=self._limits,
                    env=helper.program.env,
                    files=feedback,
                    collect=ALL,
                )

            def submission(stdin: PipeEnd, stdout: PipeEnd) -> Process:
                return self._sandbox.spawn(
                    self._terms.argv(case),
                    stdin=stdin,
                    stdout=stdout,
                    limits=self._terms.limits,
                    env=self._terms.program.env,
                    files=self._terms.placed(case),
                )

            played = Match(validator, submission, self._wall, _said_by).play()
        end, found = self._judged(played)
        return Pass(result=played.submission, end=end, opinion=found, feedback=played.validator.files, captured=False)

    def _judged(self, played: Played) -> tuple[End, Opinion]:
        own = self._terms.end(played.submission)
        opinion = self._validator.opinion(played.validator)
        if own.limit == "cpu":  # passed, whoever ended the run
            return own, opinion
        if played.deadlock:
            return End(verdict=Verdict.TLE, limit="deadlock"), replace(_said(opinion), message=_waiting(played))
        if played.validator_first and (opinion.verdict is not Verdict.AC or own.verdict is None):
            return End(verdict=None), opinion
        if played.too_long:
            words = _waiting(played) if played.waited is not None else ""
            return End(verdict=Verdict.TLE, limit="wall"), replace(_said(opinion), message=words or opinion.message)
        if played.left and (own.verdict is None or played.submission.status is Status.CANCELLED):
            words = f"the submission ended in the middle of the conversation; {opinion.message}"
            return End(verdict=None), Opinion(verdict=Verdict.WA, message=words, team_message=opinion.team_message)
        if played.submission.status is Status.CANCELLED:  # the host ended it, for no reason that is known here
            return End(verdict=Verdict.JE), replace(opinion, message="the run was ended from outside")
        if own.verdict is not None:
            return own, _said(opinion)
        return own, opinion


def _said_by(result: Result) -> Said:
    if result.exit_code == ACCEPT:
        return Said.ACCEPTED
    if result.exit_code == REJECT or result.status is Status.CANCELLED:  # from outside, as the submission is
        return Said.REJECTED
    return Said.NOTHING


def _said(opinion: Opinion) -> Opinion:
    """What the validator said, where its verdict does not count."""
    return opinion if opinion.verdict is not Verdict.JE else ACCEPTED


def _waiting(played: Played) -> str:
    assert played.waited is not None
    mine, other = (_DOES[wait] for wait in played.waited)
    return f"deadlock: the submission waits {mine}, and the validator waits {other}"
