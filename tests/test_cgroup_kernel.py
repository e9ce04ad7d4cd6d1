"""What the kernel does in a slot's group: kills, refuses, counts, and takes a guest cloned straight into it."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from scope import alone, child, succeeds
from slots import MIB, a_group, a_slot, begin, gauge, in_slot, text, touch

from sandbox_native.cgroup import Gauge, SlotGroup

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_INTO_CGROUP, SYS_CLONE3 = 0x1000_0000, 0x2_0000_0000, 435


def kernel() -> tuple[int, ...]:
    return tuple(int(part) for part in os.uname().release.split(".")[:2])


@pytest.mark.kernel
@pytest.mark.needs("cgroup")
def test_memory_beyond_the_limit_is_an_oom_kill_that_the_gauges_show() -> None:
    def work() -> None:
        with a_slot() as (hierarchy, slot):
            slot.prepare(48 * MIB, None, None)
            status = in_slot(slot, lambda: touch(24 * MIB))
            assert (status, slot.oom_kills()) == (0, 0)
            status = in_slot(slot, lambda: touch(128 * MIB))
            assert os.WIFSIGNALED(status)
            assert os.WTERMSIG(status) == signal.SIGKILL
            event_seen(hierarchy.version, slot)
            assert slot.oom_kills() >= 1  # 6.1 counts the victim of a group kill twice
            begin(slot)
            if hierarchy.version == 1:
                assert not select.select([gauge(slot, Gauge.OOM_EVENT)], [], [], 0)[0]

    def event_seen(version: int, slot: SlotGroup) -> None:
        poll = select.poll()
        if version == 1:
            poll.register(gauge(slot, Gauge.OOM_EVENT), select.POLLIN)
        else:
            poll.register(gauge(slot, Gauge.MEMORY_EVENTS), select.POLLPRI)
        assert poll.poll(60_000)

    alone(work)


@pytest.mark.needs("cgroup")
def test_processes_beyond_the_limit_are_refused_and_the_limit_is_this_slots_own() -> None:
    def work() -> None:
        with a_group() as (hierarchy, group):
            slots = [group.new_slot(), group.new_slot()]
            for slot in slots:
                slot.prepare(None, 4, None)
            for slot in slots:
                assert in_slot(slot, lambda: fill(6 if hierarchy.version == 1 else 4)) == 0
            for slot in slots:
                assert slot.remove(60)

    def fill(allowed: int) -> None:
        reading, writing = os.pipe()
        children = [child(lambda: wait(reading, writing)) for _ in range(allowed - 1)]
        with pytest.raises(BlockingIOError):
            child(lambda: None)
        os.close(writing)
        for pid in children:
            os.waitpid(pid, 0)

    def wait(reading: int, writing: int) -> None:
        os.close(writing)
        os.read(reading, 1)

    alone(work)


@pytest.mark.needs("cgroup")
def test_cpu_time_of_the_whole_tree_is_counted() -> None:
    def work() -> None:
        with a_slot() as (hierarchy, slot):
            assert in_slot(slot, lambda: succeeds(burn)) == 0
            if hierarchy.version == 1:
                nanoseconds = int(text(slot, Gauge.CPU_NS))
                assert int(text(slot, Gauge.CPU_USER_NS)) + int(text(slot, Gauge.CPU_SYS_NS)) > 0
            else:
                nanoseconds = int(text(slot, Gauge.CPU_STAT).split()[1]) * 1000
            assert nanoseconds >= 0.1e9

    def burn() -> None:
        while time.process_time() < 0.1:
            pass

    alone(work)


@pytest.mark.needs("cgroup")
def test_the_peak_of_a_run_does_not_come_from_an_earlier_one() -> None:
    def work() -> None:
        with a_slot() as (_, slot):
            if not any(number == Gauge.PEAK for number, _ in slot.gauges):
                assert kernel() < (5, 19)  # which has none, and the report says so
                return
            peaks = []
            for size in (40 * MIB, 4 * MIB, 60 * MIB):
                slot.prepare(128 * MIB, None, None)
                begin(slot)
                assert in_slot(slot, lambda size=size: touch(size)) == 0  # type: ignore[misc]
                peaks.append(slot.peak(int(text(slot, Gauge.PEAK))))
            large, small, largest = peaks
            assert large >= 40 * MIB
            assert small < 30 * MIB
            assert largest >= 60 * MIB

    alone(work)


@pytest.mark.needs("cgroup1")
def test_a_process_enters_a_v1_slot_through_the_descriptors_it_is_given() -> None:
    def work() -> None:
        with a_slot() as (_, slot):
            succeeds(lambda: through(slot))

    def through(slot: SlotGroup) -> None:
        for number, fd in slot.gauges:
            if number == Gauge.PROCS:
                os.write(fd, b"0")
        for path in slot.paths:
            assert Path(path, "cgroup.procs").read_text().split() == [str(os.getpid())]

    alone(work)


def clone_into(directory_fd: int, work: Callable[[], None]) -> None:
    """Clones a process straight into a group, runs `work` there, and expects it to go well."""
    args = (ctypes.c_uint64 * 11)(CLONE_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, directory_fd)
    pid = LIBC.syscall(SYS_CLONE3, args, ctypes.sizeof(args))
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert pid > 0, os.strerror(ctypes.get_errno())
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.kernel
@pytest.mark.needs("cgroup2")
@pytest.mark.needs("userns")
def test_init_in_a_user_namespace_clones_the_guest_into_the_leaf() -> None:
    """What the launcher's side does on v2, with nobody's privileges: the box's user when the host is root."""
    own_uid = os.geteuid()
    box_uid = own_uid or 60_123

    def work() -> None:
        with a_group(box_uid) as (_, group):
            slot = group.new_slot()
            slot.prepare(64 * MIB, 8, None)
            ready_in, ready_out = os.pipe()
            go_in, go_out = os.pipe()
            init = child(lambda: as_init(slot, ready_out, go_in))
            os.read(ready_in, 1)
            Path(group.entrance).write_text(str(init))
            os.write(go_out, b"x")
            assert os.waitpid(init, 0)[1] == 0
            assert slot.remove(60)

    def as_init(slot: SlotGroup, ready: int, go: int) -> None:
        os.write(ready, b"x")
        os.read(go, 1)
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(box_uid, box_uid, box_uid)
            os.setresuid(box_uid, box_uid, box_uid)
        assert LIBC.unshare(CLONE_NEWUSER) == 0, os.strerror(ctypes.get_errno())
        assert Path("/proc/self/cgroup").read_text().strip().endswith("/launcher")
        clone_into(gauge(slot, Gauge.GROUP), lambda: as_guest(slot))

    def as_guest(slot: SlotGroup) -> None:
        assert Path("/proc/self/cgroup").read_text().strip().endswith(os.path.basename(slot.paths[0]))
        if own_uid == 0:
            with pytest.raises(PermissionError):
                Path(slot.paths[0], "memory.max").write_text("max")

    alone(work)
