"""The verdicts of a judge, and how other judges spell them. Pure; imported by every other module of the judge.

There is one table, `_ROWS`: what is written for each system, and what is read besides. `spell` writes, `read_verdict` reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from sandbox_native.errors import PolicyError


class Verdict(StrEnum):
    """What became of a submission, or of one of its cases; equal to its value, a str.

    A partial score is no verdict of its own: it is AC with a score below the maximum (`Judgement.partial`).
    """

    AC = "AC"
    """Accepted."""
    WA = "WA"
    """Wrong answer: it ended well, and the checker did not accept what it wrote."""
    TLE = "TLE"
    """Time limit: of CPU time or of the wall clock; `CaseResult.limit` says which."""
    MLE = "MLE"
    """Memory limit."""
    OLE = "OLE"
    """Output limit."""
    RTE = "RTE"
    """Run-time error: an exit code other than 0, or a signal."""
    FS = "FS"
    """A forbidden system call ended it."""
    CE = "CE"
    """It did not compile; `CompileResult.failure` says whether for an error, for time or for memory."""
    JE = "JE"
    """Judge error: a validator crashed, a grader gave nonsense, a package is bad. Says nothing of the submission."""


class System(StrEnum):
    """A judging system whose spellings are known."""

    DOMJUDGE = "domjudge"
    KATTIS = "kattis"
    DMOJ = "dmoj"
    CODEFORCES = "codeforces"


@dataclass(frozen=True, kw_only=True, slots=True)
class _Row:
    domjudge: str
    kattis: str
    dmoj: str
    codeforces: str
    read: tuple[str, ...] = ()  # spellings that are understood as well, of any system


# DOMjudge: etc/verdicts.php and its names for @EXPECTED_RESULTS@. Kattis: the problem package format's names of submission
# directories and grader codes. DMOJ: its status codes. Codeforces: the verdicts of its API's Submission object. A system
# that has no such verdict gets what its users would see.
_ROWS: Final[Mapping[Verdict, _Row]] = MappingProxyType(
    {
        Verdict.AC: _Row(
            domjudge="correct", kattis="Accepted", dmoj="AC", codeforces="OK", read=("partially accepted", "PAC", "partial")
        ),
        Verdict.WA: _Row(
            domjudge="wrong-answer",
            kattis="Wrong Answer",
            dmoj="WA",
            codeforces="WRONG_ANSWER",
            read=("no-output", "NO", "presentation error", "PE"),
        ),
        Verdict.TLE: _Row(
            domjudge="timelimit",
            kattis="Time Limit Exceeded",
            dmoj="TLE",
            codeforces="TIME_LIMIT_EXCEEDED",
            read=("idleness limit exceeded", "time limit"),
        ),
        Verdict.MLE: _Row(
            domjudge="memory-limit", kattis="Memory Limit Exceeded", dmoj="MLE", codeforces="MEMORY_LIMIT_EXCEEDED"
        ),
        Verdict.OLE: _Row(
            domjudge="output-limit",
            kattis="Output Limit Exceeded",
            dmoj="OLE",
            codeforces="RUNTIME_ERROR",
            read=("output limit",),
        ),
        Verdict.RTE: _Row(
            domjudge="run-error",
            kattis="Run Time Error",
            dmoj="RTE",
            codeforces="RUNTIME_ERROR",
            read=("runtime error", "IR", "invalid return"),
        ),
        Verdict.FS: _Row(
            domjudge="run-error",
            kattis="Run Time Error",
            dmoj="RTE",
            codeforces="SECURITY_VIOLATED",
            read=("forbidden system call", "restricted function", "RF"),
        ),
        Verdict.CE: _Row(
            domjudge="compiler-error",
            kattis="Compile Error",
            dmoj="CE",
            codeforces="COMPILATION_ERROR",
            read=("compilation error",),
        ),
        Verdict.JE: _Row(
            domjudge="judging-error",
            kattis="Judge Error",
            dmoj="IE",
            codeforces="FAILED",
            read=("internal error", "import-error", "aborted", "crashed", "IF"),
        ),
    }
)
_PARTIAL: Final = _Row(domjudge="correct", kattis="Partially Accepted", dmoj="AC", codeforces="PARTIAL")


def spell(verdict: Verdict, system: System, *, partial: bool = False) -> str:
    """How `system` writes the verdict; `partial` says that it is AC with a score below the maximum.

    Where a system has no verdict of its own for it, the one that it shows instead (FS is `run-error` for DOMjudge).
    """
    row = _PARTIAL if partial and verdict is Verdict.AC else _ROWS[verdict]
    return {
        System.DOMJUDGE: row.domjudge,
        System.KATTIS: row.kattis,
        System.DMOJ: row.dmoj,
        System.CODEFORCES: row.codeforces,
    }[system]


def _key(spelling: str) -> str:
    return "".join(character for character in spelling.casefold() if character not in " -_\t\r\n")


def _readings() -> dict[str, Verdict]:
    """What is read as what: our names and the table's `read` first, then what systems write; RTE's before those that share it."""
    known: dict[str, Verdict] = {_key(verdict): verdict for verdict in Verdict}
    for verdict, row in _ROWS.items():
        known.update({_key(spelling): verdict for spelling in row.read})
    for verdict in sorted(_ROWS, key=lambda verdict: verdict is not Verdict.RTE):
        row = _ROWS[verdict]
        for spelling in (row.domjudge, row.kattis, row.dmoj, row.codeforces):
            known.setdefault(_key(spelling), verdict)
    return known


_READINGS: Final[Mapping[str, Verdict]] = MappingProxyType(_readings())


def read_verdict(spelling: str) -> Verdict:
    """The verdict that any of the systems means by `spelling`; case, spaces, dashes and underscores do not matter.

    A spelling that stands for several (`run-error`) is read as RTE. PolicyError when nobody spells a verdict so.
    """
    verdict = _READINGS.get(_key(spelling))
    if verdict is None:
        raise PolicyError(
            "no judging system spells a verdict so",
            field="verdict",
            value=spelling,
            remedy=f"give one of {', '.join(Verdict)}, or a name of DOMjudge, Kattis, DMOJ or Codeforces",
        )
    return verdict
