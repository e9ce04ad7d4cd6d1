"""Problems made of a few words, for the tests of the judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from judged import submission

from sandbox_native.judge.judging import judge
from sandbox_native.judge.outcomes import Judgement
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import (
    Case,
    Checker,
    CheckerKind,
    Group,
    Problem,
    ProblemLimits,
    ProgramSource,
    SourceFile,
    Submission,
)

MIB = 1 << 20
ONE = {"1": (b"", b"")}


def problem(
    cases: Mapping[str, tuple[bytes, bytes]] | None = None,
    *,
    validator: str | None = None,
    cpu_seconds: float = 5.0,
    **given: Any,
) -> Problem:
    """`cases`: name -> (input, answer). `validator`: a Python program. Fields of ProblemLimits go to the limits."""
    limits = {name: given.pop(name) for name in list(given) if name in ProblemLimits.__dataclass_fields__}
    checker = given.pop("checker", Checker())
    if validator is not None:
        files = (SourceFile(name="validate.py", content=validator.encode()),)
        checker = Checker(kind=CheckerKind.PROGRAM, program=ProgramSource(name="validate.py", files=files))
    items = tuple(Case(name=name, input=given_, answer=answer) for name, (given_, answer) in (cases or ONE).items())
    return Problem(
        name="test",
        data=Group(items=items),
        limits=ProblemLimits(cpu_seconds=cpu_seconds, **limits),
        checker=checker,
        **given,
    )


def bash(text: str) -> Submission:
    return submission({"main.sh": text})


def python(text: str) -> Submission:
    return submission({"main.py": text})


def verdict(store: Store, source: Submission, of: Problem, **options: Any) -> Judgement:
    """Judged with options as given."""
    return judge(source, of, Options(store=store, **options))
