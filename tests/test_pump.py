"""What comes out of a box while it runs (csrc/host/pump.c, streams.c), and how runs end without a report."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import PATIENCE
from pumped import MIB, PIPE, Guests, Runner, cpu_seconds, pattern, policy_for, runner
from running import init_pid

from sandbox_native import Limits, Overflow, Sandbox, SetupError, Status, run

pytestmark = pytest.mark.kernel


@pytest.fixture
def do(guest: Guests) -> Runner:
    return runner(guest)


@pytest.fixture
def sandbox(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(policy_for(guest)) as made:
        yield made


class TestOutput:
    def test_head_is_kept_to_the_bound_and_all_is_counted(self, do: Runner) -> None:
        result = do("write", 1, 10 * MIB, ",", "write", 2, 100, limits=Limits(stdout_bytes=1000, stderr_bytes=200))
        assert (result.stdout, result.stdout_total, result.stdout_truncated) == (b"x" * 1000, 10 * MIB, True)
        assert (result.stderr, result.stderr_total, result.stderr_truncated) == (b"x" * 100, 100, False)

    @pytest.mark.parametrize("bound", [1, 4095, 4096, 4097, PIPE])
    def test_output_of_just_the_bound_is_not_truncated(self, do: Runner, bound: int) -> None:
        exact = do("write", 1, bound, limits=Limits(stdout_bytes=bound))
        assert (len(exact.stdout), exact.stdout_truncated) == (bound, False)
        more = do("write", 1, bound + 1, limits=Limits(stdout_bytes=bound))
        assert (len(more.stdout), more.stdout_total, more.stdout_truncated) == (bound, bound + 1, True)

    def test_output_without_end_costs_the_host_no_memory(self, do: Runner) -> None:
        do("echo", "warm")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = do("write", 1, 64 * MIB, limits=Limits(stdout_bytes=PIPE, wall_seconds=60))
        assert (result.status, len(result.stdout), result.stdout_total) == (Status.OK, PIPE, 64 * MIB)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024

    def test_overflow_can_end_the_run(self, do: Runner) -> None:
        result = do("flood", 2, limits=Limits(stderr_bytes=1000, on_overflow=Overflow.KILL, wall_seconds=60))
        assert result.status is Status.OUTPUT_LIMIT
        assert (result.stderr, result.stderr_truncated) == (b"x" * 1000, True)

    def test_output_within_the_bound_does_not_end_it(self, do: Runner) -> None:
        result = do("write", 1, 1000, limits=Limits(stdout_bytes=1000, on_overflow=Overflow.KILL))
        assert (result.status, len(result.stdout)) == (Status.OK, 1000)

    def test_merged_streams_keep_their_order(self) -> None:
        result = run(["/bin/sh", "-c", "echo a; echo b >&2; echo c"], merge_stderr=True)
        assert (result.stdout, result.stderr) == (b"a\nb\nc\n", b"")

    def test_grandchild_that_holds_the_streams_delays_nothing(self, do: Runner) -> None:
        """And what it and its parent wrote is kept."""
        result = do("hold", 60_000, ",", "write", 1, 50_000, limits=Limits(wall_seconds=300))
        assert (result.status, len(result.stdout), result.killed_processes) == (Status.OK, 50_000, 1)

    def test_guest_that_closes_its_streams_runs_on(self, do: Runner) -> None:
        before = cpu_seconds()
        result = do("close", 1, ",", "close", 2, ",", "sleep", 300, ",", "exit", 7)
        assert result.exit_code == 7
        assert cpu_seconds() - before < 0.2


class TestFlow:
    def test_reader_gets_every_byte_of_more_than_the_bound(self, sandbox: Sandbox) -> None:
        limits = Limits(stdout_bytes=PIPE, wall_seconds=60)
        with sandbox.spawn(["/verbs", "write", "1", str(4 * MIB)], limits=limits) as process:
            taken = sum(len(piece) for piece in iter(lambda: process.stdout.read1(1000), b""))
            result = process.wait()
        assert (taken, result.stdout_total) == (4 * MIB, 4 * MIB)

    def test_guest_waits_for_a_reader_that_is_slow(self, sandbox: Sandbox) -> None:
        limits = Limits(stdout_bytes=4096, wall_seconds=0.5)
        with sandbox.spawn(["/verbs", "flood", "1"], limits=limits) as process:
            assert process.stdout.read1(1) == b"x"
            waiter = threading.Thread(target=process.wait)  # another thread than the reader: flow control goes on
            waiter.start()
            waiter.join()
            result = process.wait()
        assert result.status is Status.WALL_LIMIT
        assert result.stdout_total <= 2 * 4096 + PIPE

    def test_written_input_reaches_the_guest_while_its_output_is_read(self, sandbox: Sandbox) -> None:
        data = pattern(2 * MIB)
        received = []
        with sandbox.spawn(["/verbs", "cat"], limits=Limits(wall_seconds=60)) as process:
            reader = threading.Thread(target=lambda: received.append(process.stdout.read()))
            reader.start()
            assert process.stdin is not None
            process.stdin.write(data)
            process.stdin.close()
            reader.join()
            assert process.wait().ok
        assert received == [data]


class TestEnds:
    def test_init_that_does_not_keep_its_deadline_is_ended_by_the_host(self, sandbox: Sandbox) -> None:
        with sandbox.spawn(["/verbs", "pause"], limits=Limits(wall_seconds=0.5)) as process:
            os.kill(init_pid(process), signal.SIGSTOP)
            result = process.wait(PATIENCE)
        assert result.status is Status.WALL_LIMIT
        assert result.usage.wall_seconds >= 0.5

    def test_init_that_vanishes_is_our_failure(self, sandbox: Sandbox) -> None:
        with sandbox.spawn(["/verbs", "pause"]) as process:
            os.kill(init_pid(process), signal.SIGKILL)
            with pytest.raises(SetupError) as caught:
                process.wait()
        assert caught.value.stage == "lost"
        assert sandbox.run(["/verbs", "exit", "4"]).exit_code == 4, "and the next run works"

    def test_killing_twice_ends_even_an_init_that_does_not_answer(self, sandbox: Sandbox) -> None:
        with sandbox.spawn(["/verbs", "pause"], limits=Limits(wall_seconds=600)) as process:
            os.kill(init_pid(process), signal.SIGSTOP)
            process.kill()
            process.kill()
            assert process.wait(PATIENCE).status is Status.CANCELLED

    def test_ignored_sigchld_changes_nothing(self, do: Runner) -> None:
        before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            assert do("exit", 3).exit_code == 3
            assert do("signal", int(signal.SIGTERM)).signal == signal.SIGTERM
        finally:
            signal.signal(signal.SIGCHLD, before)

    def test_run_is_no_child_of_the_host(self, sandbox: Sandbox) -> None:
        with sandbox.spawn(["/verbs", "pause"]) as process:
            init_pid(process)
            with pytest.raises(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)

    @pytest.mark.parametrize("size", [60_000, 65_000, 70_000, 4 * MIB])
    def test_requests_of_any_size_arrive(self, do: Runner, size: int) -> None:
        """A short one travels in the message, a long one in a sealed memfd."""
        result = run(["/bin/cat", "file"], files={"file": pattern(size)}, limits=Limits(stdout_bytes=4 * MIB))
        assert result.stdout == pattern(size)

    def test_long_request_arrives_on_a_kernel_without_noexec_memfds(self) -> None:
        code = """
import errno
from bpf import built_numbers
from launched import refuse
from sandbox_native import run
refuse(built_numbers()["memfd_create"], errno.EINVAL, argument=1, bits=8)  # MFD_NOEXEC_SEAL
assert run(["/bin/cat", "file"], files={"file": bytes(100_000)}).stdout == bytes(100_000)
"""
        tests = Path(__file__).parent
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)])}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment)
