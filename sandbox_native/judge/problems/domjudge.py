"""What DOMjudge adds to the package format: `domjudge-problem.ini`, `.timelimit` and the tags in submissions.

Used by package.py and submissions.py. Source: DOMjudge's manual, "Problem format specification", and what its importer does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sandbox_native.errors import PolicyError
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.fields import float_of
from sandbox_native.judge.problems.tree import Tree
from sandbox_native.judge.verdicts import Verdict, read_verdict

INI: Final = "domjudge-problem.ini"
TIME_LIMIT: Final = ".timelimit"
_DAY: Final = 24 * 3600.0
_TAG: Final = re.compile(rb"@EXPECTED_(RESULTS|SCORE)@: ([^\n]*)", re.IGNORECASE)
_PAIR: Final = re.compile(r"\s*([A-Za-z_-]+)\s*=\s*(.*?)\s*\Z")
# A verdict that DOMjudge writes as run-error may be any of these here.
_CRASHES: Final = frozenset({Verdict.RTE, Verdict.FS, Verdict.MLE})


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """What the two files say; None and empty where they do not."""

    title: str = ""
    cpu_seconds: float | None = None
    time_file: str = ""


def read_settings(tree: Tree) -> Settings:
    """Title and time limit. ProblemError when a time limit is no number, or the files contradict each other."""
    title, limit, file = "", None, ""
    ini = tree.entry(INI)
    if ini is not None:
        for line in tree.text(ini).splitlines():
            pair = _PAIR.match(line)
            if pair and pair[1] == "name":
                title = pair[2].strip("'\"")
            if pair and pair[1] == "timelimit":
                limit, file = _seconds(pair[2].strip("'\""), INI), INI
    entry = tree.entry(TIME_LIMIT)
    if entry is not None:
        other = _seconds(tree.text(entry).strip(), TIME_LIMIT)
        if limit is not None and limit != other:
            raise ProblemError(
                f"{INI} has another time limit: {limit:g} s", file=TIME_LIMIT, field="timelimit", value=other, remedy="keep one"
            )
        limit, file = other, TIME_LIMIT
    return Settings(title=title, cpu_seconds=limit, time_file=file)


def _seconds(text: str, file: str) -> float:
    seconds = float_of(text)
    if seconds is None or not 0 < seconds <= _DAY:
        raise ProblemError(
            "a time limit is a number of seconds, more than 0", file=file, field="timelimit", value=text, remedy="write 2.5, say"
        )
    return seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Tag:
    """What a submission's own text says of it; `score` for `@EXPECTED_SCORE@` with a number."""

    verdicts: frozenset[Verdict] | None = None
    score: float | None = None


def read_tags(source: bytes, file: str, notes: list[str]) -> Tag | None:
    """The tags in a source file, None when there are none. A tag that stands there twice counts as none, as in DOMjudge.

    ProblemError for a verdict that nobody knows.
    """
    found = _TAG.findall(source)
    kinds = [kind.upper() for kind, _ in found]
    if len(set(kinds)) < len(kinds):
        notes.append(f"{file}: a tag @EXPECTED_…@ stands there more than once: ignored")
        return None
    verdicts: frozenset[Verdict] | None = None
    score: float | None = None
    for kind, written in found:
        text = written.decode("utf-8", "replace").strip().removesuffix("*/").removesuffix("-->").strip()
        number = float_of(text) if kind.upper() == b"SCORE" else None
        if number is not None:
            score = number
        else:
            verdicts = frozenset().union(*(_verdicts(word, file) for word in text.split(",")))
    return Tag(verdicts=verdicts, score=score) if found else None


def _verdicts(word: str, file: str) -> frozenset[Verdict]:
    try:
        verdict = read_verdict(word.strip())
    except PolicyError:
        raise ProblemError(
            "no judging system spells a verdict so",
            file=file,
            field="@EXPECTED_RESULTS@",
            value=word.strip(),
            remedy="write CORRECT, WRONG-ANSWER, TIMELIMIT, RUN-ERROR, MEMORY-LIMIT, OUTPUT-LIMIT, COMPILER-ERROR, with commas",
        ) from None
    return _CRASHES if verdict is Verdict.RTE else frozenset({verdict})
