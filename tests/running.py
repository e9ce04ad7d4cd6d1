"""What the tests of Sandbox and Process share: finding processes from outside, and short names."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

from sandbox_native import Process

PYTHON = "/usr/bin/python3"


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


def nap(seconds: int) -> str:
    """A number for sleep(1) that is this process's own: other test runs on the machine have others."""
    return f"{seconds}.{os.getpid():09}"


def sleepers(seconds: int) -> list[int]:
    """Who sleeps that long."""
    return list(processes_named(f"sleep\0{nap(seconds)}\0"))


def processes_named(word: str) -> Iterator[int]:
    """Processes with that word in their command line, on the host's whole process table."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if word.encode() in line and int(pid) != os.getpid():
            yield int(pid)


def init_pid(process: Process) -> int:
    """Of a run that has started."""
    raw = process._run.box._raw  # type: ignore[attr-defined]
    while raw.pidfd < 0:
        process.poll()
    lines = Path(f"/proc/self/fdinfo/{raw.pidfd}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pid:"))


def looks_of(init: int) -> int:
    """How often it went to sleep: it does so after each of its looks at the tree."""
    (line,) = (line for line in Path(f"/proc/{init}/status").read_text().splitlines() if line.startswith("voluntary"))
    return int(line.split()[1])


def launchers() -> list[int]:
    """Launchers and slots that this process started, found by the descriptors that it holds of them."""
    found = []
    for number in os.listdir("/proc/self/fdinfo"):
        try:
            lines = Path(f"/proc/self/fdinfo/{number}").read_text().splitlines()
        except FileNotFoundError:
            continue
        pids = [int(line.split()[1]) for line in lines if line.startswith("Pid:")]
        found += [pid for pid in pids if pid > 0]
    return found


def kill_all(pids: list[int]) -> None:
    """And they are dead when this returns."""
    for pid in pids:
        try:
            fd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            select.select([fd], [], [])
        except ProcessLookupError:
            pass
        finally:
            os.close(fd)
