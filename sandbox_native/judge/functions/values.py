"""What function-style grading takes and gives, as values. Frozen, keyword-only, picklable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sandbox_native.errors import PolicyError
from sandbox_native.judge.as_json import plain
from sandbox_native.judge.verdicts import Verdict

_MOST_TESTS: Final = 10_000


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionTask:
    """A program and the tests that are to judge it.

    - `code`: the program, Python. It is loaded as a module of the name `program`, so what it keeps for
      `__name__ == "__main__"` does not run.
    - `tests`: Python snippets, each a test of its own with globals of its own. One passes when it ends without an exception,
      and so do what it defines: functions `test…`, classes `Test…` with methods `test…` (and setup_method and kin) and
      unittest.TestCase classes, coroutines among them; fixtures and parameters of pytest are not known.
    - `setup`: what comes before each test.
    - `names`: functions of the program that have the names of Python's own (`sum`), which would be taken otherwise.
    - `module`: the name that tests import the program by (`from solution import f`), if they do.

    Functions of the program are called by their names. Names that a test or its setup sets anywhere, and Python's,
    are never the program's, also with `import *`; `solve = timed(solve)` and `names` apart.

    What checks nothing does not pass. A test that never asked for the program, or has a function or class of tests that is
    neither run nor named again (one with arguments, a generator, a TestCase without methods, a `check()` that is not
    called), is a broken test (JE); doctests and what is kept for `__name__ == "__main__"` are not run. One that asked for
    names of the program and never called one nor read a plain global failed (WA). So did one that was skipped (WA; JE where
    the program had no say in it).

    What a test makes of an answer it makes with all that the examiner may do: one that hands answers to eval, exec or
    pickle runs the program's code where the outcomes are written, and can be made to pass.
    """

    code: str
    tests: tuple[str, ...]
    setup: str = ""
    names: tuple[str, ...] = ()
    module: str | None = None

    @classmethod
    def of(
        cls, code: str, tests: str | Sequence[str], *, setup: str = "", names: Iterable[str] = (), module: str | None = None
    ) -> FunctionTask:
        """Checked. PolicyError for what is no text, for no tests, and for names that are none."""
        snippets = (tests,) if isinstance(tests, str) else tuple(tests)
        wanted = (names,) if isinstance(names, str) else tuple(names)
        _check_text("code", code)
        _check_text("setup", setup)
        if not 0 < len(snippets) <= _MOST_TESTS:
            remedy = f"give 1 to {_MOST_TESTS:,} snippets of Python"
            raise PolicyError(f"{len(snippets)} of them", field="tests", value=snippets[:1], remedy=remedy)
        for at, snippet in enumerate(snippets):
            _check_text(f"tests[{at}]", snippet)
        for name in (*wanted, *(() if module is None else (module,))):
            if not isinstance(name, str) or not name.isidentifier():
                raise PolicyError("no name of Python", field="names or module", value=name, remedy="give an identifier")
        return cls(code=code, tests=snippets, setup=setup, names=wanted, module=module)


def _check_text(field: str, text: object) -> None:
    if not isinstance(text, str):
        raise PolicyError(f"not a str but {type(text).__name__}", field=field, value=text, remedy="give source text of Python")


@dataclass(frozen=True, kw_only=True, slots=True)
class TestOutcome:
    """How one test went: AC when it passed, and otherwise `message` says why.

    WA: an assertion failed, the test could not go on with an answer, or it checked nothing (see FunctionTask). RTE: the program
    raised something that the test did not expect, ended, or wrote what is no answer. TLE, MLE, OLE, FS: what ended the
    program, or the test at work on what it gave; the tests after it have the same verdict. CE: the program does not compile.
    JE: the test does not compile, would check no program, or calls the program with what it made itself and cannot be sent
    (see `judge_function`).
    """

    __test__ = False  # no test of pytest's

    verdict: Verdict
    message: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.verdict is Verdict.AC


@dataclass(frozen=True, kw_only=True, slots=True)
class FunctionJudgement:
    """What came of a program. `verdict` is AC when all tests passed, else that of the first that did not.

    `status` says how the program's box ended (`cancelled`: it was ended when all was said), the figures are those of that
    box, and `output` is the head of what the program printed. `gameable`: program and tests shared a process, so that a program
    that wants to can pass whatever it does.
    """

    verdict: Verdict
    tests: tuple[TestOutcome, ...]
    gameable: bool = False
    message: str = ""
    status: str = ""
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    peak_memory_bytes: int = 0
    killed_processes: int = 0
    output: bytes = b""
    output_bytes: int = 0

    @property
    def passed(self) -> int:
        """How many tests did."""
        return sum(outcome.passed for outcome in self.tests)

    @property
    def score(self) -> float:
        """The share of the tests that passed, 0.0 to 1.0."""
        return self.passed / len(self.tests) if self.tests else 0.0

    @property
    def accepted(self) -> bool:
        return self.verdict is Verdict.AC

    def to_dict(self) -> dict[str, Any]:
        """For `json.dumps`."""
        shown = plain(self)
        assert isinstance(shown, dict)
        return {**shown, "score": self.score}
