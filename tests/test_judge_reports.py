"""What users of other sandboxes and judges reported, each asked of our verdicts: memory, time, functions, compilation.

The numbers are those of the collection that they come from; test_reports.py asks the same of single runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import boxes
import pytest
from boxes import MIB
from graded import bash, problem, python, verdict
from judged import submission

from sandbox_native.judge import FunctionJudge, Judge, Options, RewardFunction, Store, judge, judge_function
from sandbox_native.judge.functions import api
from sandbox_native.judge.outcomes import CaseResult, CompileFailure
from sandbox_native.judge.values import Case, Group, Problem, Submission
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "gcc")]
AC, WA, TLE, MLE, RTE, CE, JE = (Verdict[name] for name in ("AC", "WA", "TLE", "MLE", "RTE", "CE", "JE"))
ALLOWED = 128 * MIB
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


def c(text: str) -> Submission:
    return submission({"main.c": text})


def touching(megabytes: int, then: str = "print(1)") -> Submission:
    """Has that much memory, all of it in use."""
    return python(f"b = bytearray({megabytes} << 20)\nb[::4096] = b'x' * len(b[::4096])\n{then}\n")


def case(store: Store, source: Submission, of: Problem) -> CaseResult:
    judgement = verdict(store, source, of)
    assert judgement.verdict is not JE and judgement.cases, judgement
    return judgement.cases[0]


# ---- memory ----


def test_what_a_large_judge_has_is_not_the_submissions(store: Store) -> None:
    """R28: neither in the figure nor in the verdict; with one judgement and with many."""
    of = problem(ONE, memory_bytes=32 * MIB)

    def large_judge() -> None:
        ballast = bytearray(512 * MIB)
        ballast[::4096] = b"x" * len(ballast[::4096])
        with Judge(2, Options(store=store)) as many:
            judgements = [judge(c(HELLO), of, Options(store=store)), *(one.judgement for one in many.many([(c(HELLO), of)] * 2))]
        for judgement in judgements:
            assert judgement.verdict is AC and 0 < judgement.cases[0].peak_memory_bytes < 16 * MIB, judgement

    boxes.in_a_host(large_judge)


RESERVES = """#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
static void *run(void *given) { volatile char used[4096]; used[0] = 1; return given; }
int main(void) {
    pthread_t threads[40];
    char *large = mmap(0, 20UL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (large == MAP_FAILED) return 1;
    for (int i = 0; i < 40; i++) if (pthread_create(&threads[i], 0, run, 0)) return 2;
    for (int i = 0; i < 40; i++) pthread_join(threads[i], 0);
    large[1UL << 34] = 1;
    puts("1");
}
"""
RUN_TIMES = {
    "c": ("gcc", {"main.c": RESERVES}, 32),
    "javascript": ("node", {"main.js": "console.log(1)\n"}, 128),
    "java": ("javac", {"Main.java": "class Main { public static void main(String[] a) { System.out.println(1); } }\n"}, 64),
    "go": ("go", {"main.go": 'package main\nimport "fmt"\nfunc main() { fmt.Println(1) }\n'}, 32),
}


@pytest.mark.parametrize("name", RUN_TIMES)
def test_run_times_that_reserve_much_are_accepted_with_a_small_limit(
    store: Store, name: str, needs: Callable[[str], None]
) -> None:
    """R29: address space and the stacks of threads that nobody touches are no memory."""
    program, files, megabytes = RUN_TIMES[name]
    needs(program)
    found = case(store, submission(files), problem(ONE, memory_bytes=megabytes * MIB, cpu_seconds=30.0))
    assert (found.verdict, found.exit_code) == (AC, 0), found


FILL = f"static volatile char a[{400 * MIB}]; int main(void) {{ for (int i = 0; i < {400 * MIB}; i += 4096) a[i] = 1; }}"
DEEP = """int f(int n) {
    volatile char frame[65536];
    for (int i = 0; i < 65536; i += 4096) frame[i] = n;
    return n ? f(n - 1) + frame[0] : 0;
}
int main(void) { return f(6400) & 0; }
"""
TOO_MUCH = {
    "touched": touching(400),
    "in a child": bash("/usr/bin/python3 -c 'b=bytearray(400<<20); b[::4096]=bytes(102400)'; echo 1"),
    "a static array": c(FILL),
    "on the stack": c(DEEP),
    "a piece at a time": python("x = []\nwhile True: x.append(bytearray(b'x') * (1 << 20))\n"),
}


@pytest.mark.parametrize("way", TOO_MUCH)
def test_out_of_memory_is_no_crash(store: Store, way: str) -> None:
    """R30"""
    found = case(store, TOO_MUCH[way], problem(ONE, memory_bytes=ALLOWED, wall_seconds=60.0))
    assert (found.verdict, found.limit) == (MLE, "memory"), found


def test_out_of_memory_in_a_run_time_with_a_heap_of_its_own_is_no_crash(store: Store, needs: Callable[[str], None]) -> None:
    """R30: it ends itself, with an exit code or a signal."""
    needs("node")
    needs("javac")
    of = problem(ONE, memory_bytes=ALLOWED, cpu_seconds=60.0)
    script = submission({"main.js": "const a = []; while (true) a.push(new Array(100000).fill(a.length))\n"})
    heap = "java.util.ArrayList<int[]> a = new java.util.ArrayList<>(); while (true) a.add(new int[100000]);"
    java = submission({"Main.java": f"class Main {{ public static void main(String[] s) {{ {heap} }} }}\n"})
    assert [case(store, source, of).verdict for source in (script, java)] == [MLE, MLE]


CRASHES = {
    "SIGKILL": bash("kill -9 $$"),
    "SIGSEGV": c("int main(void) { *(volatile int *)0 = 1; }"),
    "SIGABRT": c("#include <stdlib.h>\nint main(void) { abort(); }"),
}


@pytest.mark.parametrize("name", CRASHES)
def test_a_crash_is_not_out_of_memory(store: Store, name: str) -> None:
    """R30: whoever is killed far from the limit was not killed for its sake."""
    found = case(store, CRASHES[name], problem(ONE, memory_bytes=ALLOWED))
    assert (found.verdict, found.signal, found.limit) == (RTE, name, None), found


def test_submissions_at_once_do_not_share_a_memory_limit(store: Store) -> None:
    """R32: each is within its own, all together are far above it; over workers and as cases in parallel."""
    source = touching(40, "import time; time.sleep(0.2); print(1)")
    many = problem({str(number): (b"", b"1") for number in range(6)}, memory_bytes=64 * MIB, wall_seconds=60.0)
    parallel = judge(source, many, Options(store=store, parallel=6))
    assert [one.verdict for one in parallel.cases] == [AC] * 6, parallel
    of = problem(ONE, memory_bytes=64 * MIB, wall_seconds=60.0)
    with Judge(6, Options(store=store)) as workers:
        assert [one.judgement.verdict for one in workers.many([(source, of)] * 6)] == [AC] * 6


# ---- time ----

SPREADS = {
    "processes": "import os\nfor _ in range(3): os.fork()\nwhile True: pass\n",
    "children that are waited for": "import os\nwhile True:\n    if os.fork() == 0:\n        sum(range(200_000)); os._exit(0)\n"
    "    os.wait()\n",
    "another session": "import os\nif os.fork() == 0:\n    os.setsid()\n    while True: pass\nos.wait()\n",
    "a process that nobody waits for": "import os, time\nif os.fork() == 0:\n    if os.fork() == 0:\n        while True: pass\n"
    "    os._exit(0)\nos.wait(); time.sleep(600)\n",
}


@pytest.mark.parametrize("way", SPREADS)
def test_spreading_over_processes_evades_no_cpu_limit(store: Store, way: str) -> None:
    """R33"""
    found = case(store, python(SPREADS[way]), problem(ONE, cpu_seconds=0.3, wall_seconds=120.0))
    assert (found.verdict, found.limit) == (TLE, "cpu"), found
    assert 0.3 < found.cpu_seconds < 0.9


@pytest.mark.parametrize("text", ["sleep 600", "kill -STOP $$", "read -t 600 <> <(:)", "setsid sleep 600; wait"])
def test_who_uses_no_cpu_time_is_ended_by_the_wall_clock(store: Store, text: str) -> None:
    """R33"""
    found = case(store, bash(text), problem(ONE, cpu_seconds=60.0, wall_seconds=0.5))
    assert (found.verdict, found.limit) == (TLE, "wall") and found.cpu_seconds < 0.5 <= found.wall_seconds, found


def test_there_is_a_wall_limit_where_nobody_states_one(store: Store) -> None:
    """R33: twice the CPU limit, or a second more."""
    found = case(store, bash("sleep 600"), problem(ONE, cpu_seconds=0.1))
    assert (found.verdict, found.limit) == (TLE, "wall") and found.wall_seconds >= 1.1, found


def test_a_verdict_does_not_change_in_a_crowd(store: Store) -> None:
    """R34: CPU time decides. What needs some of it is accepted beside eight times as many as there are cores, with a limit that
    the wall clock passes there many times over, and what needs too much is refused there and alone."""
    spin = "sum(i * i for i in range({count}))\nprint(1)\n"
    fine = python(spin.format(count=1_000_000))
    alone = case(store, fine, problem(ONE, cpu_seconds=60.0, wall_seconds=600.0))
    assert alone.verdict is AC
    limit = 5 * alone.cpu_seconds
    endless = python("while True: pass\n")
    of = problem(ONE, cpu_seconds=limit, wall_seconds=600.0)
    crowd = 8 * len(os.sched_getaffinity(0))
    with Judge(crowd, Options(store=store)) as workers:
        judgements = [one.judgement for one in workers.many([(fine, of), (endless, of)] * crowd, ordered=True)]
    assert [judgement.verdict for judgement in judgements] == [AC, TLE] * crowd
    slowest = max((judgement.cases[0] for judgement in judgements[::2]), key=lambda one: one.wall_seconds)
    assert slowest.wall_seconds > slowest.cpu_seconds and slowest.noise is not None and slowest.noise.involuntary_switches > 0
    assert {one.cases[0].limit for one in judgements[1::2]} == {"cpu"}


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
    tests = ["assert f(1) == 2", "assert True", "assert f(2) == 3"]
    right = "def f(x):\n    return x + 1\n"
    with FunctionJudge() as judge:
        judgements = {way: judge.judge(code, tests) for way, code in MISSING.items()}
        assert judge.judge(right, tests).verdict is AC
    for way, judgement in judgements.items():
        first, _, last = judgement.tests
        assert not first.passed and not last.passed and judgement.verdict not in (AC, JE), (way, judgement)
    with RewardFunction(tests[::2]) as reward:
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
    assert case(store, bash(text), problem(ONE)).verdict in (WA, RTE)


# ---- compilation ----

LONG = {"compilation_seconds": 600.0, "wall_seconds": 600.0}


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
    of = problem(ONE, compilation_seconds=1.0, compilation_memory_bytes=ALLOWED)
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
        got = [one.judgement for one in workers.many([(source, of) for source in (*bombs, c(HELLO))], ordered=True)]
    assert [judgement.verdict for judgement in got] == [CE, CE, AC]
    assert [one.compilation.failure for one in got[:2] if one.compilation is not None] == [CompileFailure.TIME] * 2
