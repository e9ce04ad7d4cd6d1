"""The pure part of control groups: texts from /proc become directories, names become owners."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native.cgroup.values import (
    Gauge,
    Hierarchy,
    Owner,
    candidates,
    parse_counter,
    parse_memberships,
    parse_mounts,
    parse_start_time,
)

V1 = """\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
"""
HYBRID = V1 + "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n"

V1_OWN = "8:pids:/user.slice\n4:memory:/a/b\n3:cpu,cpuacct:/a\n1:name=systemd:/x\n0::/x\n"
V2_OWN = "0::/user.slice/user-1000.slice/run.scope\n"


def found(own: str, mounts: str, controller: str) -> list[str]:
    return list(candidates(parse_memberships(own), parse_mounts(mounts), controller))


def test_gauges_are_those_of_the_wire() -> None:
    wire = (Path(__file__).parent.parent / "csrc/common/wire.h").read_text()
    numbers = {name: int(number) for name, number in re.findall(r"SN_GAUGE_(\w+) = (\d+)", wire)}
    numbers.pop("NONE")
    assert {gauge.name: gauge.value for gauge in Gauge} == numbers


@pytest.mark.parametrize(
    ("mounts", "own", "controller", "directory"),
    [
        (V1, V1_OWN, "memory", "/sys/fs/cgroup/memory/a/b"),
        (V1, V1_OWN, "cpuacct", "/sys/fs/cgroup/cpu,cpuacct/a"),
        (V1, V1_OWN, "cpu", "/sys/fs/cgroup/cpu,cpuacct/a"),
        (HYBRID, V1_OWN, "pids", "/sys/fs/cgroup/pids/user.slice"),
        (HYBRID, V1_OWN, "", "/sys/fs/cgroup/unified/x"),
        (V2, V2_OWN, "", "/sys/fs/cgroup/user.slice/user-1000.slice/run.scope"),
        (V2, "0::/\n", "", "/sys/fs/cgroup"),
    ],
)
def test_own_group_is_found_on_v1_hybrid_and_v2(mounts: str, own: str, controller: str, directory: str) -> None:
    assert found(own, mounts, controller) == [directory]


@pytest.mark.parametrize(
    ("root", "own", "directories"),
    [
        ("/docker/c1", "/docker/c1", ["/sys/fs/cgroup"]),  # a container without a cgroup namespace
        ("/docker/c1", "/docker/c1/job", ["/sys/fs/cgroup/job"]),
        ("/", "/docker/c1", ["/sys/fs/cgroup/docker/c1"]),
        ("/docker/c1", "/docker/c10", []),  # a neighbour, not beneath
        ("/docker/c1", "/", []),
        ("/..", "/", []),  # the mount was made outside our cgroup namespace
        ("/", "/../elsewhere", []),  # we were moved out of our cgroup namespace
    ],
)
def test_the_root_of_a_mount_is_taken_off_our_path(root: str, own: str, directories: list[str]) -> None:
    mounts = f"30 23 0:26 {root} /sys/fs/cgroup ro,nosuid - cgroup2 cgroup rw\n"
    assert found(f"0::{own}\n", mounts, "") == directories


def test_the_newest_mount_comes_first() -> None:
    mounts = V2 + r"31 30 0:26 /user.slice /mnt/my\040groups rw - cgroup2 none rw" + "\n"
    assert found(V2_OWN, mounts, "") == [
        "/mnt/my groups/user-1000.slice/run.scope",
        "/sys/fs/cgroup/user.slice/user-1000.slice/run.scope",
    ]


@pytest.mark.parametrize("mounts", ["", "31 23 0:28 / /sys/fs/cgroup ro - tmpfs tmpfs ro\n"])
def test_nothing_is_found_where_no_hierarchy_is_mounted(mounts: str) -> None:
    assert parse_mounts(mounts) == []
    assert found(V1_OWN, mounts, "memory") == []
    assert found(V1_OWN, mounts, "") == []


def test_a_v1_hierarchy_without_the_controller_is_not_taken() -> None:
    assert found("1:name=systemd:/x\n0::/x\n", HYBRID, "memory") == []


def test_a_group_that_was_removed_is_none() -> None:
    assert parse_memberships("0::/gone (deleted)\n4:memory:/m\n") == {"memory": "/m"}


def test_directories_shared_by_controllers_are_roots_once() -> None:
    hierarchy = Hierarchy(version=1, directories={"memory": "/m", "pids": "/p", "cpu": "/c", "cpuacct": "/c"})
    assert hierarchy.roots == ("/m", "/p", "/c")
    assert hierarchy.limits_cpus


def test_the_detail_says_that_cpus_cannot_be_limited() -> None:
    assert "cpus cannot be limited" in Hierarchy(version=2, directories={"memory": "/m", "pids": "/m"}).detail


@given(st.integers(1, 2**22), st.integers(0, 2**63), st.integers(0, 10**6))
def test_names_lead_back_to_their_owner(pid: int, start: int, number: int) -> None:
    owner = Owner(pid=pid, start_time=start)
    assert Owner.of(owner.name(number)) == owner


FOREIGN = """\
sandbox-native-
sandbox-native-1-2
sandbox-native-1-2-3-4
sandbox-native-x-2-3
sandbox-native--1-2-3
my-sandbox-native-1-2-3
1-2-3"""


@pytest.mark.parametrize("name", [*FOREIGN.splitlines(), "sandbox-native-1-2-3\n"])
def test_names_that_are_not_ours_have_no_owner(name: str) -> None:
    assert Owner.of(name) is None


@pytest.mark.parametrize("name", ["python3", "a) R 1 2 3", "((", "x y z", ")\n) S 0"])
def test_start_time_is_read_behind_any_process_name(name: str) -> None:
    fields = ["S", *(str(number) for number in range(4, 53))]
    assert parse_start_time(f"77 ({name}) {' '.join(fields)}\n") == ("S", 22)


def test_counters_are_matched_by_whole_name() -> None:
    text = b"oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"
    assert parse_counter(text, b"oom_kill") == 7
    assert parse_counter(text, b"oom") == 0
