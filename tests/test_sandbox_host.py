"""Sandbox and run() in a host that forks, is interrupted, has threads, runs out of descriptors or loses its launcher."""

from __future__ import annotations

import _thread
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from running import PYTHON, kill_all, launchers, nap, sh, sleepers

from sandbox_native import (
    Limits,
    Policy,
    Sandbox,
    SandboxError,
    SetupError,
    Status,
    run,
    runner,
)

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# ---- a host in trouble ----


def test_no_descriptors_left_is_a_setup_error_and_passes(sandbox: Sandbox) -> None:
    sandbox.run(["/bin/true"]), sandbox.run(["/bin/true"])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    for room in range(12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + room, hard))
        try:
            sandbox.run(["/bin/true"])
        except SetupError as error:
            assert error.errno == errno.EMFILE
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert sandbox.run(["/bin/true"]).ok


def test_sigchld_ignored_in_the_host_changes_nothing(sandbox: Sandbox) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert sandbox.run(sh("exit 3")).exit_code == 3
        assert run(sh("exit 3")).exit_code == 3
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_the_host_gets_no_sigchld(sandbox: Sandbox) -> None:
    seen = []
    before = signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    try:
        with Sandbox() as another:
            another.run(["/bin/true"])
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert not seen


def test_a_killed_launcher_fails_a_run_and_not_the_next(sandbox: Sandbox) -> None:
    sandbox.run(["/bin/true"])
    kill_all(launchers())
    with pytest.raises(SetupError):
        while True:  # the first run may be in time
            sandbox.run(["/bin/true"])
    assert sandbox.run(sh("echo again")).stdout == b"again\n"


def test_a_launcher_killed_during_a_run_is_a_setup_error(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh(f"echo started; sleep {nap(302)}")) as process:
        assert process.stdout.readline() == b"started\n"
        kill_all(launchers())
        with pytest.raises(SetupError):
            process.wait(60)
    assert not sleepers(302)
    assert sandbox.run(["/bin/true"]).ok


@pytest.mark.needs("cgroup")
def test_what_a_run_cost_is_told_also_when_the_kernel_ended_init_for_memory(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On cgroup v1 init is in the guest's group, and a guest whose memory is all in files is the smaller of the two."""
    with sandbox.spawn(sh("echo up; while :; do :; done")) as process:
        assert process.stdout.readline() == b"up\n"
        box: Any = process._run.box
        version = 1 if box.slot.cpu_ns() else 2
        while 0 < box.slot.cpu_ns() < 100_000_000:
            pass
        monkeypatch.setattr(type(box.slot), "lost_to_oom", lambda slot: True)
        signal.pidfd_send_signal(box._raw.pidfd, signal.SIGKILL)
        result = process.wait(60)
    assert result.status is Status.MEMORY_LIMIT
    assert version == 2 or result.usage.cpu_seconds > 0.05


def test_ctrl_c_ends_the_box_and_is_raised(sandbox: Sandbox) -> None:
    limits = Limits(wall_seconds=300)
    before = time.monotonic()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run(sh(f"sleep {nap(303)}"), limits=limits)
    timer.join()
    assert time.monotonic() - before < limits.wall_seconds / 3
    assert not sleepers(303)
    assert sandbox.run(["/bin/true"]).ok


def test_a_forked_host_runs_in_a_launcher_of_its_own(sandbox: Sandbox) -> None:
    assert sandbox.run(["/bin/true"]).ok
    assert run(["/bin/true"]).ok
    running = sandbox.spawn(sh("read x; echo $x"))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if sandbox.run(sh("exit 4")).exit_code == 4 and run(sh("exit 5")).exit_code == 5:
                code = 0
            sandbox.close()
            runner.close_cached()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert running.stdin is not None
    running.stdin.write(b"still here\n")
    assert running.wait().stdout == b"still here\n"
    assert sandbox.run(["/bin/true"]).ok


def test_close_ends_what_runs_elsewhere() -> None:
    sandbox = Sandbox()
    ended: list[Status | str] = []

    def body() -> None:
        try:
            ended.append(sandbox.run(sh(f"sleep {nap(304)}"), limits=Limits(wall_seconds=60)).status)
        except SandboxError as error:
            ended.append(str(error))

    thread = threading.Thread(target=body)
    process = sandbox.spawn(sh(f"echo up; sleep {nap(304)}"))
    thread.start()
    assert process.stdout.readline() == b"up\n"
    while len(sleepers(304)) < 2:
        pass
    sandbox.close()
    thread.join(60)
    assert ended == [Status.CANCELLED]
    assert process.wait().status is Status.CANCELLED
    assert not sleepers(304)


def test_a_signal_handler_may_close_the_sandbox_that_waits(sandbox: Sandbox) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: sandbox.close())
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        result = sandbox.run(sh(f"sleep {nap(305)}"), limits=Limits(wall_seconds=60))
    except SetupError as error:
        assert error.stage == "lost"
    else:
        assert result.status is Status.CANCELLED
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not sleepers(305)


# A library that was there first has the interpreter's hook for finalizers before us.
AT_EXIT = """
import os, weakref
class Theirs: pass
of_another_library = Theirs()
weakref.finalize(of_another_library, print, "theirs")
from sandbox_native import run
from sandbox_native.backends import prepare
def release(hierarchy):
    print("ours", [name for root in hierarchy.roots for name in os.listdir(root) if f"-{os.getpid()}-" in name])
prepare.release = release
run(["/bin/true"])
"""


@pytest.mark.needs("cgroup")
def test_at_exit_the_hosts_own_group_is_as_it_was_once_the_sandboxes_are_gone() -> None:
    told = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, check=True, cwd=Path(__file__).parents[1]).stdout
    assert told == b"ours []\ntheirs\n"


def test_a_sandbox_that_is_forgotten_cleans_up() -> None:
    Sandbox().run(["/bin/true"])  # the fixture of all tests looks for what it leaves


# ---- threads ----


def test_runs_of_many_threads_do_not_mix(sandbox: Sandbox) -> None:
    wrong = []

    def body(number: int) -> None:
        for turn in range(5):
            result = sandbox.run(sh(f"echo {number} {turn}"), limits=Limits(wall_seconds=60))
            if result.stdout != f"{number} {turn}\n".encode():
                wrong.append(result)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_run_outlives_the_thread_that_started_it(sandbox: Sandbox) -> None:
    started = []
    thread = threading.Thread(target=lambda: started.append(sandbox.spawn(sh("sleep 0.3; echo done"))))
    thread.start()
    thread.join()
    assert started[0].wait().stdout == b"done\n"


def test_parallel_runs_have_memory_limits_of_their_own(sandbox: Sandbox) -> None:
    code = "b = bytearray(40 << 20)\nb[::4096] = b'x' * len(b[::4096])"
    limits = Limits(memory_bytes=64 << 20, wall_seconds=60)
    statuses = []
    threads = [
        threading.Thread(target=lambda: statuses.append(sandbox.run([PYTHON, "-c", code], limits=limits).status))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [Status.OK] * 6


# ---- run() ----


def test_run_keeps_eight_sandboxes_and_closes_the_oldest() -> None:
    for number in range(10):
        assert run(["/bin/hostname"], policy=Policy.strict(hostname=f"box{number}")).text == f"box{number}\n"
    kept = [policy.hostname for policy in runner._CACHE._kept]
    assert kept == [f"box{number}" for number in range(2, 10)]


def test_run_with_limits_and_policy() -> None:
    result = run(sh("ulimit -n"), policy=Policy.light(), limits=Limits(open_files=77))
    assert result.stdout == b"77\n"


def test_close_cached_can_be_followed_by_a_run() -> None:
    assert run(["/bin/true"]).ok
    runner.close_cached()
    runner.close_cached()
    assert run(["/bin/true"]).ok
