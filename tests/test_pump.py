"""What goes in and out of a box while it runs (csrc/host/pump.c, streams.c, stdin.c), and how runs end without a report."""

from __future__ import annotations

import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from sandbox_native import Limits, Overflow, Policy, Process, Result, Sandbox, SetupError, Status, run

pytestmark = pytest.mark.kernel

MIB = 1 << 20
PIPE = 65536
Runner = Callable[..., Result]


@pytest.fixture
def verbs(guest: Mapping[str, Path]) -> str:
    return str(guest["verbs"])


@pytest.fixture
def policy(verbs: str) -> Policy:
    return Policy.strict(readable=[(verbs, "/verbs")])


@pytest.fixture
def do(policy: Policy) -> Runner:
    def runner(*words: object, **options: object) -> Result:
        return run(["/verbs", *map(str, words)], policy=policy, **options)  # type: ignore[arg-type]

    return runner


@pytest.fixture
def sandbox(policy: Policy) -> Iterator[Sandbox]:
    with Sandbox(policy) as made:
        yield made


def pattern(size: int) -> bytes:
    """Bytes that show where one is lost or doubled."""
    return array("Q", range(size // 8)).tobytes()


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def init_pid(process: Process) -> int:
    """Of a run that has started."""
    raw = process._box._raw  # type: ignore[attr-defined]
    while raw.pidfd < 0:
        process.poll()
    found = re.search(r"^Pid:\t(\d+)$", Path(f"/proc/self/fdinfo/{raw.pidfd}").read_text(), re.MULTILINE)
    assert found
    return int(found[1])


class TestInput:
    def test_64_mib_go_in_and_come_out_at_once(self, do: Runner) -> None:
        data = pattern(64 * MIB)
        result = do("cat", stdin=data, limits=Limits(stdout_bytes=64 * MIB, wall_seconds=60))
        assert result.stdout == data
        assert result.status is Status.OK

    def test_input_that_nobody_reads_is_no_error(self, do: Runner) -> None:
        assert do("echo", "done", stdin=bytes(4 * MIB)).stdout == b"done\n"

    def test_input_whose_reader_closed_it_is_no_error(self, do: Runner) -> None:
        result = do("read", 10, ",", "close", 0, ",", "sleep", 50, ",", "echo", "done", stdin=bytes(4 * MIB))
        assert (result.status, result.stdout) == (Status.OK, b"read bytes=10\ndone\n")

    @pytest.mark.parametrize("size", [0, 1, PIPE, PIPE + 1])
    def test_input_ends_where_it_ends(self, do: Runner, size: int) -> None:
        assert do("cat", stdin=bytes(size)).stdout == bytes(size)

    def test_no_input_is_an_end_at_once(self, do: Runner) -> None:
        assert do("read", 1).stdout == b"read bytes=0\n"

    def test_broken_pipe_does_not_signal_a_host_that_left_sigpipe_at_its_default(self, verbs: str) -> None:
        """Python ignores SIGPIPE; a host that embeds it or set it back does not."""
        code = """
import signal, sys
from sandbox_native import Policy, run
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
policy = Policy.strict(readable=[(sys.argv[1], "/verbs")])
for _ in range(3):
    result = run(["/verbs", "close", "0", ",", "sleep", "20"], stdin=bytes(4 << 20), policy=policy)
    assert result.ok, result
assert signal.SIGPIPE not in signal.sigpending()
"""
        subprocess.run([sys.executable, "-c", code, verbs], check=True, cwd=Path(__file__).parent.parent)

    def test_pending_sigpipe_of_the_host_stays_pending(self, do: Runner) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGPIPE])
        try:
            signal.pthread_kill(threading.get_ident(), signal.SIGPIPE)
            assert do("close", 0, ",", "sleep", 20, stdin=bytes(MIB)).ok
            assert signal.SIGPIPE in signal.sigpending()
            signal.sigtimedwait([signal.SIGPIPE], 0)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class TestRelay:
    def test_file_is_relayed_whole(self, do: Runner, tmp_path: Path) -> None:
        data = pattern(8 * MIB)
        (tmp_path / "input").write_bytes(data)
        assert do("cat", stdin=tmp_path / "input", limits=Limits(stdout_bytes=8 * MIB)).stdout == data

    @pytest.mark.parametrize(
        "make", [os.pipe, lambda: tuple(end.detach() for end in socket.socketpair())], ids=["pipe", "socket"]
    )
    def test_pipe_and_socket_are_relayed_as_they_fill(self, do: Runner, make: Callable[[], tuple[int, int]]) -> None:
        source, sink = make()
        data = pattern(4 * MIB)

        def fill() -> None:
            with open(sink, "wb", buffering=0) as file:
                for at in range(0, len(data), 100_000):
                    file.write(data[at : at + 100_000])

        writer = threading.Thread(target=fill)
        writer.start()
        try:
            assert do("cat", stdin=source, limits=Limits(stdout_bytes=4 * MIB)).stdout == data
        finally:
            writer.join()
            os.close(source)

    def test_relayed_descriptor_stays_open_and_blocking(self, do: Runner) -> None:
        source, sink = os.pipe()
        try:
            os.write(sink, b"one\n")
            assert do("read", 4, stdin=source).stdout == b"read bytes=4\n"
            assert os.get_blocking(source)
        finally:
            os.close(source)
            os.close(sink)

    def test_silent_source_costs_no_cpu_and_delays_no_end(self, do: Runner) -> None:
        source, sink = os.pipe()
        try:
            before = cpu_seconds()
            result = do("sleep", 400, stdin=source)
            assert cpu_seconds() - before < 0.2
            assert result.status is Status.OK
        finally:
            os.close(source)
            os.close(sink)

    def test_source_that_ended_costs_no_cpu_while_the_guest_does_not_read(self, do: Runner) -> None:
        source, sink = os.pipe()
        try:
            os.write(sink, bytes(PIPE))
            os.close(sink)
            before = cpu_seconds()
            assert do("sleep", 400, stdin=source).ok
            assert cpu_seconds() - before < 0.2
        finally:
            os.close(source)


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

    def test_endless_output_costs_the_host_no_memory(self, do: Runner) -> None:
        do("echo", "warm")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = do("flood", 1, limits=Limits(stdout_bytes=PIPE, wall_seconds=0.5))
        assert (result.status, len(result.stdout)) == (Status.WALL_LIMIT, PIPE)
        assert result.stdout_total > 10 * MIB
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
        started = time.monotonic()
        result = do("hold", 60_000, ",", "write", 1, 50_000, limits=Limits(wall_seconds=30))
        assert time.monotonic() - started < 20
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
        limits = Limits(stdout_bytes=4096, wall_seconds=1)
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
    def test_init_that_does_not_keep_its_deadline_is_ended_by_the_host(self, sandbox: Sandbox, factor: float) -> None:
        with sandbox.spawn(["/verbs", "pause"], limits=Limits(wall_seconds=0.2)) as process:
            os.kill(init_pid(process), signal.SIGSTOP)
            result = process.wait(timeout=10 * factor)
        assert result.status is Status.WALL_LIMIT
        assert result.usage.wall_seconds >= 0.2

    def test_init_that_vanishes_is_our_failure(self, sandbox: Sandbox) -> None:
        with sandbox.spawn(["/verbs", "pause"]) as process:
            os.kill(init_pid(process), signal.SIGKILL)
            with pytest.raises(SetupError) as caught:
                process.wait()
        assert caught.value.stage == "lost"
        assert sandbox.run(["/verbs", "exit", "4"]).exit_code == 4, "and the next run works"

    def test_killing_twice_ends_even_an_init_that_does_not_answer(self, sandbox: Sandbox) -> None:
        with sandbox.spawn(["/verbs", "pause"], limits=Limits(wall_seconds=60)) as process:
            os.kill(init_pid(process), signal.SIGSTOP)
            process.kill()
            process.kill()
            assert process.wait(timeout=20).status is Status.CANCELLED

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
