"""Groups and slots for tests: made, entered, read and removed again, in the process that calls."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scope import child

from sandbox_native import cgroup
from sandbox_native.cgroup import Gauge, Group, Hierarchy, SlotGroup

MIB = 1 << 20


@contextmanager
def a_group(box_uid: int | None = None) -> Iterator[tuple[Hierarchy, Group]]:
    hierarchy = cgroup.discover()
    assert hierarchy.usable, (hierarchy.reason, hierarchy.remedy)
    group = cgroup.make_group(hierarchy, box_uid=box_uid)
    try:
        yield hierarchy, group
    finally:
        assert group.remove(60)


@contextmanager
def a_slot() -> Iterator[tuple[Hierarchy, SlotGroup]]:
    with a_group() as (hierarchy, group):
        slot = group.new_slot()
        try:
            yield hierarchy, slot
        finally:
            assert slot.remove(60)


def enter(slot: SlotGroup) -> None:
    """Puts the calling process into the slot's groups. (On v2 a guest is cloned into it, which is tested apart.)"""
    for path in slot.paths:
        Path(path, "cgroup.procs").write_text("0")


def begin(slot: SlotGroup) -> None:
    """What init does with the descriptors before it starts a guest."""
    for number, fd in slot.gauges:
        if number == Gauge.PEAK:
            with suppress(OSError):  # before 6.12 a v2 peak cannot be set back
                os.pwrite(fd, b"0", 0)
        elif number == Gauge.OOM_EVENT:
            with suppress(BlockingIOError):
                os.read(fd, 8)


def in_slot(slot: SlotGroup, work: Callable[[], None]) -> int:
    """Runs `work` in a process in the slot's groups: its wait status."""

    def inside() -> None:
        enter(slot)
        work()

    return os.waitpid(child(inside), 0)[1]


def touch(size: int) -> None:
    with mmap.mmap(-1, size) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for offset in range(0, size, mmap.PAGESIZE):
            memory[offset] = 1


def gauge(slot: SlotGroup, which: Gauge) -> int:
    (fd,) = [fd for number, fd in slot.gauges if number == which]
    return fd


def text(slot: SlotGroup, which: Gauge) -> str:
    return os.pread(gauge(slot, which), 4096, 0).decode()


def value(slot: SlotGroup, *names: str) -> str:
    """The content of the first of these files that one of the slot's groups has."""
    for path in slot.paths:
        for name in names:
            if Path(path, name).exists():
                return Path(path, name).read_text().strip()
    raise AssertionError(names)
