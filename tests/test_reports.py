"""What users of other sandboxes reported, each as a test of ours: process trees, hosts, streams, memory, time.

The numbers are those of the collection that they come from; test_reports_machines.py goes on.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boxes
import pytest
from boxes import MIB, Guests, verbs

from sandbox_native import ExecError, Limits, Overflow, Policy, Result, Sandbox, Status, run
from sandbox_native.backends.box import LinuxBox

pytestmark = pytest.mark.needs("userns")
PY = "/usr/bin/python3"
TOUCH = "b=bytearray({mb}<<20); b[::4096]=b'x'*len(b[::4096])"


@pytest.fixture
def box(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(boxes.strict(guest)) as sandbox:
        yield sandbox


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def python(code: str) -> list[str]:
    return [PY, "-c", code]


def at_once(box: Sandbox, count: int, argv: list[str], limits: Limits) -> list[Result]:
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: box.run(argv, limits=limits), range(count)))


# ---- A. Process tree and timeouts ----


def test_a_grandchild_that_keeps_stdout_open_delays_nothing(box: Sandbox) -> None:
    """R01: it was there to the end."""
    result = box.run(sh("echo hi; (sleep 60 &) ; exit 0"), limits=Limits(wall_seconds=300))
    assert (result.status, result.stdout, result.killed_processes) == (Status.OK, b"hi\n", 1)


def test_after_a_timeout_nothing_is_in_the_process_list(box: Sandbox) -> None:
    """R02"""
    word = f"301.{os.getpid():07}"
    assert box.run(sh(f"sleep {word} & sleep {word}"), limits=Limits(wall_seconds=0.5)).status is Status.WALL_LIMIT
    assert boxes.tree_is_gone(word)


def test_a_timeout_is_not_an_exit_and_keeps_the_output(box: Sandbox) -> None:
    """R03"""
    result = box.run(sh("echo part; sleep 99"), limits=Limits(wall_seconds=0.5))
    assert (result.status, result.exit_code, result.signal, result.stdout) == (Status.WALL_LIMIT, None, None, b"part\n")
    assert result.hint is not None and "wall_seconds" in result.hint


@pytest.mark.parametrize("policy", [Policy.strict(), Policy.light()], ids=["strict", "light"])
def test_a_daemon_does_not_survive_its_run(policy: Policy) -> None:
    """R05; the rung without control groups is in test_degraded.py."""
    word = f"777.{os.getpid():07}"
    code = f"import os,time\nif os.fork()==0:\n os.setsid()\n if os.fork()==0: os.execv('/bin/sleep', ['sleep', '{word}'])\n"
    assert run(python(code), policy=policy, limits=Limits(wall_seconds=20)).ok
    assert boxes.tree_is_gone(word)


def test_the_end_of_the_thread_that_started_it_kills_nothing(box: Sandbox) -> None:
    """R06: also when that thread had started the launcher."""
    started: list[Any] = []

    def start() -> None:
        sandbox = Sandbox(box.policy)
        started.extend((sandbox, sandbox.spawn(verbs("sleep 500 , echo whole"))))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    sandbox, process = started
    with sandbox:
        assert process.wait().text == "whole\n"


def test_the_process_cap_is_each_runs_own(box: Sandbox) -> None:
    """R08: as a limit of the user they would refuse each other their forks."""
    script = sh("for i in 1 2 3 4; do sleep 0.3 & done; wait; echo ok")
    assert {result.stdout for result in at_once(box, 20, script, Limits(processes=8))} == {b"ok\n"}


def test_a_fork_bomb_costs_the_host_nothing(box: Sandbox) -> None:
    """R10: no descriptor for each child, and other runs are served."""
    box.run(["/bin/true"])
    before = sorted(os.listdir("/proc/self/fd"))
    code = "import os\nwhile 1:\n try: os.fork()\n except OSError: pass"
    with box.spawn(python(code), limits=Limits(wall_seconds=1, memory_bytes=64 * MIB)) as bomb:
        assert all(box.run(["/bin/true"], limits=Limits(wall_seconds=60)).ok for _ in range(10))
        assert bomb.wait().status in (Status.WALL_LIMIT, Status.MEMORY_LIMIT)
    assert sorted(os.listdir("/proc/self/fd")) == before


# ---- B. Python as the host ----


def test_exit_codes_are_true_when_the_host_ignores_sigchld(box: Sandbox) -> None:
    """R11"""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert [box.run(sh(f"exit {code}")).exit_code for code in (3, 0, 255)] == [3, 0, 255]
        with box.spawn(sh("exit 4")) as process:
            assert process.wait().exit_code == 4
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_host_full_of_busy_threads_starts_boxes(box: Sandbox) -> None:
    """R13: nothing between clone and exec waits for a lock that another thread holds."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            [str(number) * 9 for number in range(999)]

    threads = [threading.Thread(target=churn) for _ in range(8)]
    for thread in threads:
        thread.start()
    switch = sys.getswitchinterval()
    sys.setswitchinterval(0.0005)
    try:
        assert {box.run(["/bin/true"], limits=Limits(wall_seconds=20)).exit_code for _ in range(40)} == {0}
        for _ in range(3):
            with Sandbox() as fresh:
                assert fresh.run(["/bin/true"]).ok
    finally:
        sys.setswitchinterval(switch)
        stop.set()
        for thread in threads:
            thread.join()


def test_starting_a_run_does_not_hold_up_the_thread(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """R14: `spawn` and `poll`, of which an event loop makes use, wait for nothing that the guest does."""
    waits = []

    def pump(self: LinuxBox, timeout_ms: int) -> bool:
        waits.append(timeout_ms)
        return wait(self, timeout_ms)

    wait = LinuxBox.pump
    monkeypatch.setattr(LinuxBox, "pump", pump)
    with box.spawn(["/bin/cat"], limits=Limits(wall_seconds=60)) as process:
        assert [process.poll() for _ in range(10)] == [None] * 10
    assert waits and set(waits[:10]) == {0}


def test_a_program_that_cannot_start_leaves_no_descriptor(box: Sandbox) -> None:
    """R16; two thousand of them are in test_leaks.py."""
    assert box.run(["/bin/true"]).ok and box.run(["/bin/true"]).ok  # both slots are there
    before = sorted(os.listdir("/proc/self/fd"))
    for program in ("/no/such/program", "no-such", "/etc/passwd", "/tmp"):
        with pytest.raises(ExecError) as failure:
            box.run([program])
        assert (failure.value.stage, failure.value.hint != "") == ("exec", True) and program in failure.value.item
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_limits_are_kept_while_the_host_holds_the_gil(box: Sandbox) -> None:
    """R17: from threads other than the main one, too."""
    limits = Limits(wall_seconds=0.5)
    with ThreadPoolExecutor(4) as pool:
        runs = [pool.submit(box.run, python("while 1: pass"), limits=limits) for _ in range(4)]
        while not all(run.done() for run in runs):
            sum(range(1000))
    assert all(boxes.init_kept_the_limit(run.result()) for run in runs)


# ---- C. Input and output ----


def test_a_program_that_does_not_read_its_stdin_ends_as_it_ends(box: Sandbox) -> None:
    """R19"""
    result = box.run(sh("exit 7"), stdin=b"x" * (64 << 20))
    assert (result.status, result.exit_code) == (Status.NONZERO_EXIT, 7)


@pytest.mark.parametrize("overflow,status", [(Overflow.TRUNCATE, Status.WALL_LIMIT), (Overflow.KILL, Status.OUTPUT_LIMIT)])
def test_endless_output_is_bounded_counted_and_said(overflow: Overflow, status: Status, box: Sandbox) -> None:
    """R21"""
    result = box.run(["/usr/bin/yes"], limits=Limits(wall_seconds=0.5, stdout_bytes=4096, on_overflow=overflow))
    assert (result.status, len(result.stdout), result.stdout_truncated) == (status, 4096, True)
    assert result.stdout_total > 4096 and result.stdout == b"y\n" * 2048


def test_text_is_utf_8_without_a_locale_of_the_hosts(box: Sandbox) -> None:
    """R23"""
    result = box.run(python("import sys,locale; print(sys.stdout.encoding, locale.getpreferredencoding(), '\\u20ac')"), env={})
    assert result.ok and result.text.lower() == "utf-8 utf-8 \u20ac\n"
    assert box.run(python("import os; print(os.environ['LC_ALL'])"), env={"LC_ALL": "C"}).text == "C\n"


@pytest.mark.kernel
def test_a_push_into_a_terminal_is_refused(box: Sandbox) -> None:
    """R25: with the guest's stdin a terminal's worst case, no terminal at all; the filter refuses it besides."""
    push = "fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), termios.TIOCSTI, b'x'); print('BAD')"
    assert box.run(python(f"import fcntl,termios,os\ntry:\n {push}\nexcept OSError: print('refused')")).text == "refused\n"
    assert boxes.attempts(box, "tiocsti , tioclinux") == {"tiocsti": 1, "tioclinux": 1}


# ---- D. Memory and time ----


def test_page_cache_is_not_memory(tmp_path: Path) -> None:
    """R26"""
    tmp_path.chmod(0o755)
    (tmp_path / "big.bin").write_bytes(bytes(128 << 20))
    with Sandbox(Policy.strict(readable=[(str(tmp_path), "/data")])) as box:
        result = box.run(["/usr/bin/wc", "-c", "/data/big.bin"], limits=Limits(memory_bytes=64 * MIB))
    assert result.ok and result.usage.peak_memory_bytes < 16 * MIB


def test_hello_world_does_not_use_what_the_host_does() -> None:
    """R28"""

    def large_host() -> None:
        ballast = bytearray(512 * MIB)
        ballast[::4096] = b"x" * len(ballast[::4096])
        assert run(["/bin/true"]).usage.peak_memory_bytes < 16 * MIB

    boxes.in_a_host(large_host)


def test_run_times_that_reserve_much_start_at_a_small_limit(box: Sandbox, needs: Callable[[str], None]) -> None:
    """R29: memory is what is resident; many threads with large stacks are not."""
    assert box.run(verbs("reserve 20000 , threads 40 , eat 20"), limits=Limits(memory_bytes=64 * MIB)).ok
    needs("node")
    assert box.run(["node", "-e", "console.log(1)"], limits=Limits(memory_bytes=256 * MIB)).stdout == b"1\n"


def test_out_of_memory_is_told_from_a_crash(box: Sandbox) -> None:
    """R30: a kill, an image that does not fit, and neither."""
    limits = Limits(memory_bytes=128 * MIB)
    assert box.run(python(TOUCH.format(mb=400)), limits=limits).status is Status.MEMORY_LIMIT
    assert box.run(sh("kill -9 $$"), limits=limits).status is Status.SIGNALED
    refused = box.run(python("b=bytearray(900<<20)"), limits=Limits(memory_bytes=128 * MIB, address_space_bytes=256 * MIB))
    assert refused.status is Status.NONZERO_EXIT and refused.hint is not None and "address_space_bytes" in refused.hint


def test_runs_at_once_do_not_share_a_memory_limit(box: Sandbox) -> None:
    """R32"""
    argv = python(f"{TOUCH.format(mb=40)}; import time; time.sleep(0.3)")
    assert {result.status for result in at_once(box, 8, argv, Limits(memory_bytes=64 * MIB))} == {Status.OK}


def test_neither_sleep_nor_forks_evade_a_limit_of_time(box: Sandbox) -> None:
    """R33"""
    asleep = box.run(["/bin/sleep", "99"], limits=Limits(cpu_seconds=1, wall_seconds=0.5))
    assert asleep.status is Status.WALL_LIMIT
    spreads = python("import os\nfor _ in range(3): os.fork()\nwhile 1: pass")
    spread = box.run(spreads, limits=Limits(cpu_seconds=0.5, wall_seconds=20))
    assert spread.status is Status.CPU_LIMIT and spread.usage.cpu_seconds < 1


def test_cpu_time_does_not_grow_with_neighbours(box: Sandbox) -> None:
    """R34: it is that of plain processes in the same crowd, which share caches and cores as boxes do, and not the crowd's."""
    argv = python("sum(i*i for i in range(1_000_000))")

    def plain() -> float:
        used = os.wait4(os.posix_spawn(argv[0], argv, {}), 0)[2]
        return used.ru_utime + used.ru_stime

    with ThreadPoolExecutor(16) as pool:
        beside = [pool.submit(plain) for _ in range(8)]
        crowd = [pool.submit(box.run, argv, limits=Limits(wall_seconds=300)) for _ in range(8)]
        costs = [run.result().usage for run in crowd]
        bare = [one.result() for one in beside]
    assert statistics.median(cost.cpu_seconds for cost in costs) < 3 * statistics.median(bare)
    assert sum(cost.involuntary_switches for cost in costs) > 0
