"""Hosts with unusual settings: a box is the same in all of them."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import threading
import time
from collections.abc import Callable

import boxes
import pytest
from boxes import Guests, verbs

from sandbox_native import Sandbox, Status

pytestmark = pytest.mark.needs("userns")


def close_standard_streams() -> None:
    for fd in (0, 1):
        os.close(fd)


def move_to_a_directory_that_is_gone() -> None:
    path = f"/tmp/host-conditions-{os.getpid()}"
    os.mkdir(path)
    os.chdir(path)
    os.rmdir(path)


def be_interrupted_all_the_time() -> None:
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)


def open_two_thousand_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(2000)]
    assert max(held) > 1024


def wait_for_any_child() -> None:
    def take() -> None:
        while True:
            try:
                assert os.waitpid(-1, 0) is None, "a process of ours is the host's child"
            except ChildProcessError:
                time.sleep(0.0005)

    threading.Thread(target=take, daemon=True).start()


ODD: dict[str, Callable[[], object]] = {
    "a closed stdin and stdout": close_standard_streams,
    "a umask that hides everything": lambda: os.umask(0o777),
    "a directory that is gone": move_to_a_directory_that_is_gone,
    "a timer that interrupts it all the time": be_interrupted_all_the_time,
    "two thousand open files": open_two_thousand_files,
    "somebody who waits for any child": wait_for_any_child,
    "SIGCHLD ignored": lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN),
    "SIGPIPE at its default": lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL),
    "every signal blocked": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()),
    "no_new_privs": lambda: ctypes.CDLL(None).prctl(38, 1, 0, 0, 0),
    "a core size of nothing": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
    "hostile variables": lambda: os.environ.update(LD_PRELOAD="/nonexistent.so", LD_LIBRARY_PATH="/tmp", TMPDIR="/nonexistent"),
}


@pytest.mark.parametrize("what", ODD)
def test_a_host_with(what: str, guest: Guests) -> None:
    def work() -> None:
        ODD[what]()
        with Sandbox(boxes.strict(guest)) as box:
            for _ in range(3):
                result = box.run(verbs("write 2 3 , cat"), stdin=b"x" * 300_000, files={"a/b": b"1"})
                assert (result.status, result.stdout_total, result.stderr) == (Status.OK, 300_000, b"xxx")
                assert box.run(verbs("exit 3")).exit_code == 3
                assert box.run(["/bin/sh", "-c", "ls -d / /usr /etc/passwd /home/guest && touch /tmp/x ~/x x"]).ok
                assert box.run(["/bin/sh", "-c", "exit 5"], stdin=b"x" * 300_000).exit_code == 5

    boxes.in_a_host(work)
