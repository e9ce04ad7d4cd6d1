"""Processes of ours that somebody has stopped (SIGSTOP): runs end all the same, and what is parked goes with its Sandbox."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import boxes
import pytest
from running import launchers, nap, sh, sleepers

from sandbox_native import Limits, Sandbox, Status
from sandbox_native.backends import slots

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    boxes.until(lambda: state(pid) == "T", boxes.PATIENCE, "a stopped process")


def init_of(process: Any) -> int:
    lines = Path(f"/proc/self/fdinfo/{process._run.box.raw.pidfd}").read_text().splitlines()
    (pid,) = [int(line.split()[1]) for line in lines if line.startswith("Pid:")]
    return pid


def test_one_kill_ends_a_run_whose_init_is_stopped() -> None:
    with Sandbox() as box:
        with box.spawn(sh(f"echo up; sleep {nap(331)}"), limits=Limits(wall_seconds=3600)) as process:
            assert process.stdout.readline() == b"up\n"
            stop(init_of(process))
            process.kill()
            result = process.wait(boxes.PATIENCE)
        assert result.status is Status.CANCELLED and result.killed_processes >= 1, "init has told the end"
        assert sleepers(331) == []


@pytest.mark.parametrize("depth", [1, 2], ids=["init", "guest"])
def test_what_is_parked_and_stopped_goes_with_its_sandbox(depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "CLOSE_MS", 100)
    with Sandbox(prepared=1) as box:
        assert box.run(["/bin/true"]).ok

        def parked() -> list[list[int]]:
            """Slot, init and guest of each."""
            found = [[slot, init, *children(init)] for slot in launchers() for init in children(slot) if children(init)]
            return [one for one in found if not children(one[2])]

        boxes.until(lambda: bool(parked()), boxes.PATIENCE, "a parked box")
        family = parked()[0]
        stop(family[depth])
    boxes.until(lambda: not any(boxes.command_line(pid) for pid in family), boxes.PATIENCE, "their end")
