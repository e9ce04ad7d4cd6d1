"""Groups and slots: their names, descriptors, limits and removal, on whichever version this machine has."""

from __future__ import annotations

import errno
import mmap
import os
import resource
import signal
import time
from pathlib import Path

import pytest
from scope import alone, child
from slots import MIB, a_group, a_slot, enter, text, value

from sandbox_native import cgroup
from sandbox_native.cgroup import Gauge, Hierarchy
from sandbox_native.errors import SetupError, UnsupportedError


@pytest.mark.needs("cgroup")
def test_a_group_carries_its_hosts_name_in_every_hierarchy_and_goes() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        first, second = cgroup.make_group(hierarchy), cgroup.make_group(hierarchy)
        slot = first.new_slot()
        paths = first.paths()
        assert len(paths) == len(hierarchy.roots)
        assert not set(paths) & set(second.paths())
        assert all(f"sandbox-native-{os.getpid()}-" in path for path in paths)
        assert slot.remove()
        for group in (first, second):
            assert group.remove()
            assert group.remove()
        assert not any(os.path.exists(path) for path in paths)

    alone(work)


@pytest.mark.needs("cgroup")
def test_a_slots_gauges_are_open_and_close_twice() -> None:
    expected_v1 = {1, 3, 4, 5, 7, 8, 9, 11, 12, 13}
    expected_v2 = {2, 6, 7, 10, 11}

    def work() -> None:
        with a_slot() as (hierarchy, slot):
            numbers = [number for number, _ in slot.gauges]
            assert len(numbers) <= 16
            assert set(numbers) - {12} == (expected_v1 if hierarchy.version == 1 else expected_v2) - {12}
            for which in (Gauge.MEMORY_STAT, Gauge.PIDS):
                assert text(slot, which)
            assert not any(os.get_inheritable(fd) for _, fd in slot.gauges)
            fds = [fd for _, fd in slot.gauges]
            slot.close()
            slot.close()
            assert slot.gauges == []
            assert not {str(fd) for fd in fds} & {name for name in os.listdir("/proc/self/fd") if is_open(int(name))}

    def is_open(fd: int) -> bool:
        try:
            return os.fstat(fd) is not None
        except OSError:
            return False

    alone(work)


@pytest.mark.needs("cgroup")
def test_a_host_without_descriptors_gets_an_error_and_nothing_is_left() -> None:
    def work() -> None:
        with a_group() as (_, group):
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 2, hard))
            with pytest.raises(SetupError) as caught:
                group.new_slot()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert caught.value.errno == errno.EMFILE
            assert not any(list(Path(path).glob("slot-*")) for path in group.paths())

    alone(work)


@pytest.mark.kernel
@pytest.mark.needs("cgroup")
def test_limits_are_written_as_asked_and_raised_and_lowered() -> None:
    def work() -> None:
        with a_slot() as (hierarchy, slot):
            more = 2 if hierarchy.version == 1 else 0
            unlimited = str((1 << 63) - mmap.PAGESIZE) if hierarchy.version == 1 else "max"
            for memory in (64 * MIB, 256 * MIB, 32 * MIB, None, 48 * MIB, None):
                slot.prepare(memory, 7, 0.5)
                assert value(slot, "memory.limit_in_bytes", "memory.max") == (str(memory) if memory else unlimited)
                assert value(slot, "pids.max") == str(7 + more)
            assert value(slot, "guest/cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"
            slot.prepare(None, None, None)
            assert value(slot, "pids.max") == "max"
            assert value(slot, "guest/cpu.cfs_quota_us", "cpu.max").split()[0] in ("-1", "max")

    alone(work)


@pytest.mark.needs("cgroup")
def test_swap_is_not_to_be_had() -> None:
    def work() -> None:
        with a_slot() as (hierarchy, slot):
            slot.prepare(64 * MIB, None, None)
            if hierarchy.version == 2:
                assert value(slot, "memory.swap.max") == "0"
            else:
                assert value(slot, "memory.memsw.limit_in_bytes") == str(64 * MIB)

    alone(work)


@pytest.mark.needs("cgroup")
def test_an_unchanged_limit_is_not_written_again() -> None:
    def work() -> None:
        with a_slot() as (_, slot):
            slot.prepare(64 * MIB, 7, None)
            (path,) = [Path(path, "pids.max") for path in slot.paths if Path(path, "pids.max").exists()]
            path.write_text("33")
            slot.prepare(64 * MIB, 7, None)
            assert path.read_text() == "33\n"

    alone(work)


@pytest.mark.needs("cgroup")
def test_a_refused_limit_names_its_file_and_the_next_call_sets_all() -> None:
    def work() -> None:
        with a_slot() as (_, slot):
            slot.prepare(64 * MIB, 7, None)
            (path,) = [Path(path, "pids.max") for path in slot.paths if Path(path, "pids.max").exists()]
            with pytest.raises(SetupError) as caught:
                slot.prepare(64 * MIB, -7, None)
            assert (caught.value.stage, caught.value.errno, caught.value.item) == ("cgroup", errno.EINVAL, str(path))
            path.write_text("33")
            slot.prepare(64 * MIB, 7, None)
            assert path.read_text() != "33\n"

    alone(work)


@pytest.mark.needs("cgroup")
def test_without_a_cpu_controller_cpus_are_refused_and_the_rest_works() -> None:
    def work() -> None:
        full = cgroup.discover()
        directories = {name: path for name, path in full.directories.items() if name != "cpu"}
        hierarchy = Hierarchy(version=full.version, directories=directories)
        group = cgroup.make_group(hierarchy)
        slot = group.new_slot()
        slot.prepare(64 * MIB, 8, None)
        with pytest.raises(UnsupportedError, match="cpu controller"):
            slot.prepare(64 * MIB, 8, 1.0)
        slot.prepare(64 * MIB, 8, None)
        assert slot.remove()
        assert group.remove()

    alone(work)


@pytest.mark.needs("cgroup")
def test_removal_waits_for_processes_that_are_being_torn_down() -> None:
    def work() -> None:
        with a_group() as (_, group):
            slot = group.new_slot()
            ready_in, ready_out = os.pipe()

            def sleep() -> None:
                enter(slot)
                os.write(ready_out, b"x")
                time.sleep(600)

            pid = child(sleep)
            os.read(ready_in, 1)
            assert not slot.remove(0)
            os.kill(pid, signal.SIGKILL)
            assert slot.remove(10)
            os.waitpid(pid, 0)

    alone(work)
