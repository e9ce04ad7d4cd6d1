"""What a dead host left is removed, and a live host's groups are safe from every sweeper."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scope import alone, child

from sandbox_native import cgroup
from sandbox_native.cgroup import Hierarchy, files
from sandbox_native.cgroup.values import Owner

pytestmark = pytest.mark.needs("cgroup")


def dead_host(hierarchy: Hierarchy, *, with_process: bool) -> tuple[tuple[str, ...], int]:
    """A host that was killed with SIGKILL, and with it its launcher: the paths it left, and the pid in its slot."""
    reading, writing = os.pipe()

    def host() -> None:
        group = cgroup.make_group(hierarchy)
        slot = group.new_slot()
        resident = child(lambda: stay(slot.paths)) if with_process else 0
        if with_process:
            while not all(str(resident) in Path(path, "cgroup.procs").read_text().split() for path in slot.paths):
                time.sleep(0.001)
        os.write(writing, "\n".join([str(resident), *group.paths()]).encode())
        time.sleep(600)

    def stay(paths: tuple[str, ...]) -> None:
        for path in paths:
            Path(path, "cgroup.procs").write_text("0")
        os.closerange(3, 100)
        time.sleep(600)

    pid = child(host)
    resident, *paths = os.read(reading, 65536).decode().split("\n")
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)
    return tuple(paths), int(resident)


def test_a_dead_hosts_groups_are_removed_children_first() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        paths, _ = dead_host(hierarchy, with_process=False)
        assert all(os.path.isdir(path) for path in paths)
        swept = cgroup.sweep(hierarchy)
        assert sorted(swept.removed) == sorted(paths)
        assert (swept.left, swept.killed) == ((), 0)
        assert not any(os.path.exists(path) for path in paths)
        assert cgroup.sweep(hierarchy) == cgroup.Swept()

    alone(work)


@pytest.mark.kernel
def test_processes_that_outlived_host_and_launcher_are_killed() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        paths, resident = dead_host(hierarchy, with_process=True)
        pidfd = os.pidfd_open(resident)
        swept = cgroup.sweep(hierarchy, 10)
        assert sorted(swept.removed) == sorted(paths)
        assert swept.killed == 1
        assert gone(pidfd)

    alone(work)


def gone(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 10)[0])


@pytest.mark.parametrize("inside", [False, True], ids=["empty", "with a process"])
def test_a_live_hosts_groups_are_not_touched(inside: bool) -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        group = cgroup.make_group(hierarchy)
        slot = group.new_slot()
        reading, writing = os.pipe()
        resident = child(lambda: enter_and_wait(slot.paths, writing)) if inside else 0
        if inside:
            os.read(reading, 1)
        sweeper = child(lambda: sweep_nothing(hierarchy))
        assert os.waitpid(sweeper, 0)[1] == 0
        assert all(os.path.isdir(path) for path in slot.paths)
        if inside:
            assert os.waitpid(resident, os.WNOHANG) == (0, 0)
            os.kill(resident, signal.SIGKILL)
            os.waitpid(resident, 0)
        assert slot.remove(60)
        assert group.remove(60)

    def enter_and_wait(paths: tuple[str, ...], writing: int) -> None:
        for path in paths:
            Path(path, "cgroup.procs").write_text("0")
        os.write(writing, b"x")
        time.sleep(600)

    def sweep_nothing(hierarchy: Hierarchy) -> None:
        assert cgroup.sweep(hierarchy) == cgroup.Swept()

    alone(work)


def test_a_host_in_another_pid_namespace_is_safe() -> None:
    """Its pid means nothing here, or somebody else: only the lock that it holds says that it lives."""
    code = """
import os, sys
from sandbox_native import cgroup
hierarchy = cgroup.Hierarchy(version=int(sys.argv[1]), directories=dict(zip(*[iter(sys.argv[2:])] * 2)))
group = cgroup.make_group(hierarchy)
print(*group.paths(), flush=True)
sys.stdin.read()
assert group.remove(60)
"""

    def work() -> None:
        hierarchy = cgroup.discover()
        flags = ["-p", "-f", "--mount-proc"] if os.geteuid() == 0 else ["-U", "-r", "-p", "-f", "--mount-proc"]
        arguments = [str(hierarchy.version), *(part for pair in hierarchy.directories.items() for part in pair)]
        env = os.environ | {"PYTHONPATH": str(Path(cgroup.__file__).parent.parent)}
        with subprocess.Popen(
            ["unshare", *flags, sys.executable, "-c", code, *arguments],
            env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        ) as host:  # fmt: skip
            assert host.stdout is not None
            paths = host.stdout.readline().split()
            assert paths
            assert all("sandbox-native-1-" in path for path in paths)
            assert cgroup.sweep(hierarchy) == cgroup.Swept()
            assert all(os.path.isdir(path) for path in paths)
            host.communicate("", timeout=60)
        assert host.returncode == 0
        assert not any(os.path.exists(path) for path in paths)

    alone(work)


def test_a_pid_that_was_given_to_another_process_does_not_keep_a_group() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        here = files.this_process()
        stale = Owner(pid=here.pid, start_time=here.start_time - 1).name(0)
        live = here.name(77)
        for root in hierarchy.roots:
            os.mkdir(os.path.join(root, stale))
            os.mkdir(os.path.join(root, live))
        swept = cgroup.sweep(hierarchy)
        assert {os.path.basename(path) for path in swept.removed} == {stale}
        for root in hierarchy.roots:
            os.rmdir(os.path.join(root, live))

    alone(work)


def test_groups_of_others_are_not_ours_to_sweep() -> None:
    names = ["sandbox-native-", "sandbox-native-1-2", "sandbox-nativeX-999999999-1-0", "job-999999999-1-0"]

    def work() -> None:
        hierarchy = cgroup.discover()
        made = [os.path.join(root, name) for root in hierarchy.roots for name in names]
        for path in made:
            os.mkdir(path)
        try:
            assert cgroup.sweep(hierarchy) == cgroup.Swept()
            assert all(os.path.isdir(path) for path in made)
        finally:
            for path in made:
                os.rmdir(path)

    alone(work)


def together(count: int, work: Callable[[], None]) -> None:
    failures: list[BaseException] = []
    barrier = threading.Barrier(count)

    def run() -> None:
        try:
            barrier.wait()
            work()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_several_sweepers_at_once_remove_each_group_once() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        left = [path for _ in range(5) for path in dead_host(hierarchy, with_process=False)[0]]
        removed: list[str] = []
        together(4, lambda: removed.extend(cgroup.sweep(hierarchy, 5).removed))
        assert sorted(removed) == sorted(left)

    alone(work)


def test_hosts_can_be_made_and_removed_while_others_sweep() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()

        def one() -> None:
            for _ in range(5):
                group = cgroup.make_group(hierarchy)
                slot = group.new_slot()
                cgroup.sweep(hierarchy)
                slot.prepare(64 << 20, 8, None)
                assert slot.remove(60)
                assert group.remove(60)

        together(4, one)

    alone(work)


def test_without_a_hierarchy_there_is_nothing_to_sweep() -> None:
    assert cgroup.sweep(Hierarchy(version=0)) == cgroup.Swept()
