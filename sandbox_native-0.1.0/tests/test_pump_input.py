"""What the host feeds a box (csrc/host/stdin.c): memory, files, pipes and sockets of the caller's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pumped import MIB, PIPE, Guests, Runner, cpu_seconds, pattern, runner

from sandbox_native import Limits, Status

pytestmark = pytest.mark.kernel


@pytest.fixture
def do(guest: Guests) -> Runner:
    return runner(guest)


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

    def test_broken_pipe_does_not_signal_a_host_that_left_sigpipe_at_its_default(self, guest: Guests) -> None:
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
        subprocess.run([sys.executable, "-c", code, str(guest["verbs"])], check=True, cwd=Path(__file__).parent.parent)

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
