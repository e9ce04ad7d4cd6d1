"""What the kernel counts for each user: guests may use it up for themselves, never for the host.

As root the guests are another user, also for the accounts above their namespace. A plain user's guests are that user,
so they have a share.
"""

from __future__ import annotations

import ctypes
import os

import pytest
from running import PYTHON

import sandbox_native as sn

pytestmark = pytest.mark.needs("userns")

# Takes all that there is, says how many these were, and holds them until its stdin ends.
TAKE_INOTIFY = """
import ctypes, sys
libc, taken = ctypes.CDLL(None), 0
while taken < 250 and libc.inotify_init1(0) >= 0:
    taken += 1
print(taken, flush=True)
sys.stdin.read()
"""
TAKE_SIGNALS = """
import ctypes, sys
libc, taken = ctypes.CDLL(None), 0
event, timer = (ctypes.c_byte * 64)(), ctypes.c_void_p()
while taken < 5000 and libc.timer_create(1, None, ctypes.byref(timer)) == 0:
    taken += 1
print(taken, flush=True)
sys.stdin.read()
"""


def host_inotify() -> int:
    """How many instances the host can have now."""
    libc, taken = ctypes.CDLL(None), []
    while len(taken) < 250 and (fd := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
        taken.append(fd)
    for fd in taken:
        os.close(fd)
    return len(taken)


def queued_signals() -> int:
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("SigQ:"))
    return int(line.split()[1].split("/")[0])


def test_a_guest_that_takes_all_inotify_leaves_the_host_its_own() -> None:
    before = host_inotify()
    with sn.Sandbox(limits=sn.Limits(open_files=512)) as sandbox, sandbox.spawn([PYTHON, "-c", TAKE_INOTIFY]) as process:
        taken = int(process.stdout.readline())
        during = host_inotify()
        process.stdin.close()
        assert process.wait().ok
    assert taken > 0
    if os.geteuid() == 0:
        assert during == before
    else:
        assert taken <= 64
        assert during >= before - 64 > 0


@pytest.mark.needs("root")
def test_a_guests_timers_are_not_counted_for_the_hosts_root() -> None:
    before = queued_signals()
    with sn.Sandbox() as sandbox, sandbox.spawn([PYTHON, "-c", TAKE_SIGNALS]) as process:
        taken = int(process.stdout.readline())
        during = queued_signals()
        process.stdin.close()
        assert process.wait().ok
    assert taken > 100
    assert during <= before + 5
