"""Ctrl-C in the middle of judging: a real one, sent to a process of its own. What is done is given once, what runs is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boxes
import pytest
from graded import bash, problem
from judged import submission
from running import nap, sleepers

from sandbox_native import SandboxError
from sandbox_native.judge import Boxes, Options, Store, Verdict, judge
from sandbox_native.judge.compiling import compile_submission
from sandbox_native.judge.values import ProblemLimits

SECONDS = 434
DONE = 5  # submissions
START = """
import sys
from dataclasses import replace
from graded import bash, problem
from judged import submission
from running import processes_named
from sandbox_native.judge import Boxes, Judge, Options, Store, judge
from sandbox_native.judge.values import ProblemLimits
options = Options(store=Store(sys.argv[1]))
SLEEP = "sleep " + sys.argv[2]
compiles_long = {"wall_seconds": 600.0, "compilation_seconds": 600.0}
perl = submission({"main.pl": "BEGIN { exec '" + SLEEP + "' }"})
def say(*words): print(*words, flush=True)
def left(): return len(list(processes_named(SLEEP.replace(" ", chr(0)) + chr(0))))
"""
BATCH = """
answer = problem({{"1": (b"", b"hello")}})
works = [(bash("echo hello #" + str(number)), answer) for number in range({done})]
sleeping = (bash(SLEEP), problem(wall_seconds=600.0))
works = [sleeping, *works, sleeping, *works]
with Judge(2, options) as many:
    try:
        for judged in many.many(works, ordered={ordered}):
            say(judged.number, judged.judgement.verdict)
    except KeyboardInterrupt:
        say("interrupted", left())
"""
KEPT = """
from sandbox_native.interrupts import Interrupts
answer = problem({{"1": (b"", b"hello")}})
works = [(bash("echo hello #" + str(number)), answer) for number in range(100)]
ended = set()
with Judge(2, options) as many, Interrupts() as interrupts:
    judgements = many.many(works, ordered={ordered}, on_case=lambda number, case: ended.add(number))
    try:
        while (judged := interrupts.next_of(judgements)) is not None:
            say(judged.number, judged.judgement.verdict)
    except KeyboardInterrupt:
        say("interrupted", *ended)
"""


def host(tmp_path: Path, script: str) -> subprocess.Popen[str]:
    """A Python that runs it, with the helpers of these tests at hand."""
    path = os.pathsep.join((str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])))
    return subprocess.Popen(
        [sys.executable, "-c", START + textwrap.dedent(script), str(tmp_path / "store"), nap(SECONDS)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def interrupted(process: subprocess.Popen[str], asleep: int) -> list[str]:
    """What it printed, with Ctrl-C when that many of its guests sleep. Far from their limits it has ended."""
    with process:
        boxes.until(lambda: len(sleepers(SECONDS)) == asleep, boxes.PATIENCE, "guests that sleep")
        process.send_signal(signal.SIGINT)
        try:
            printed, _ = process.communicate(timeout=boxes.PATIENCE)
        finally:
            process.kill()
    assert sleepers(SECONDS) == []
    return printed.splitlines()


@pytest.mark.parametrize("ordered", [True, False])
def test_it_ends_what_runs_and_keeps_what_is_done(tmp_path: Path, ordered: bool) -> None:
    """When both workers are in one that sleeps, all before the second of these are done, and nothing behind it has begun."""
    lines = interrupted(host(tmp_path, BATCH.format(ordered=ordered, done=DONE)), asleep=2)
    assert lines == [*(f"{number} AC" for number in range(1, DONE + 1)), "interrupted 0"]


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("after", [1, 10, 30])
def test_at_any_moment_nothing_that_is_done_is_lost_and_nothing_comes_twice(tmp_path: Path, ordered: bool, after: int) -> None:
    """Of those whose only case has ended, the workers may have had two in hand."""
    with host(tmp_path, KEPT.format(ordered=ordered)) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after)]
        process.send_signal(signal.SIGINT)
        *rest, last = process.stdout.readlines()
    given = [int(line.split()[0]) for line in (*lines, *rest)]
    word, *ended = last.split()
    assert word == "interrupted" and len(given) == len(set(given)) < 100
    assert {line.split()[1] for line in (*lines, *rest)} == {"AC"}
    lost = {int(number) for number in ended} - set(given)
    assert len(lost) <= 2, lost


RUNS = {
    "judge": ("judge(bash(SLEEP), problem(wall_seconds=600.0), options)", 1),
    "judge, cases at once": ("judge(bash(SLEEP), problem(CASES, wall_seconds=600.0), replace(options, parallel=3))", 3),
    "judge, in Sandboxes of the caller's": (
        "judge(bash(SLEEP), problem(CASES, wall_seconds=600.0), replace(options, parallel=3), boxes=Boxes())",
        3,
    ),
    "a checker": (
        """judge(bash("echo"), problem(validator="import os\\nos.system('" + SLEEP + "')", validation_seconds=600.0), options)""",
        1,
    ),
}


@pytest.mark.parametrize(("script", "asleep"), RUNS.values(), ids=RUNS)
def test_it_ends_all_runs_of_one_submission(tmp_path: Path, script: str, asleep: int) -> None:
    script = f"""
CASES = {{name: (b"", b"") for name in "abcdef"}}
try:
    {script}
except KeyboardInterrupt:
    say("interrupted", left())
"""
    assert interrupted(host(tmp_path, script), asleep) == ["interrupted 0"]


COMPILES = {
    "judge": "judge(perl, problem(**compiles_long), options)",
    "judge in Sandboxes of the caller's": "judge(perl, problem(**compiles_long), options, boxes=Boxes())",
    "Judge": "with Judge(2, options) as many: list(many.many([(perl, problem(**compiles_long))]))",
    "a validator": """
        from sandbox_native.judge.values import Checker, CheckerKind
        own = Checker(kind=CheckerKind.PROGRAM, program=perl)
        with Judge(1, options) as many: list(many.many([(bash("echo"), problem(checker=own, **compiles_long))]))
        """,
}


@pytest.mark.parametrize("way", COMPILES)
def test_it_ends_a_compilation_at_once(tmp_path: Path, way: str) -> None:
    """A compiler that would go on for ten minutes, and does what it can not to be disturbed."""
    script = textwrap.dedent(COMPILES[way])
    script = f"try:\n{textwrap.indent(script, '    ')}\nexcept KeyboardInterrupt:\n    say('interrupted', left())"
    assert interrupted(host(tmp_path, script), asleep=1) == ["interrupted 0"]


# ---- ended by another thread ----


def test_a_run_that_somebody_else_ended_is_no_fault_of_the_submissions(tmp_path: Path) -> None:
    waiting = problem(wall_seconds=600.0)
    options = Options(store=Store(tmp_path / "store"))
    with Boxes() as kept, ThreadPoolExecutor(1) as pool:
        judgement = pool.submit(judge, bash(f"sleep {nap(SECONDS)}"), waiting, options, boxes=kept)
        boxes.until(lambda: bool(sleepers(SECONDS)), boxes.PATIENCE, "its case")
        kept.end_runs()
        assert judgement.result().verdict is Verdict.JE
        assert judgement.result().message == "1: the run was ended from outside"


def test_a_compilation_that_somebody_else_ended_is_no_refusal(tmp_path: Path) -> None:
    source = submission({"main.pl": f"BEGIN {{ exec 'sleep {nap(SECONDS)}' }}"})
    limits = ProblemLimits(compilation_seconds=600.0)
    with Boxes() as kept, ThreadPoolExecutor(1) as pool:
        compiled = pool.submit(compile_submission, source, limits=limits, store=Store(tmp_path / "store"), boxes=kept)
        boxes.until(lambda: bool(sleepers(SECONDS)), boxes.PATIENCE, "the compiler")
        kept.close()
        with pytest.raises(SandboxError, match="the compilation was ended from outside"):
            compiled.result()
