"""Where the time of a launch goes: every moment is given to one step."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sandbox_native.bench import steps, timeline
from sandbox_native.bench.timeline import OWN, WAKING, Event, between, events, parents, roles, shares, spans

HOST, SLOT, INIT, GUEST = 10, 20, 30, 40
NAMES = {1: "sendmsg", 2: "epoll_wait", 3: "wait4", 4: "mount", 5: "execve", 6: "futex", 7: "clone3"}
TRACE = """\
# tracer: nop
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          python-10      [001] .....  0.500000: sys_exit: NR 99 = 0
  sandbox-native-20      [000] .....  0.500000: sys_enter: NR 3 (ffff, 0, 0, 0, 0, 0)
          python-10      [001] .....  1.000000: sys_enter: NR 1 (5, 0, 0, 0, 0, 0)
          python-10      [001] .....  1.100000: sys_exit: NR 1 = 528
  sandbox-native-20      [000] .....  1.150000: sys_exit: NR 3 = 0
          python-10      [001] .....  1.200000: sys_enter: NR 2 (5, 0, 0, 0, 0, 0)
  sandbox-native-20      [000] .....  1.200000: sys_enter: NR 7 (5, 0, 0, 0, 0, 0)
  sandbox-native-20      [000] .....  1.500000: sched_process_fork: comm=sn pid=20 child_comm=sn child_pid=30
  sandbox-native-20      [000] .....  1.500000: sys_exit: NR 7 = 30
  sandbox-native-20      [000] .....  1.500000: sys_enter: NR 3 (ffff, 0, 0, 0, 0, 0)
  sandbox-native-30      [001] d..2.  1.600000: sys_enter: NR 4 (5, 0, 0, 0, 0, 0)
  sandbox-native-30      [001] .....  1.800000: sys_exit: NR 4 = 0
  sandbox-native-30      [001] .....  1.800000: sched_process_fork: comm=sn pid=30 child_comm=sn child_pid=40
  sandbox-native-30      [001] .....  1.800000: sys_enter: NR 6 (5, 0, 0, 0, 0, 0)
  sandbox-native-40      [000] .....  1.900000: sys_enter: NR 5 (5, 0, 0, 0, 0, 0)
            tiny-40      [000] .....  2.200000: sys_exit: NR 5 = 0
            tiny-40      [000] .....  2.300000: sched_process_exit: comm=tiny pid=40 prio=120
  sandbox-native-30      [001] .....  2.400000: sys_exit: NR 6 = 0
  sandbox-native-30      [001] .....  2.400000: sys_enter: NR 1 (5, 0, 0, 0, 0, 0)
  sandbox-native-30      [001] .....  2.500000: sys_exit: NR 1 = 280
          python-10      [001] .....  2.600000: sys_exit: NR 2 = 1
          python-10      [001] .....  2.900000: sys_enter: NR 99 (5, 0, 0, 0, 0, 0)
"""


def test_roles_follow_from_who_forked_whom() -> None:
    found = events(TRACE.splitlines())
    assert roles(found, parents(found), HOST, 5, 0.9, 2.8) == {HOST: "host", SLOT: "slot", INIT: "init", GUEST: "guest"}


def test_a_window_without_a_guest_is_an_error() -> None:
    with pytest.raises(ValueError, match="no guest"):
        roles(events(TRACE.splitlines()), {}, HOST, 5, 2.5, 2.8)


def test_every_moment_is_given_to_the_foremost_that_works() -> None:
    found = events(TRACE.splitlines())
    known = roles(found, parents(found), HOST, 5, 0.9, 2.8)
    steps_of = shares(spans(found, known, NAMES, 0.9, 2.8), 0.9, 2.8)
    assert sum(steps_of.values()) == pytest.approx(1.9)
    wanted = {
        ("host", OWN): 0.1 + 0.05 + 0.2,  # before it sends, until the slot goes on, and at the end
        ("host", "sendmsg"): 0.1,
        ("slot", OWN): 0.05,
        ("slot", "clone3"): 0.3,
        ("init", OWN): 0.1,
        ("init", "mount"): 0.2,
        ("init", "sendmsg"): 0.1,
        ("guest", OWN): 0.1 + 0.1,  # up to execve, and the program itself
        ("guest", "execve"): 0.3,
        WAKING: 0.1 + 0.1,  # init after the guest's end, the host after the report
    }
    assert steps_of == {step: pytest.approx(seconds) for step, seconds in wanted.items()}


def test_a_run_is_cut_out_with_what_came_just_before() -> None:
    found = [Event(float(at), 1, "enter", 0) for at in (1, 2, 2.9, 3, 4, 5)]
    assert [one.seconds for one in between(found, 3, 4)] == [2.9, 3, 4]


def test_what_is_no_event_is_left_out() -> None:
    assert events(["# comment", "", "garbage", "x-1 [0] .. 1.0: sched_wakeup: comm=x pid=1"]) == []
    assert events(["a b-7 [000] ..... 1.5: sys_enter: NR 9 (1)"]) == [Event(1.5, 7, "enter", 9)]


@pytest.mark.needs("root", "userns")
def test_a_launch_is_traced_here(capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own: it moves into another mount namespace."""
    if not Path("/sys/kernel/tracing").exists():
        pytest.skip("needs tracefs: this kernel has none")
    command = [sys.executable, "-m", steps.__name__, "--runs", "6", "--least", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| init | mount |" in done.stdout and "| guest | execve | 1 |" in done.stdout and timeline.OWN in done.stdout
