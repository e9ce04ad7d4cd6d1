"""What users of other sandboxes and judges reported, each asked of our verdicts: memory and time.

The numbers are those of the collection that they come from; test_reports.py asks the same of single runs,
and test_judge_reports_programs.py goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import boxes
import pytest
from boxes import MIB
from graded import bash, problem, python, verdict
from judged import submission

from sandbox_native.judge import Judge, Options, Store, judge
from sandbox_native.judge.outcomes import CaseResult
from sandbox_native.judge.values import Problem, Submission
from sandbox_native.judge.verdicts import Verdict

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "gcc")]
AC, TLE, MLE, RTE, JE = (Verdict[name] for name in ("AC", "TLE", "MLE", "RTE", "JE"))
ALLOWED = 128 * MIB
HELLO = '#include <stdio.h>\nint main(void) { puts("1"); return 0; }\n'
ONE = {"1": (b"", b"1\n")}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


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
