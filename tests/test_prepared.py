"""Boxes that stand ready: counted, bounded, gone with their host, and as good as new ones."""

from __future__ import annotations

import os
import time
from pathlib import Path

import boxes
import pytest
from running import kill_all, launchers

from sandbox_native import Limits, PolicyError, Sandbox, Status

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
KIB = 1024


def family(pid: int) -> list[int]:
    """A process and what it forked, and so on."""
    found = [pid]
    for one in found:
        try:
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except FileNotFoundError:
            continue
    return found


def parked() -> list[int]:
    """Slots with a box that waits: an init and a guest."""
    return [pid for pid in launchers() if len(family(pid)) == 3]


def test_a_run_finds_a_box_that_waits() -> None:
    with Sandbox(prepared=3) as box:
        for _ in range(3):
            boxes.until(lambda: len(parked()) == 3, boxes.PATIENCE, "parked boxes")
            assert box.run(["/bin/true"]).ok
        stats = box.stats()
    assert (stats.boxes, stats.idle) == (3, 3) and stats.hits >= 2 and stats.hits + stats.misses == 3


def test_limits_may_differ_from_run_to_run() -> None:
    with Sandbox(prepared=2) as box:
        for size in (64, 32, 128):
            limits = Limits(tmp_bytes=size << 20, processes=size // 8, open_files=size)
            told = box.run(["/bin/sh", "-c", "ulimit -n; stat -f -c %b /tmp; stat -f -c %S /tmp"], limits=limits).text.split()
            assert int(told[0]) == size and int(told[1]) * int(told[2]) == size << 20


@pytest.mark.slow
def test_a_parked_box_takes_at_most_400_kb() -> None:
    """Its share of memory, its two processes' kernel stacks and page tables included."""

    def taken(pids: list[int]) -> int:
        total = 0
        for pid in pids:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                total += int(line.split()[1]) if line.startswith("Pss:") else 0
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in status if line.startswith("VmPTE"))
            total += 16  # a kernel stack
        return total

    with Sandbox(prepared=16) as box:
        box.run(["/bin/true"])
        boxes.until(lambda: len(parked()) >= 15, boxes.PATIENCE, "parked boxes")
        slots = parked()
        members = [pid for slot in slots for pid in family(slot)[1:]]
        assert taken(members) / len(slots) <= 400


def test_boxes_above_the_number_end_when_nobody_wants_them() -> None:
    with Sandbox(idle_seconds=1) as box:
        processes = [box.spawn(["/bin/cat"]) for _ in range(5)]
        for process in processes:
            assert process.stdin is not None
            with process:
                process.stdin.close()
                assert process.wait().ok
        assert box.stats().boxes == 5
        boxes.until(lambda: len(parked()) <= 2, boxes.PATIENCE, "the end of surplus boxes")
        time.sleep(1.5)
        for _ in range(4):
            assert box.run(["/bin/true"]).ok
        assert box.stats().boxes == 2


def test_a_parked_guest_that_is_killed_costs_no_run() -> None:
    with Sandbox(prepared=2) as box:
        assert box.run(["/bin/true"]).ok
        for _ in range(3):
            for pid in launchers():
                kill_all([one for one in family(pid) if len(family(one)) == 1 and one != pid])
            for _ in range(3):
                assert box.run(["/bin/true"]).status is Status.OK


def test_a_pinned_run_has_one_core() -> None:
    with Sandbox(pinned=True) as box:
        for _ in range(3):
            done = box.run(["/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"])
            assert done.usage.core in os.sched_getaffinity(0) and done.text.split()[1] == str(done.usage.core)
        script = "grep Cpus_allowed_list /proc/self/status; read x"
        both = [box.spawn(["/bin/sh", "-c", script]) for _ in os.sched_getaffinity(0)]
        cores = set()
        for process in both:
            assert process.stdin is not None
            with process:
                process.stdin.close()
                cores.add(process.wait().text.split()[1])
        assert len(cores) == len(both)


@pytest.mark.parametrize("field", ["prepared", "idle_seconds"])
@pytest.mark.parametrize("value", [-1, "many", 10**9, None])
def test_nonsense_is_refused(field: str, value: object) -> None:
    with pytest.raises(PolicyError, match=field):
        Sandbox(**{field: value})  # type: ignore[arg-type]


def test_a_box_that_is_about_to_end_for_want_of_work_is_not_used() -> None:
    """Its end and the request could pass each other, and the run would be lost."""

    def at_once(box: Sandbox) -> None:
        processes = [box.spawn(["/bin/cat"]) for _ in range(3)]
        for process in processes:
            assert process.stdin is not None
            with process:
                process.stdin.close()
                assert process.wait().ok

    with Sandbox(idle_seconds=60) as box:
        at_once(box)
        (surplus,) = box._backend._engine._more  # type: ignore[attr-defined]
        surplus.since -= 59.9
        at_once(box)
        assert surplus.process.control < 0 and box.stats().boxes == 3
