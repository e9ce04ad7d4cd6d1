"""Verdicts are spelled as each judging system spells them, and read back."""

from __future__ import annotations

import pytest

from sandbox_native.errors import PolicyError
from sandbox_native.judge.verdicts import System, Verdict, read_verdict, spell

# One spelling stands for several verdicts where the system has no name of its own; the plainest is read.
SHARED = {(Verdict.FS, System.DOMJUDGE), (Verdict.FS, System.KATTIS), (Verdict.FS, System.DMOJ), (Verdict.OLE, System.CODEFORCES)}
SPELLINGS = {
    "CORRECT": Verdict.AC,
    "WRONG-ANSWER": Verdict.WA,
    "TIMELIMIT": Verdict.TLE,
    "RUN-ERROR": Verdict.RTE,
    "COMPILER-ERROR": Verdict.CE,
    "NO-OUTPUT": Verdict.WA,
    "OUTPUT-LIMIT": Verdict.OLE,
    "MEMORY-LIMIT": Verdict.MLE,
    "accepted": Verdict.AC,
    "time_limit_exceeded": Verdict.TLE,
    "run_time_error": Verdict.RTE,
    "compiler_error": Verdict.CE,
    "Partially Accepted": Verdict.AC,
    "IDLENESS_LIMIT_EXCEEDED": Verdict.TLE,
    "SECURITY_VIOLATED": Verdict.FS,
    "IE": Verdict.JE,
    " tle ": Verdict.TLE,
}


def test_what_a_system_writes_is_read_as_the_same_verdict() -> None:
    for system in System:
        for verdict in Verdict:
            read = read_verdict(spell(verdict, system))
            assert read is (Verdict.RTE if (verdict, system) in SHARED else verdict), (system, verdict)


def test_spellings_of_packages_and_judges_are_read() -> None:
    assert {spelling: read_verdict(spelling) for spelling in SPELLINGS} == SPELLINGS


def test_a_partial_score_is_spelled_where_there_is_a_word_for_it() -> None:
    assert spell(Verdict.AC, System.KATTIS, partial=True) == "Partially Accepted"
    assert spell(Verdict.AC, System.CODEFORCES, partial=True) == "PARTIAL"
    assert spell(Verdict.AC, System.DOMJUDGE, partial=True) == "correct"
    assert spell(Verdict.WA, System.CODEFORCES, partial=True) == "WRONG_ANSWER"


@pytest.mark.parametrize("spelling", ["", "PERHAPS", "AC?", "A" * 10_000])
def test_a_spelling_of_nobody_is_refused(spelling: str) -> None:
    with pytest.raises(PolicyError) as error:
        read_verdict(spelling)
    assert error.value.field == "verdict" and error.value.remedy
