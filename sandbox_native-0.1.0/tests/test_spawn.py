"""How the launcher is started and seen off (csrc/host/spawn.c), with tests/probes/started.c in its place."""

from __future__ import annotations

import errno
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from launched import CLOSE_MS, Failed, launched, start, told

from sandbox_native._native import lib

pytestmark = pytest.mark.kernel

Guests = Mapping[str, Path]


PREAMBLE = """
import ctypes, errno, os, signal, sys
from launched import *
from sandbox_native._native import lib
started = sys.argv[1]
"""


def ended(pidfd: int, seconds: float = 5.0) -> bool:
    return bool(select.select([pidfd], [], [], seconds)[0])


def in_another_host(code: str, *arguments: str) -> str:
    """Runs `code` in a fresh Python host, in which `started` is the probe's path and descriptor 9 takes what it prints."""
    read_end, write_end = os.pipe()
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parent.parent)])
    try:
        subprocess.run(
            [sys.executable, "-c", f"{PREAMBLE}os.dup2({write_end}, 9)\nos.close({write_end})\n{code}", *arguments],
            check=True,
            pass_fds=[write_end],
            env={**os.environ, "PYTHONPATH": path},
        )
    finally:
        os.close(write_end)
    with open(read_end) as output:
        return output.read()


class TestStart:
    def test_launcher_has_four_descriptors_and_nothing_else_of_the_host(self, guest: Guests) -> None:
        left_open = os.open("/dev/zero", os.O_RDONLY)
        os.dup2(left_open, 57, inheritable=True)
        try:
            with launched(guest["started"]) as process:
                facts = told(process)
        finally:
            os.close(left_open)
            os.close(57)
        assert facts["fds"].split() == ["0", "1", "2", "3"]
        assert facts["null"] == "111"
        assert (facts["argc"], facts["argv0"], facts["env"]) == ("1", "sandbox-native-launcher", "0")
        assert facts["leader"] == "1", "a session of its own"

    def test_launcher_has_default_signals_whatever_the_host_does_with_them(self, guest: Guests) -> None:
        handled = signal.signal(signal.SIGUSR1, lambda *_: None)
        ignored = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGRTMIN])
        try:
            with launched(guest["started"]) as process:
                assert told(process)["signals"] == ""
            assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before | {signal.SIGINT, signal.SIGRTMIN}
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            signal.signal(signal.SIGUSR1, handled)
            signal.signal(signal.SIGTERM, ignored)

    def test_closed_standard_descriptors_of_the_host_do_not_matter(self, guest: Guests) -> None:
        """Then the control socket's own number is one of those that the launcher's have."""
        code = """
for fd in (0, 1, 2, 3):
    try:
        os.close(fd)
    except OSError as error:
        assert error.errno == errno.EBADF
with launched(started) as process:
    facts = told(process)
os.write(9, f"{facts['fds']}{facts['null']}".encode())
"""
        assert in_another_host(code, str(guest["started"])).split() == ["0", "1", "2", "3", "111"]

    def test_kernel_without_close_range_is_served_by_a_loop(self, guest: Guests) -> None:
        code = """
refuse(436, errno.ENOSYS)  # close_range
for fd in (20, 300, 999):
    os.dup2(9, fd, inheritable=True)
with launched(started) as process:
    os.write(9, told(process)["fds"].encode())
"""
        assert in_another_host(code, str(guest["started"])) == "0 1 2 3 "

    def test_launcher_outlives_the_thread_that_started_it(self, guest: Guests) -> None:
        made = []
        thread = threading.Thread(target=lambda: made.append(start(guest["started"])))
        thread.start()
        thread.join()
        try:
            told(made[0])
            assert not ended(made[0].pidfd, 0.05)
        finally:
            lib.sn_process_close(made[0], CLOSE_MS, 1)

    @pytest.mark.parametrize(
        ("name", "mode", "error"),
        [("absent", None, errno.ENOENT), ("plain", 0o644, errno.EACCES), ("text", 0o755, errno.ENOEXEC)],
    )
    def test_failed_exec_names_the_path_and_the_errno(self, tmp_path: Path, name: str, mode: int | None, error: int) -> None:
        path = tmp_path / name
        if mode is not None:
            path.write_text("no program\n")
            path.chmod(mode)
        with pytest.raises(Failed) as caught:
            start(path)
        assert (caught.value.code, caught.value.errno) == (-error, error)
        assert (caught.value.stage, caught.value.item) == (lib.SN_STAGE_SPAWN, str(path)[:127])

    def test_start_works_from_threads_at_once(self, guest: Guests) -> None:
        facts = []

        def one() -> None:
            for _ in range(5):
                with launched(program) as process:
                    facts.append(told(process)["fds"])

        program = guest["started"]
        threads = [threading.Thread(target=one) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert facts == ["0 1 2 3 "] * 20


class TestParenthood:
    def test_launcher_is_no_child_of_the_host(self, guest: Guests) -> None:
        with launched(guest["started"]) as process:
            told(process)
            with pytest.raises(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            parent = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[1]
            assert int(parent) != os.getpid()

    def test_host_gets_no_sigchld_at_start_or_end(self, guest: Guests) -> None:
        heard = []
        before = signal.signal(signal.SIGCHLD, lambda *_: heard.append("SIGCHLD"))
        try:
            with launched(guest["started"]) as process:
                told(process)
        finally:
            signal.signal(signal.SIGCHLD, before)
        assert not heard

    def test_waiting_for_any_child_in_another_thread_takes_nothing_of_ours(self, guest: Guests) -> None:
        """As an event loop or another library does."""
        other = subprocess.Popen(["/bin/sleep", "60"])
        taken: list[int] = []
        waiter = threading.Thread(target=lambda: taken.append(os.waitpid(-1, 0)[0]))
        waiter.start()
        try:
            for _ in range(5):
                with launched(guest["started"]) as process:
                    told(process)
        finally:
            other.kill()
            waiter.join()
            other.returncode = -9
        assert taken == [other.pid]

    def test_subreaper_host_reaps_the_launcher_by_closing_it(self, guest: Guests) -> None:
        code = """
assert ctypes.CDLL(None).prctl(36, 1) == 0  # PR_SET_CHILD_SUBREAPER
process = start(started)
told(process)
parent = open(f"/proc/{process.pid}/stat").read().rpartition(")")[2].split()[1]
closed = lib.sn_process_close(process, CLOSE_MS, 0)
try:
    os.waitpid(-1, os.WNOHANG)
except ChildProcessError:
    os.write(9, f"{int(parent) == os.getpid()} {closed} reaped".encode())
"""
        assert in_another_host(code, str(guest["started"])) == "True 0 reaped"


class TestClose:
    def test_closing_ends_a_launcher_that_heeds_its_socket(self, guest: Guests) -> None:
        process = start(guest["started"])
        told(process)
        watch = os.dup(process.pidfd)
        try:
            assert lib.sn_process_close(process, CLOSE_MS, 0) == 0
            assert ended(watch, 0)
        finally:
            os.close(watch)
        assert (process.control, process.pidfd) == (-1, -1)
        assert lib.sn_process_close(process, CLOSE_MS, 1) == 0, "twice is harmless"

    def test_closing_kills_a_launcher_that_does_not(self, guest: Guests) -> None:
        process = start(guest["started"])
        told(process)
        os.kill(process.pid, signal.SIGSTOP)
        started_at = time.monotonic()
        assert lib.sn_process_close(process, 100, 0) == 0
        assert time.monotonic() - started_at >= 0.1

    def test_a_copy_of_the_socket_in_a_forked_child_keeps_nothing_alive(self, guest: Guests) -> None:
        process = start(guest["started"])
        told(process)
        read_end, write_end = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write_end)
            os.read(read_end, 1)
            os._exit(0)
        try:
            started_at = time.monotonic()
            assert lib.sn_process_close(process, 60_000, 0) == 0
            assert time.monotonic() - started_at < 30
        finally:
            os.close(write_end)
            os.close(read_end)
            os.waitpid(child, 0)
