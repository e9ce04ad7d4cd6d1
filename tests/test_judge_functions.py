"""Function-style grading: what tests see of a program, verdicts, what is not supported. Tricks: test_judge_functions_tricks.py"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import PYTHON, kill_all, processes_named

from sandbox_native import Limits, PolicyError, SetupError
from sandbox_native.judge.functions import FunctionJudge, FunctionJudgement, FunctionTask, api, judge_function
from sandbox_native.judge.functions.grading import graded
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

LIMITS = Limits(wall_seconds=20, cpu_seconds=10, memory_bytes=256 << 20, processes=16)
# name: program, test
PASSES = {
    "results": ("def f(x):\n    return {'a': [x, (1.5, None)], 'b': {x}}", "assert f(2) == {'a': [2, (1.5, None)], 'b': {2}}"),
    "keywords": ("def f(a, *, b=1):\n    return a - b", "assert (f(3), f(a=3, b=2)) == (2, 1)"),
    "arguments_changed_in_place": (
        "def f(rows, seen):\n    rows[0].sort()\n    seen['n'] = len(rows)",
        "rows, seen = [[3, 1], []], {}\nfirst = rows[0]\nassert f(rows, seen) is None\n"
        "assert rows == [[1, 3], []] and rows[0] is first and seen == {'n': 2}",
    ),
    "an_argument_that_comes_back": ("def f(x):\n    x.append(1)\n    return x", "a = []\nassert f(a) is a and a == [1]"),
    "arguments_changed_before_an_exception": (
        "def f(x):\n    x.pop()\n    raise ValueError('odd')",
        "a = [1]\ntry:\n    f(a)\nexcept ValueError as error:\n    assert str(error) == 'odd'\nassert a == []",
    ),
    "exceptions_of_its_own": (
        "class Base(Exception):\n    pass\nclass Odd(Base, ValueError):\n    pass\ndef f():\n    raise Odd('x')",
        "for kind in (Odd, Base, Exception):\n    try:\n        f()\n    except kind as error:\n"
        "        assert type(error).__name__ == 'Odd'\n    else:\n        raise AssertionError",
    ),
    "exceptions_with_odd_arguments": (
        "def f(x):\n    return {}[x] if x else b'\\xff'.decode()",
        "for x, kind in ((1, KeyError), (0, UnicodeDecodeError)):\n    try:\n        f(x)\n    except kind as error:\n"
        "        assert str(error)\n    else:\n        raise AssertionError",
    ),
    "globals": ("LIMIT = [1, 2]\ndef grow():\n    LIMIT.append(3)", "assert LIMIT == [1, 2]"),
    "modules_that_the_program_imports": ("import math\ndef f(x):\n    return math.sqrt(x)", "assert f(4) == math.sqrt(4)"),
    "functions_together": ("def e(s):\n    return s[::-1]\ndef d(s):\n    return s[::-1]", "assert d(e('ab')) == 'ab'"),
    "state_between_calls": ("seen = []\ndef f(x):\n    seen.append(x)\n    return len(seen)", "assert [f(1), f(1)] == [1, 2]"),
    "names_of_the_test_first": (
        "def check(f):\n    pass\ndef f():\n    return 1",
        "def check(f):\n    assert f() == 1\ncheck(f)",
    ),
    "functions_that_are_tests": ("def f():\n    return 1", "def test_one():\n    assert f() == 1"),
    "cases_of_unittest": (
        "def f(x):\n    return 1 // x",
        "import unittest\nclass Case(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(f(1), 1)\n"
        "    def test_zero(self):\n        self.assertRaises(ZeroDivisionError, f, 0)",
    ),
    "no_main": ("def f():\n    return __name__\nif __name__ == '__main__':\n    raise SystemExit(1)", "assert f() == 'program'"),
    "the_same_hashes": ("def f():\n    return list({'a', 'b', 'c', 'd'})", "assert f() == list({'a', 'b', 'c', 'd'})"),
    "utc_and_a_fixed_locale": (
        "import os, time\ndef f():\n    return time.tzname[0], os.environ['LC_ALL']",
        "assert f() == ('UTC', 'C.UTF-8')",
    ),
    "a_seeded_random": (
        "import random\ndef f():\n    return random.random()",
        "import random\nassert f() == random.Random(0).random()",
    ),
    "deep_recursion": ("def f(n):\n    return n and 1 + f(n - 1)", "assert f(900) == 900"),
}
# name: program, test, verdict, words of the message
FAILS = {
    "an_assertion": ("def f():\n    return 2", "assert f() == 1, 'two'", Verdict.WA, "AssertionError: two (line 1 of the test)"),
    "none": ("def f():\n    pass", "assert abs(f() - 1) < 1", Verdict.WA, "TypeError"),
    "an_exception": ("def f():\n    return 1 / 0", "f()", Verdict.RTE, "raised ZeroDivisionError: division by zero (line 2 of"),
    "no_such_function": ("def g():\n    pass", "assert f() == 1", Verdict.WA, "NameError: name 'f' is not defined"),
    "syntax": ("def f(:\n", "assert f() == 1", Verdict.CE, "SyntaxError"),
    "an_import": ("import nowhere", "assert f() == 1", Verdict.RTE, "ModuleNotFoundError: No module named 'nowhere' (line 1)"),
    "a_generator": ("def f():\n    yield 1", "assert list(f()) == [1]", Verdict.WA, "f() gave a value of type 'generator'"),
    "an_instance": ("class Stack:\n    pass", "assert Stack()", Verdict.WA, "Stack() gave a value of type 'Stack'"),
    "a_function_as_an_argument": (
        "def f(g):\n    return g(1)",
        "assert f(lambda x: x) == 1",
        Verdict.JE,
        "argument of f() does not cross",
    ),
    "a_test_that_does_not_compile": ("def f():\n    pass", "assert f( ==", Verdict.JE, "the test does not compile"),
    "a_case_of_unittest": (
        "def f():\n    return 2",
        "import unittest\nclass Case(unittest.TestCase):\n    def test_one(self):\n        self.assertEqual(f(), 1)",
        Verdict.WA,
        "test.Case.test_one: AssertionError: 2 != 1",
    ),
}


@pytest.fixture(scope="module")
def judgements() -> dict[str, FunctionJudgement]:
    cases = {name: case[:2] for name, case in (*PASSES.items(), *FAILS.items())}
    with FunctionJudge(LIMITS, python=PYTHON) as judge:
        found = judge.judge_many(FunctionTask.of(program, test) for program, test in cases.values())
    return dict(zip(cases, found, strict=True))


@pytest.fixture
def judge() -> Iterator[FunctionJudge]:
    with FunctionJudge(LIMITS, python=PYTHON) as made:
        yield made


@pytest.mark.parametrize("name", PASSES)
def test_a_test_sees_what_it_would_see_in_one_process(judgements: dict[str, FunctionJudgement], name: str) -> None:
    assert judgements[name].verdict is Verdict.AC, judgements[name]
    assert judgements[name].score == 1.0


@pytest.mark.parametrize("name", FAILS)
def test_a_failure_says_what_it_is(judgements: dict[str, FunctionJudgement], name: str) -> None:
    _, _, verdict, words = FAILS[name]
    assert (judgements[name].verdict, judgements[name].score) == (verdict, 0.0), judgements[name]
    assert words in judgements[name].message


def test_each_test_has_an_outcome_of_its_own(judge: FunctionJudge) -> None:
    tests = ["assert f(1) == 1", "assert f(2) == 1", "f(0)", "assert f(3) == 3"]
    found = judge.judge("def f(x):\n    print('asked', x)\n    1 / x\n    return x", tests)
    assert [outcome.verdict for outcome in found.tests] == [Verdict.AC, Verdict.WA, Verdict.RTE, Verdict.AC]
    assert (found.verdict, found.passed, found.score, found.gameable) == (Verdict.WA, 2, 0.5, False)
    assert found.output == b"asked 1\nasked 2\nasked 0\nasked 3\n"
    assert found.status == "ok" and found.cpu_seconds > 0 and found.peak_memory_bytes > 0
    assert pickle.loads(pickle.dumps(found)) == found
    assert found.to_dict()["score"] == 0.5


def test_what_ends_the_program_fails_the_test_and_those_after_it(judge: FunctionJudge) -> None:
    program = "import os\ndef f(x):\n    if x == 2:\n        os._exit(3)\n    return x"
    found = judge.judge(program, ["assert f(1) == 1", "f(2)", "assert f(1) == 1"])
    assert [outcome.verdict for outcome in found.tests] == [Verdict.AC, Verdict.RTE, Verdict.RTE]
    assert "exit code 3" in found.message


def test_names_and_a_module_can_be_the_programs(judge: FunctionJudge) -> None:
    program = "def sum(a, b):\n    return a + b"
    assert judge.judge(program, "assert sum(1, 2) == 3").verdict is Verdict.WA
    assert judge.judge(program, "assert sum(1, 2) == 3", names=["sum"]).accepted
    for test in (
        "from solution import add\nassert add(1) == 2",
        "import solution as s\nassert s.add(1) == 2",
        "from solution import *\nassert add(1) == 2",
    ):
        assert judge.judge("def add(x):\n    return x + 1", test, module="solution").accepted
    assert judge.judge("def add(x):\n    return x + 1", "assert add(ONE) == 2", setup="ONE = 1").accepted


def test_one_process_is_labelled(judge: FunctionJudge) -> None:
    with FunctionJudge(LIMITS, python=PYTHON, same_process=True) as together:
        found = together.judge("def f(g):\n    yield g(1)", ["assert list(f(abs)) == [1]", "assert f(abs) == 2"])
    assert (found.score, found.gameable, found.verdict) == (0.5, True, Verdict.WA)


def test_judge_function_keeps_its_interpreters() -> None:
    try:
        assert judge_function("def f():\n    return 1", "assert f() == 1", python=PYTHON).accepted
        (kept,) = api._KEPT._kept.values()
        assert not judge_function("def f():\n    return 2", "assert f() == 1", python=PYTHON).accepted
        assert list(api._KEPT._kept.values()) == [kept]
    finally:
        api.close_cached()


def test_a_setting_too_many_ends_the_oldest_judge_once_nobody_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api._Judges, "_MOST", 1)
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = str(tmp_path / "venv/bin/python")
    judges = api._Judges()
    try:
        oldest = judges.judge(api.Setting(python=python, same_process=True))
        judges.judge(api.Setting(python=PYTHON, same_process=True))
        assert oldest.judge("def f():\n    return 1", "assert f() == 1").accepted
        del oldest
        gc.collect()
        assert list(processes_named(python)) == []
    finally:
        judges.close()


def test_a_grading_whose_slot_was_dead_begins_again_once() -> None:
    begun = []

    class Lost:
        def __init__(self) -> None:
            begun.append(self)
            self.ends = os.pipe()
            os.write(self.ends[1], b".")

        def descriptors(self) -> list[int]:
            return [self.ends[0]]

        def poll(self) -> str | None:
            if len(begun) == 2 and number == 0:
                return "done"
            raise SetupError("lost", 32, "slot")

        def close(self) -> None:
            for end in self.ends:
                os.close(end)

    number = 0
    assert list(graded([Lost], 1)) == [(0, "done")]
    begun, number = [], 1
    ((_, outcome),) = graded([Lost], 1)
    assert isinstance(outcome, SetupError) and len(begun) == 2


def test_an_interpreter_that_died_is_no_reason_to_fail(tmp_path: Path) -> None:
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    python = tmp_path / "venv/bin/python"
    with FunctionJudge(LIMITS, python=python, concurrency=1) as judge:
        for _ in range(2):
            assert judge.judge("def f():\n    return 1", "assert f() == 1").accepted
            kill_all(list(processes_named(str(python))))


@pytest.mark.parametrize(
    ("code", "tests", "more", "field"),
    [
        (b"x", ["pass"], {}, "code"),
        ("x", [], {}, "tests"),
        ("x", [1], {}, "tests[0]"),
        ("x", "pass", {"names": ["a b"]}, "names or module"),
        ("x", "pass", {"module": "a.b"}, "names or module"),
        ("x", "pass", {"setup": b""}, "setup"),
    ],
)
def test_what_makes_no_sense_is_named(code: str, tests: list[str], more: dict[str, str], field: str) -> None:
    with pytest.raises(PolicyError) as caught:
        FunctionTask.of(code, tests, **more)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_closed_judge_says_so() -> None:
    judge = FunctionJudge(LIMITS, python=PYTHON)
    judge.close()
    with pytest.raises(PolicyError, match="closed"):
        judge.judge("x = 1", "pass")
