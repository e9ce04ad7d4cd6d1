"""A problem made ready to judge by: its checker, its own programs compiled, and the way in which its cases are run. Host process.

One for a problem, shared by all its submissions and by the threads that judge them (judging.py, workers.py).
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from sandbox_native.errors import PolicyError, SandboxError, UnsupportedError
from sandbox_native.judge.attempt import Terms
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.casework import Casework, Judged
from sandbox_native.judge.helpers import Helper, helper
from sandbox_native.judge.interactive import Interaction
from sandbox_native.judge.languages import Languages, builtin
from sandbox_native.judge.multipass import Passes, PlainPass, Run
from sandbox_native.judge.opinions import Check, Compared
from sandbox_native.judge.shown import Shown
from sandbox_native.judge.store import Store
from sandbox_native.judge.validators import Validator
from sandbox_native.judge.values import CheckerKind, Problem

_MOST_CPU_SECONDS: Final = 43_200  # the wall limit is twice that, and at most a day


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to judge; see `judge`."""

    cpu_seconds: float | None = None
    languages: Languages = field(default_factory=builtin)
    store: Store | None = None
    parallel: int = 1
    rerun_near: float = 0.1
    run_all: bool | None = None

    def __post_init__(self) -> None:
        if self.cpu_seconds is not None and not (_is_number(self.cpu_seconds) and 0 < self.cpu_seconds <= _MOST_CPU_SECONDS):
            remedy = f"give more than 0 and at most {_MOST_CPU_SECONDS} seconds, or None for the problem's own limit"
            raise PolicyError("not a time", field="cpu_seconds", value=self.cpu_seconds, remedy=remedy)
        if isinstance(self.parallel, bool) or not isinstance(self.parallel, int) or not 1 <= self.parallel <= 256:
            raise PolicyError("not a number of runs", field="parallel", value=self.parallel, remedy="give 1 to 256")
        if not _is_number(self.rerun_near) or not 0 <= self.rerun_near <= 1:
            raise PolicyError("not a share", field="rerun_near", value=self.rerun_near, remedy="give 0 (never) to 1")
        if self.run_all is not None and not isinstance(self.run_all, bool):
            raise PolicyError("neither yes nor no", field="run_all", value=self.run_all, remedy="give True, False or None")
        if not isinstance(self.languages, Languages):
            raise PolicyError("no Languages", field="languages", value=self.languages, remedy="give Languages or leave it out")
        if self.store is not None and not isinstance(self.store, Store):
            raise PolicyError(
                "no Store", field="store", value=self.store, remedy="give Store(directory), or None for the user's own"
            )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Setup:
    """A context manager. What is compiled is compiled when it is first needed."""

    def __init__(self, problem: Problem, options: Options, boxes: Boxes) -> None:
        self.problem, self._options, self.boxes = problem, options, boxes
        self._lock = threading.Lock()
        self._shown: Shown | None = None
        self._validator: Validator | None = None
        self._grader: Helper | None = None

    @property
    def hidden(self) -> tuple[str, ...]:
        """What no box shows: the problem's directory."""
        return () if self.problem.root is None else (os.fspath(self.problem.root),)

    def way(self, terms: Terms) -> Judged:
        """How the cases of this problem are judged for one program. SandboxError: the problem's own program does not compile."""
        problem, near = self.problem, self._options.rerun_near
        sandbox = self.boxes.of(terms.program.policy(hidden=terms.program.language.to_hide(self.hidden)))
        if problem.interactive or problem.multi_pass:
            validator = self._own_validator()
            run: Run = PlainPass(sandbox, terms, validator)
            if problem.interactive:
                interaction = Interaction(sandbox, terms, validator, rerun_near=near)
                run = interaction.play
                if not problem.multi_pass:
                    return interaction.judge
            return Passes(run, terms, problem.limits.passes, rerun_near=near).judge
        return Casework(sandbox, terms, self.check(), rerun_near=near)

    def check(self) -> Check:
        """What checks an output. SandboxError: the problem's own validator does not compile."""
        checker = self.problem.checker
        return self._own_validator() if checker.kind is CheckerKind.PROGRAM else Compared(checker)

    def _own_validator(self) -> Validator:
        checker = self.problem.checker
        with self._lock:
            if self._validator is None:
                if checker.program is None:
                    raise SandboxError("the problem's checker is a program, and there is none")
                self._shown = self._shown or Shown(self.problem.root)
                program = helper(
                    "the output validator",
                    checker.program,
                    self.problem.limits,
                    self.boxes,
                    self._options.languages,
                    self._options.store,
                    self._shown.readable,
                )
                self._validator = Validator(program, self._shown, checker.flags)
            return self._validator

    def run_grader(self, flags: tuple[str, ...], data: bytes) -> bytes | str:
        """What the package's own grader says to that input, or why it says nothing."""
        try:
            grader = self._own_grader()
            result = grader.sandbox.run(grader.argv(flags), stdin=data, limits=grader.limits, env=grader.program.env)
        except UnsupportedError:
            raise
        except SandboxError as error:
            return str(error)
        return result.stdout if result.ok else grader.fault(result)

    def _own_grader(self) -> Helper:
        with self._lock:
            if self._grader is None:
                source = self.problem.grader
                if source is None:
                    raise SandboxError("the problem wants a grader of its own, and there is none")
                languages, store = self._options.languages, self._options.store
                self._grader = helper("the grader", source, self.problem.limits, self.boxes, languages, store)
            return self._grader

    def close(self) -> None:
        """Harmless when repeated."""
        with self._lock:
            shown, self._shown, self._validator = self._shown, None, None
        if shown is not None:
            shown.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
