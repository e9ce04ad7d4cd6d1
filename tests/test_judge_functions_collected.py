"""What is run of a test snippet, and that a snippet which checks nothing does not pass: verdicts, and whose fault they are."""

from __future__ import annotations

import pytest
from running import PYTHON

from sandbox_native import Limits
from sandbox_native.judge.functions import FunctionJudge, FunctionJudgement, FunctionTask
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

LIMITS = Limits(wall_seconds=20, cpu_seconds=10, memory_bytes=256 << 20, processes=16)
RIGHT = """
LIMIT = 3
Alias = ValueError
class Odd(KeyError):
    pass
def f(x):
    if x < 0:
        raise Odd('below')
    if x == 9:
        raise Alias('nine')
    return x + 1
def sum(x):
    return x
"""
WRONG = RIGHT.replace("x + 1", "0").replace("3", "4", 1)
CASE = "import unittest\nclass Case(unittest.TestCase):\n    "
# Tests that pass RIGHT and fail WRONG.
RUN = {
    "a_class_of_pytest": "class TestF:\n    def setup_method(self):\n        self.x = 1\n"
    "    def test_f(self):\n        assert f(self.x) == 2",
    "a_static_method": "class TestF:\n    @staticmethod\n    def test_f():\n        assert f(1) == 2",
    "a_coroutine": "async def test_f():\n    assert f(1) == 2",
    "a_coroutine_in_a_case": CASE + "async def test_f(self):\n        self.assertEqual(f(1), 2)",
    "an_async_case": "import unittest\nclass Case(unittest.IsolatedAsyncioTestCase):\n"
    "    async def test_f(self):\n        self.assertEqual(f(1), 2)",
    "a_partial": "import functools\ndef same(x, want):\n    assert f(x) == want\ntest_f = functools.partial(same, 1, 2)",
    "a_patched_function": "from unittest import mock\n@mock.patch('time.time')\ndef test_f(time):\n    assert f(1) == 2",
    "a_function_with_arguments_that_is_called": "def test_f(x, want):\n    assert f(x) == want\ntest_f(1, 2)",
    "a_case_that_others_derive_from": "import unittest\nclass Base(unittest.TestCase):\n    x = 1\n"
    "class Case(Base):\n    def test_f(self):\n        self.assertEqual(f(self.x), 2)",
    "a_case_of_the_setup_that_is_not_used": "assert f(1) == 2 and HELPERS",
    "a_function_of_the_program_wrapped_by_its_name": "def timed(g):\n    return lambda x: g(x)\nf = timed(f)\nassert f(1) == 2",
    "a_plain_global": "assert LIMIT == 3",
    "a_plain_global_of_the_module": "import solution\nassert solution.LIMIT == 3",
    "an_expression_with_import_star": "from solution import *\nassert eval('f(1)') == 2",
    "a_name_looked_up": "assert 'f' in globals() and globals()['f'](1) == 2 and f",
    "an_attribute_looked_up": "import solution\nassert getattr(solution, 'f')(1) == 2",
    "a_builtin_name_imported_from_the_module": "from solution import sum, f\nassert sum(f(1)) == 2",
    "an_exception_under_another_name": "try:\n    f(9)\nexcept Alias as error:\n    assert str(error) == 'nine'\n"
    "assert f(1) == 2",
    "exceptions_asserted": CASE + "def test_f(self):\n        self.assertRaises(Odd, f, -1)\n"
    "        with self.assertRaises(KeyError):\n            f(-1)\n        self.assertEqual(f(1), 2)",
    "exceptions_in_a_loop": "def first(x):\n    while True:\n        try:\n            return f(x)\n        except Odd:\n"
    "            x += 1\nassert first(-3) == 1",
    "exceptions_gathered": "import asyncio\nasync def one(x):\n    return f(x)\nasync def test_f():\n"
    "    found = await asyncio.gather(one(-1), one(1), return_exceptions=True)\n"
    "    assert isinstance(found[0], Odd) and found[1] == 2",
}
SETUP = "import unittest\nHELPERS = True\nclass Unused(unittest.TestCase):\n    pass\ndef check(candidate):\n    pass\n"
# Tests that are broken, whatever the program: what the message says.
BROKEN = {
    "check_is_not_called": ("def check(candidate):\n    assert candidate(1) == 2", "check() takes arguments (candidate)"),
    "a_main_that_is_not_run": (
        "def run():\n    assert f(1) == 2\nif __name__ == '__main__':\n    run()",
        "never called the program",
    ),
    "a_doctest": ("'''\n>>> f(1)\n2\n'''", "never called the program"),
    "nothing": ("pass", "never called the program"),
    "a_function_with_arguments": ("def test_f(x, want):\n    assert f(x) == want", "test_f() takes arguments (x, want)"),
    "a_generator": ("def test_f():\n    yield\n    assert f(1) == 2", "test_f() is a generator"),
    "a_method_with_arguments": ("class TestF:\n    def test_f(self, capsys):\n        assert f(1) == 2", "arguments (capsys)"),
    "a_class_with_init": (
        "class TestF:\n    def __init__(self):\n        pass\n    def test_f(self):\n        assert f(1) == 2",
        "class TestF has an __init__()",
    ),
    "a_case_without_tests": (CASE + "def check_f(self):\n        self.assertEqual(f(1), 2)", "class Case has no method test"),
    "a_case_in_a_function": (
        "def suite():\n    class TestF:\n        def test_f(self):\n            assert f(1) == 2",
        "never called",
    ),
    "one_that_is_skipped": (
        CASE + "@unittest.skip('later')\n    def test_f(self):\n        self.assertEqual(f(1), 2)",
        "Case.test_f() is skipped (later)",
    ),
    "one_of_two_that_is_skipped": (
        CASE + "@unittest.skip('later')\n    def test_f(self):\n        pass\n"
        "    def test_g(self):\n        self.assertEqual(f(1), 2)",
        "Case.test_f() is skipped (later)",
    ),
    "nested_too_deep": ("assert f(" + "(" * 300 + "1" + ")" * 300 + ") == 2", "does not compile"),
    "too_large_an_argument": ("f('x' * (9 << 20))", "an argument of f() does not cross: more than"),
    "a_function_as_an_argument": ("f(1)\nf([lambda: 1])", "an argument of f() does not cross: a value of type 'function'"),
}


@pytest.fixture(scope="module")
def judgements() -> dict[tuple[str, str], FunctionJudgement]:
    texts = {**RUN, **{name: text for name, (text, _) in BROKEN.items()}}
    keys = [(name, program) for name in texts for program in (RIGHT, WRONG)]
    tasks = [FunctionTask.of(program, texts[name], setup=SETUP, module="solution") for name, program in keys]
    with FunctionJudge(LIMITS, python=PYTHON) as judge:
        return dict(zip(keys, judge.judge_many(tasks), strict=True))


@pytest.mark.parametrize("name", RUN)
def test_what_can_be_run_is(judgements: dict[tuple[str, str], FunctionJudgement], name: str) -> None:
    right, wrong = judgements[name, RIGHT], judgements[name, WRONG]
    assert (right.verdict, wrong.verdict) == (Verdict.AC, Verdict.WA), (right, wrong)


@pytest.mark.parametrize("name", BROKEN)
def test_a_test_that_checks_nothing_is_broken_and_says_why(
    judgements: dict[tuple[str, str], FunctionJudgement], name: str
) -> None:
    for program in (RIGHT, WRONG):
        judgement = judgements[name, program]
        assert judgement.verdict is Verdict.JE, judgement
        assert BROKEN[name][1] in judgement.message


def test_in_one_process_too_a_test_that_checks_nothing_does_not_pass() -> None:
    texts = [BROKEN[name][0] for name in ("check_is_not_called", "a_main_that_is_not_run", "a_generator")]
    with FunctionJudge(LIMITS, python=PYTHON, same_process=True) as judge:
        found = judge.judge(RIGHT, [*texts, RUN["a_plain_global"], RUN["a_coroutine"]], module="solution")
    assert [outcome.verdict for outcome in found.tests] == [Verdict.JE] * 3 + [Verdict.AC] * 2


def test_a_test_that_does_not_end_is_not_told_as_a_program_that_waits() -> None:
    limits = Limits(wall_seconds=0.2)
    with FunctionJudge(limits, python=PYTHON) as judge:
        found = judge.judge(RIGHT, "f(1)\nwhile True:\n    pass")
    assert (found.verdict, found.status) == (Verdict.TLE, "wall_limit")
    assert "the test itself was ended (wall_limit)" in found.message
