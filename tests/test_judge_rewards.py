"""RewardFunction: batches of scores, from wherever training loops call it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import resource_tracker
from typing import Any

import pytest
from running import PYTHON

from sandbox_native import Limits, Overflow, PolicyError
from sandbox_native.judge.extract import extract_program
from sandbox_native.judge.rewards import RewardFunction
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

LIMITS = Limits(
    wall_seconds=5, cpu_seconds=1, memory_bytes=128 << 20, processes=16, stderr_bytes=1 << 20, on_overflow=Overflow.KILL
)
SNIPPETS = ["assert f(1) == 1", "assert f(2) == 4"]
PAIRS = [("1\n", "1"), ("2\n", "4\n")]
RIGHT, HALF, WRONG = (f"def f(x):\n    return {body}" for body in ("x * x", "1", "0"))
SCRIPTS = [f"print({body})" for body in ("int(input()) ** 2", "1", "0")]
BAD = [
    "def f(x):\n    while True:\n        pass",
    "def f(x):\n    while True:\n        print('x' * 9999)",
    "import os\ndef f(x):\n    while True:\n        os.fork()",
    "import ctypes\ndef f(x):\n    ctypes.string_at(0)",
]


@pytest.fixture
def reward() -> Iterator[RewardFunction]:
    with RewardFunction(SNIPPETS, limits=LIMITS, python=PYTHON) as made:
        yield made


def test_the_score_is_the_share_of_tests_that_passed_in_the_order_of_the_programs(reward: RewardFunction) -> None:
    assert reward.score([RIGHT, WRONG, HALF, RIGHT]) == [1.0, 0.0, 0.5, 1.0]
    assert reward([WRONG] * 9 + [RIGHT]) == [0.0] * 9 + [1.0]
    assert reward.score([]) == []


def test_programs_between_stdin_and_stdout_are_scored_by_pairs() -> None:
    with RewardFunction(PAIRS, limits=LIMITS, python=PYTHON) as reward:
        assert reward.score(SCRIPTS) == [1.0, 0.5, 0.0]
        told = reward.diagnose(["import sys; sys.exit('no')", SCRIPTS[2], "while True: pass"])
    assert [one.verdict for one in told] == [Verdict.RTE, Verdict.WA, Verdict.TLE]
    assert told[0].message == "exit code 1: no"
    assert told[1].message == "line 1, column 1: expected '1', got '0'"


def test_tests_can_come_with_each_program(reward: RewardFunction) -> None:
    assert reward.score([RIGHT, SCRIPTS[0]], [["assert f(3) == 9"], [("3", "9")]]) == [1.0, 1.0]
    with pytest.raises(PolicyError, match="1 for 2 programs"):
        reward.score([RIGHT, WRONG], [SNIPPETS])


@pytest.mark.parametrize("tests", [["assert f(3) == 9"], [("3", "9")]], ids=["snippets", "pairs"])
def test_a_flood_ends_a_program_whatever_limits_say_of_it(tests: list[Any]) -> None:
    """How long the rest of it would take hangs on what else the host reads meanwhile."""
    flood = "print('x' * 3_000_000)\n"
    limits = replace(LIMITS, on_overflow=Overflow.TRUNCATE, stdout_bytes=1 << 20)
    with RewardFunction(tests, limits=limits, python=PYTHON) as reward:
        (told,) = reward.diagnose([flood + RIGHT + flood])
    assert told.verdict is Verdict.OLE


@pytest.mark.parametrize(
    ("tests", "words"),
    [
        ("assert f(1) == 1", "^tests='assert f.1. == 1': not a list but str; give a list of snippets"),
        (b"x", "^tests=b'x': not a list but bytes"),
        ({"1": "1"}, "not a list but dict"),
        (7, "not a list but int"),
        (["assert f(1) == 1", ("1", "1")], r"^tests\[0\]='assert f.1. == 1': neither"),
        ([("1", "2", "3")], r"^tests\[0\]=.*neither; give snippets of Python, or pairs"),
        ([("1", 2)], r"^tests\[0\]=.*neither"),
        (["assert f(1) == 1", "assert f(1) = 1"], r"^tests\[1\]='assert f.1. = 1': does not compile: .*line 1"),
        (["\0"], r"^tests\[0\]=.*does not compile"),
        (["(" * 100_000], r"^tests\[0\]=.*does not compile"),
    ],
)
def test_tests_that_make_no_sense_are_refused_at_once(tests: Any, words: str) -> None:
    with pytest.raises(PolicyError, match=words):
        RewardFunction(tests)


def test_a_text_is_no_list_of_programs_or_of_tests(reward: RewardFunction) -> None:
    for grade in (reward.score, reward.diagnose, lambda *given: asyncio.run(reward.score_async(*given))):
        with pytest.raises(PolicyError, match="^programs='def f.*': not a list but str; give a list of programs"):
            grade(RIGHT)
        with pytest.raises(PolicyError, match="^tests='assert .*': not a list but str; give a list of tests for each program"):
            grade([RIGHT], SNIPPETS[0])  # type: ignore[arg-type]
        with pytest.raises(PolicyError, match=r"^tests\[0\]='assert .*': not a list but str; give a list of snippets"):
            grade([RIGHT], SNIPPETS[:1])  # type: ignore[list-item]
        with pytest.raises(PolicyError, match=r"^tests\[1\]\[0\]=.*: neither"):
            grade([RIGHT, RIGHT], [SNIPPETS, [("1",)]])  # type: ignore[list-item]


def test_what_hangs_floods_forks_or_crashes_costs_itself_alone(reward: RewardFunction) -> None:
    told = reward.diagnose([BAD[0], RIGHT, BAD[1], RIGHT, BAD[2], RIGHT, BAD[3], RIGHT])
    assert [one.score for one in told] == [0.0, 1.0] * 4
    assert [one.verdict for one in told[::2]] == [Verdict.TLE, Verdict.OLE, Verdict.RTE, Verdict.RTE]
    assert all(one.message for one in told[::2])


def test_threads_and_event_loops_share_one(reward: RewardFunction) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(reward.score, [[RIGHT, HALF]] * 6)) == [[1.0, 0.5]] * 6

    async def both() -> list[list[float]]:
        return await asyncio.gather(reward.score_async([RIGHT]), reward.score_async([HALF]))

    assert asyncio.run(both()) == [[1.0], [0.5]]


def test_a_cancelled_await_ends_what_runs(reward: RewardFunction) -> None:
    sleeper = "import time\ndef f(x):\n    time.sleep(99)"

    async def cancel() -> float:
        task = asyncio.ensure_future(reward.score_async([sleeper] * 4))
        await asyncio.sleep(0)
        task.cancel()
        began = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - began

    assert asyncio.run(cancel()) < LIMITS.wall_seconds
    assert reward.score([RIGHT]) == [1.0]


def work(reward: RewardFunction, answers: Any) -> None:
    answers.send((os.getpid(), reward.score([RIGHT, HALF])))
    reward.close()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_daemonic_workers_have_one_of_their_own(reward: RewardFunction, method: str) -> None:
    assert reward.score([RIGHT]) == [1.0]
    context = multiprocessing.get_context(method)
    here, there = context.Pipe(duplex=False)
    workers = [context.Process(target=work, args=(reward, there), daemon=True) for _ in range(2)]
    for worker in workers:
        worker.start()
    there.close()
    got = [here.recv() for _ in workers]
    for worker in workers:
        worker.join()
        worker.close()
    here.close()
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
    assert [scores for _, scores in got] == [[1.0, 0.5]] * 2 and len({pid for pid, _ in got}) == 2
    assert reward.score([HALF]) == [0.5]


def test_equal_input_gives_equal_scores() -> None:
    program = "import random\nseen = list({'a', 'b', 'c', 'd', 'e', 'f'})\ndef f(x):\n    return seen + [random.random()]"
    fixed = "assert f(0) == list({'a', 'b', 'c', 'd', 'e', 'f'}) + [0.8444218515250481]"
    for _ in range(2):
        with RewardFunction([fixed], limits=LIMITS, python=PYTHON) as reward:
            assert reward.score([program] * 3) == [1.0] * 3


def test_a_broken_test_raises_or_scores_as_asked() -> None:
    broken = ["assert f( =="]
    with RewardFunction(broken, limits=LIMITS, python=PYTHON) as reward:
        with pytest.raises(PolicyError, match="a test cannot be judged: the test does not compile"):
            reward.score([RIGHT])
        assert [one.verdict for one in reward.diagnose([RIGHT])] == [Verdict.JE]
    with RewardFunction(broken, limits=LIMITS, python=PYTHON, on_judge_error=-1.0) as reward:
        assert reward.score([RIGHT]) == [-1.0]


def test_the_program_is_taken_from_an_answer() -> None:
    with RewardFunction(SNIPPETS, limits=LIMITS, python=PYTHON, extract=extract_program) as reward:
        assert reward.score([f"So:\n```python\n{RIGHT}\n```", RIGHT]) == [1.0, 1.0]


def test_one_can_be_pickled() -> None:
    with pickle.loads(pickle.dumps(RewardFunction(SNIPPETS, limits=LIMITS, python=PYTHON))) as reward:
        assert reward.score([HALF]) == [0.5]


@pytest.mark.parametrize(
    ("programs", "tests", "words"),
    [
        ([b"x"], SNIPPETS, "programs="),
        (["x"], [], "tests="),
    ],
)
def test_what_makes_no_sense_is_named(programs: Any, tests: Any, words: str) -> None:
    with RewardFunction(tests, python=PYTHON) as reward:
        with pytest.raises(PolicyError, match=words):
            reward.score(programs)
