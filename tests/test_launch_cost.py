"""What one launch costs in system calls does not grow unnoticed: bench/record.json has what it was.

A change that is meant to cost more writes the record anew (`python -m sandbox_native.bench.calls --record bench/record.json`)
and says why. The count is the same on a busy machine. Instructions are not counted: valgrind follows no process into namespaces
of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sandbox_native.bench.calls import ROLES, by_role, count_calls, difference, totals

RECORD = Path(__file__).parent.parent / "bench" / "record.json"
GROWTH = 1.10


@pytest.mark.needs("strace", "root", "userns", "cgroup1")  # init lets only root look; the record is of that kind of group
def test_one_launch_makes_no_more_calls_than_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    kind, now = count_calls()
    then = json.loads(RECORD.read_text())[kind]
    told = difference(now, then)
    with capsys.disabled():
        if now != then:
            print(f"\nsystem calls of one launch, now and as recorded:\n{told}")
    grown = {role: (count, totals(then)[role]) for role, count in totals(now).items() if count > GROWTH * totals(then)[role]}
    assert not grown, told


def test_the_record_has_every_role() -> None:
    for counts in json.loads(RECORD.read_text()).values():
        assert tuple(counts) == ROLES and all(count > 10 for count in totals(counts).values())


TRACES = {
    1: [
        'openat(AT_FDCWD, "/etc/passwd") = 3',
        'access("/sandbox-native-mark-0", F_OK) = -1',
        "sendmsg(5) = 1",
        "close(3) = 0",
        'access("/sandbox-native-end-0", F_OK) = -1',
        "close(4) = 0",
    ],
    2: [
        "read(3) = 0",
        "clone3({flags=CLONE_NEWNS|CLONE_NEWPID, exit_signal=SIGCHLD}, 88) = 3",
        "wait4(3) = 3",
        "read(4) = 0",
        "clone3({flags=CLONE_NEWNS|CLONE_NEWPID, exit_signal=SIGCHLD}, 88) = 5",
        "wait4(5) = 5",
    ],
    3: ['mount("tmpfs") = 0', "exit_group(0) = ?"],
    4: ["setsid() = 2", 'execve("/mnt/bench/tiny", ["/mnt/bench/tiny"]) = 0', "exit_group(0) = ?"],
    5: ['mount("tmpfs") = 0', "exit_group(2) = ?"],  # nobody wanted this box
    6: ["getpid() = 6", 'execve("/usr/bin/true") = 0', "exit_group(0) = ?"],
}


def test_calls_are_counted_by_who_makes_them() -> None:
    assert by_role(TRACES) == {
        "host": {"close": 1, "sendmsg": 1},
        "slot": {"clone3": 1, "read": 1, "wait4": 1},
        "init": {"exit_group": 1, "mount": 1},
        "guest": {"execve": 1, "setsid": 1},
    }


def test_a_role_that_strace_did_not_see_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no guest"):
        by_role({pid: lines for pid, lines in TRACES.items() if pid != 4})


def test_the_difference_names_the_calls() -> None:
    now = by_role(TRACES)
    then = {**now, "guest": {"execve": 1}, "host": {"close": 3, "sendmsg": 1}}
    assert difference(now, then).splitlines() == [
        "host: 2 calls, recorded 4",
        "    close: 1, recorded 3",
        "slot: 3 calls, recorded 3",
        "init: 2 calls, recorded 2",
        "guest: 2 calls, recorded 1",
        "    setsid: 1, recorded 0",
    ]
