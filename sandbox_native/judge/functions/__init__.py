"""Function-style grading: tests that call functions of a program, as of HumanEval, MBPP and unit tests.

judge_function(code, tests) -> FunctionJudgement            api.py, over FunctionJudge, which keeps what is warm
  grading.py     many gradings at once, in one thread
  pair.py        one of them: two boxes joined by pipes, and what came of it
  boxes.py       where the boxes come from: clones of two warm interpreters
  inside/        what runs in the boxes
"""

from sandbox_native.judge.functions.api import FunctionJudge, judge_function
from sandbox_native.judge.functions.values import FunctionJudgement, FunctionTask, TestOutcome

__all__ = ["FunctionJudge", "FunctionJudgement", "FunctionTask", "TestOutcome", "judge_function"]
