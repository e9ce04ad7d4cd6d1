"""What users of other sandboxes and judges reported, each asked of our verdicts: outcomes that are missing, and compilation.

Goes on from test_judge_reports.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import boxes
import pytest
from boxes import MIB
from graded import bash, problem, verdict
from judged import submission

from sandbox_native.judge import FunctionJudge, Judge, Options, RewardFunction, Store, judge_function
from sandbox_native.judge.functions import api
from sandbox_native.judge.outcomes import CompileFailure
from sandbox_native.judge.values import Case, Group
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "gcc")]
AC, WA, RTE, CE, JE = (Verdict[name] for name in ("AC", "WA", "RTE", "CE", "JE"))
HELLO = '#include <stdio.h>\nint main(void) { puts("1"); return 0; }\n'
ONE = {"1": (b"", b"1\n")}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def functions() -> Iterator[None]:
    """`judge_function` keeps the interpreters that it started."""
    yield
    api.close_cached()


# ---- what counts as passed ----

MISSING = {
    "ends": "import os\nos._exit(0)\n",
    "ends when it is called": "import os\ndef f(x):\n    os._exit(0)\n",
    "exits": "raise SystemExit(0)\n",
    "hides the end": "import atexit, os\natexit.register(os._exit, 0)\ndef f(x):\n    raise SystemExit(0)\n",
    "does not compile": "def f(x)\n",
    "is not there": "",
    "is killed": "import os, signal\ndef f(x):\n    os.kill(os.getpid(), signal.SIGKILL)\n",
}


def test_a_test_whose_outcome_is_missing_has_failed() -> None:
    """R50: and so have those after it, each by itself; a program that says nothing of its tests has no reward."""
    tests = ["assert f(1) == 2", "assert f(0) == 1", "assert f(2) == 3"]
    right = "def f(x):\n    return x + 1\n"
    with FunctionJudge() as judge:
        judgements = {way: judge.judge(code, tests) for way, code in MISSING.items()}
        assert judge.judge(right, tests).verdict is AC
    for way, judgement in judgements.items():
        assert not any(test.passed for test in judgement.tests) and judgement.verdict not in (AC, JE), (way, judgement)
    with RewardFunction(tests) as reward:
        assert reward.score([*MISSING.values(), right]) == [*[0.0] * len(MISSING), 1.0]


@pytest.mark.usefixtures("functions")
def test_a_test_file_that_the_program_changes_is_judged_as_it_was() -> None:
    """R50: it writes what it takes for tests wherever it may write; the examiner has its own."""
    program = """
import pathlib
for place in (".", "/tmp", "/workspace"):
    for name in ("conftest.py", "test_f.py", "solution.py"):
        pathlib.Path(place, name).write_text("def test_f(): pass")
def f(x):
    return 0
"""
    judgement = judge_function(program, ["def test_f():\n    assert f(1) == 2"])
    assert judgement.verdict is WA and not judgement.tests[0].passed, judgement


@pytest.mark.parametrize(
    "text", ["exit 0", "exec 1>&-", "echo 1 >&2", "trap 'exit 0' EXIT; kill -9 $$", "(echo 1) | cat >/dev/null"]
)
def test_a_program_that_ends_well_and_answers_nothing_is_not_accepted(store: Store, text: str) -> None:
    """R50: whatever its exit status says."""
    assert verdict(store, bash(text), problem(ONE)).verdict in (WA, RTE)


# ---- compilation ----


@pytest.mark.parametrize(
    ("name", "text", "failure"),
    [
        ("main.c", '#include "/etc/shadow"\n#include "/dev/zero"\n', None),
        ("main.c", "#include __FILE__\n#include __FILE__\n", CompileFailure.TIME),
        ("main.pl", "BEGIN { 1 while 1 }", CompileFailure.TIME),
        ("main.pl", "BEGIN { while (1) { fork } }", CompileFailure.TIME),
        ("main.pl", "BEGIN { my @a; push @a, 'x' x 1e6 while 1 }", CompileFailure.MEMORY),
        ("main.pl", "BEGIN { print 'x' x 1e6 while 1 }", None),
    ],
)
def test_a_compilation_that_passes_its_limits_is_a_compile_error(
    store: Store, name: str, text: str, failure: CompileFailure | None
) -> None:
    """R51: it has limits of its own, of its whole tree; nothing of the host comes back in the compiler's words."""
    of = problem(ONE, compilation_seconds=1.0, compilation_memory_bytes=128 * MIB)
    judgement = verdict(store, submission({name: text}), of)
    assert judgement.verdict is CE and judgement.cases == () and judgement.compilation is not None, judgement
    assert failure is None or judgement.compilation.failure is failure, judgement
    assert judgement.compilation.cpu_seconds < 3  # three times its limit
    assert "root:" not in judgement.compilation.output and len(judgement.compilation.output) < 100_000


def test_a_command_that_a_compilation_runs_reaches_nothing_and_is_gone_afterwards(store: Store, tmp_path: Path) -> None:
    """R51: it sees no case and no answer, and the program that comes of it is judged as any."""
    (tmp_path / "1.in").write_text("")
    (tmp_path / "1.ans").write_text("4711\n")
    items = (Case(name="1", input=tmp_path / "1.in", answer=tmp_path / "1.ans"),)
    of = replace(problem(), data=Group(items=items), root=tmp_path)
    word = f"compiled-{os.getpid()}"
    look = (
        f"my $seen = join '', map {{ `cat $_ 2>/dev/null` }} '{tmp_path}/1.ans', glob('/judge/* {tmp_path}/* /proc/*/cwd/*.ans');"
    )
    daemon = f"fork or do {{ setpgrp; $SIG{{TERM}} = $SIG{{HUP}} = 'IGNORE'; exec {{'sleep'}} '{word}', '600' }};"
    keep = "open my $out, '>', '/tmp/seen'; print $out $seen; close $out; open $out, '>', 'seen'; print $out $seen;"
    source = submission({"main.pl": f"BEGIN {{ {look} {daemon} {keep} }}\nprint `cat /tmp/seen seen`, qq(nothing\\n);"})
    judgement = verdict(store, source, of)
    assert boxes.tree_is_gone(word)
    assert (judgement.verdict, judgement.cases[0].output) == (WA, b"nothing\n"), judgement


def test_compilations_at_once_have_their_limits_each_and_hold_up_nobody(store: Store) -> None:
    """R51: two that would go on for ever cost their own time; what is beside them is judged."""
    bombs = [submission({"main.pl": f"BEGIN {{ 1 while 1 }} # {number}"}) for number in range(2)]
    of = problem(ONE, compilation_seconds=1.0)
    with Judge(3, Options(store=store)) as workers:
        got = [
            one.judgement
            for one in workers.many([(source, of) for source in (*bombs, submission({"main.c": HELLO}))], ordered=True)
        ]
    assert [judgement.verdict for judgement in got] == [CE, CE, AC]
    assert [one.compilation.failure for one in got[:2] if one.compilation is not None] == [CompileFailure.TIME] * 2
