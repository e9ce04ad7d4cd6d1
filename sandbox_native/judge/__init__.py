"""Grading of programs: problems, submissions, verdicts.

`judge` grades one submission; `Judge` many, over several workers. Everything that they take and give is a frozen value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_native.lazy import loader

if TYPE_CHECKING:
    from sandbox_native.judge.boxes import Boxes
    from sandbox_native.judge.extract import extract_program
    from sandbox_native.judge.functions import FunctionJudge, FunctionJudgement, FunctionTask, judge_function
    from sandbox_native.judge.handed_in import SourceError, source_at
    from sandbox_native.judge.judging import judge
    from sandbox_native.judge.language import Language
    from sandbox_native.judge.languages import Languages
    from sandbox_native.judge.outcomes import CaseResult, Judgement
    from sandbox_native.judge.problems import ProblemError, load_problem, problem_of_cases
    from sandbox_native.judge.rewards import RewardFunction
    from sandbox_native.judge.setup import Options
    from sandbox_native.judge.store import Store
    from sandbox_native.judge.timing import inferred_limit, with_time_limit
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
    from sandbox_native.judge.verdicts import System, Verdict
    from sandbox_native.judge.workers import Judge, Judged

# Loaded at their first use, so that reading values and verdicts needs no native part.
_PLACES = {
    "judge": "judging",
    "SourceError": "handed_in",
    "source_at": "handed_in",
    "extract_program": "extract",
    "judge_function": "functions",
    "FunctionJudge": "functions",
    "FunctionJudgement": "functions",
    "FunctionTask": "functions",
    "RewardFunction": "rewards",
    "Judge": "workers",
    "Judged": "workers",
    "inferred_limit": "timing",
    "with_time_limit": "timing",
    "Options": "setup",
    "Store": "store",
    "Boxes": "boxes",
    "Language": "language",
    "Languages": "languages",
    "ProblemError": "problems",
    "load_problem": "problems",
    "problem_of_cases": "problems",
    "Case": "values",
    "Checker": "values",
    "CheckerKind": "values",
    "Group": "values",
    "Problem": "values",
    "ProblemLimits": "values",
    "ProgramSource": "values",
    "SourceFile": "values",
    "Submission": "values",
    "CaseResult": "outcomes",
    "Judgement": "outcomes",
    "System": "verdicts",
    "Verdict": "verdicts",
}

__all__ = [
    "Boxes",
    "Case",
    "CaseResult",
    "Checker",
    "CheckerKind",
    "FunctionJudge",
    "FunctionJudgement",
    "FunctionTask",
    "Group",
    "Judge",
    "Judged",
    "Judgement",
    "Language",
    "Languages",
    "Options",
    "Problem",
    "ProblemError",
    "ProblemLimits",
    "ProgramSource",
    "RewardFunction",
    "SourceError",
    "SourceFile",
    "Store",
    "Submission",
    "System",
    "Verdict",
    "extract_program",
    "inferred_limit",
    "judge",
    "judge_function",
    "load_problem",
    "problem_of_cases",
    "source_at",
    "with_time_limit",
]

__getattr__ = loader(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted(__all__)
