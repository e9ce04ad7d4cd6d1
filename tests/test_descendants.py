"""Rung `landlock`: a tree that forks without end and resists is ended for certain, whoever of ours is killed meanwhile
(csrc/launcher/descendants.c)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import boxes
import pytest
import scope
import without_namespaces
from boxes import Guests
from running import kill_all, processes_named
from without_namespaces import Try, left, ours_of

import sandbox_native as sn
from sandbox_native import Limits, Sandbox, Status
from sandbox_native.backends import slots

pytestmark = [*without_namespaces.MARKS, pytest.mark.usefixtures("only_ours_end")]
STORM = Limits(processes=150, wall_seconds=1)


@pytest.fixture
def storm(public: Guests) -> Iterator[Callable[[], list[int]]]:
    """Who of it lives. What a test leaves is ended: it would end by itself in 20 s."""

    def living() -> list[int]:
        return list(processes_named(str(public["storm"])))

    yield living
    while living():
        kill_all(living())


@pytest.mark.parametrize("words", ["300", "30000", "30000 resist"])
def test_no_storm_of_forks_outlives_its_result(with_box: Try, public: Guests, storm: Callable[[], list[int]], words: str) -> None:
    def work(box: Sandbox) -> None:
        for _ in range(2):
            result = box.run([str(public["storm"]), *words.split()], limits=STORM)
            assert storm() == []
            assert result.status is (Status.OK if words == "300" else Status.WALL_LIMIT) and result.killed_processes > 20, result
            assert result.usage.cpu_seconds > 0, "init saw the end"

    with_box(work)


def family(host: int) -> dict[str, list[int]]:
    """Who of a host's engine does what, by descent: each process has its own children."""
    found: dict[str, list[int]] = {"host": [host]}
    ours = ours_of(boxes.PLAIN_USER)
    parents = {pid: parent_of(pid) for pid in ours}
    found["launcher"] = [pid for pid in ours if parents[pid] not in ours]
    for above, name in (("launcher", "template"), ("template", "slot"), ("slot", "init")):
        found[name] = [pid for pid in ours if parents[pid] in found[above]]
    return found


def parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return -1


@pytest.mark.parametrize("killed", ["host", "launcher", "template", "slot", "init", "slot init", "host slot", "host launcher"])
def test_a_storm_ends_though_who_is_to_end_it_is_killed(public: Guests, storm: Callable[[], list[int]], killed: str) -> None:
    def host() -> None:
        boxes.become_plain()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        with Sandbox(without_namespaces.policy(public)) as box:
            try:
                box.run([str(public["storm"]), "30000", "resist"], limits=STORM)
            except sn.SandboxError:
                assert "init" in killed

    boxes.set_aside(os.getpid())
    pid = scope.child(host)
    boxes.until(lambda: len(storm()) > 40, boxes.PATIENCE, "the storm")
    who = family(pid)
    kill_all([one for name in killed.split() for one in who[name]])
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == (-signal.SIGKILL if "host" in killed else 0)
    boxes.until(lambda: not storm() and not ours_of(boxes.PLAIN_USER), boxes.PATIENCE, "everybody ends")
    without_namespaces.in_a_plain_host(public, lambda: Sandbox(without_namespaces.policy(public)).close())  # it sweeps
    assert left() == []


@pytest.mark.parametrize("stopped", ["slot", "launcher"])
def test_who_does_not_come_to_an_end_is_named_and_not_killed(
    public: Guests, storm: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch, stopped: str
) -> None:
    """It may be ending a tree, and nobody would after it."""
    for bound in ("TREE_MS", "CLOSE_MS"):
        monkeypatch.setattr(slots, bound, 50)

    def work() -> None:
        box = Sandbox(without_namespaces.policy(public))
        process = box.spawn([str(public["storm"]), "30000"], limits=Limits(processes=20, wall_seconds=60))
        boxes.until(lambda: len(storm()) > 8, boxes.PATIENCE, "the storm")
        who = family(os.getpid())
        for pid in who[stopped]:
            os.kill(pid, signal.SIGSTOP)
        try:
            kill_all(who["init"] if stopped == "slot" else [])
            with pytest.raises(sn.SetupError, match=f"process {who['launcher'][0]} and its children"):
                process.close()
                box.close()
        finally:
            for pid in who[stopped]:
                os.kill(pid, signal.SIGCONT)
        boxes.until(lambda: not storm(), boxes.PATIENCE, "the tree ends after all")

    without_namespaces.in_a_plain_host(public, work)
    boxes.until(lambda: not ours_of(boxes.PLAIN_USER), boxes.PATIENCE, "everybody ends")
