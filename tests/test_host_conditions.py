"""Hosts and processes of ours that are killed or starved: a clear error or a true result, and nothing left."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
from boxes import PATIENCE, Guests, verbs
from capabilities import own_groups
from running import kill_all

from sandbox_native import Limits, Sandbox, SetupError, Status

pytestmark = pytest.mark.needs("userns")
PREFIX = "sandbox-native-"


@pytest.fixture(autouse=True)
def own_launcher(guest: Guests, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A copy, by which its processes are told from those of other hosts on this machine."""
    with boxes.public(guest) as found:
        monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", str(found["launcher"]))
        yield


@pytest.fixture
def box(guest: Guests, own_launcher: None) -> Iterator[Sandbox]:
    with Sandbox(boxes.strict(guest)) as sandbox:
        yield sandbox


# ---- the host is killed ----


def groups_of(host: int) -> list[Path]:
    parents = {path.parent if path.name == "host" else path for path in own_groups().values()}
    return [group for parent in parents for group in parent.glob(f"{PREFIX}{host}-*")]


def run_for_ever(box: Sandbox, words: str) -> None:
    while True:
        box.run(verbs(words))


def busy_host(guest: Guests) -> int:
    """Makes a Sandbox and runs, in two threads, until it is killed. Nothing ends by itself, or by a limit, while a test waits."""

    def work() -> None:
        with Sandbox(boxes.strict(guest), Limits(wall_seconds=600)) as box:
            threading.Thread(target=run_for_ever, args=(box, "fork 3 , daemon 900000 , sleep 3"), daemon=True).start()
            run_for_ever(box, "fork 2 , sleep 2")

    return boxes.forked_host(work)


@pytest.mark.kernel
def test_a_host_killed_at_any_moment_leaves_nothing(guest: Guests) -> None:
    chance = random.Random(7)
    mine = boxes.ours()
    groups_left = []
    for _ in range(12):
        host = busy_host(guest)
        time.sleep(chance.uniform(0, 0.25))  # not to wait for something: the moment is the test
        os.kill(host, signal.SIGKILL)
        os.waitpid(host, 0)
        boxes.until(lambda: boxes.ours() <= mine and boxes.tree_is_gone(boxes.SHOWN), PATIENCE, "a dead host's end")
        groups_left += groups_of(host)
    Sandbox().close()
    assert [group for group in groups_left if group.exists()] == []


@pytest.mark.needs("cgroup")
def test_groups_of_a_killed_host_go_with_its_launcher(guest: Guests) -> None:
    reading, writing = os.pipe()

    def work() -> None:
        with Sandbox(boxes.strict(guest), Limits(wall_seconds=600)) as box, box.spawn(verbs("fork 5 , pause")) as process:
            process.stdout.readline()
            os.write(writing, b"x")
            process.wait()

    host = boxes.forked_host(work)
    os.read(reading, 1)
    os.close(reading), os.close(writing)
    assert groups_of(host)
    os.kill(host, signal.SIGKILL)
    os.waitpid(host, 0)
    boxes.until(lambda: not groups_of(host), PATIENCE, "the end of a dead host's groups")


# ---- processes of ours are killed ----


def tree() -> tuple[int, int, list[int]]:
    """(launcher, template, slots) of the one Sandbox that this process has."""
    parents = {pid: parent_of(pid) for pid in boxes.ours()}
    (launcher,) = [pid for pid in parents if parents[pid] not in parents]
    (template,) = [pid for pid in parents if parents[pid] == launcher]
    return launcher, template, [pid for pid in parents if parents[pid] == template]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def kill_and_wait(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    boxes.until(lambda: not any(boxes.command_line(pid) for pid in pids), PATIENCE, "the end of what was killed")


def test_an_idle_slot_that_dies_costs_nobody_a_run(box: Sandbox) -> None:
    assert box.run(["/bin/true"]).ok and box.run(["/bin/true"]).ok
    kill_and_wait(*tree()[2])
    assert [box.run(verbs("cat"), stdin=b"in").stdout for _ in range(4)] == [b"in"] * 4
    kill_and_wait(*tree()[2])
    with box.spawn(["/bin/true"]) as process:
        assert process.wait().ok


@pytest.mark.parametrize("which", ["launcher", "template", "all"])
def test_after_a_killed_process_of_ours_the_next_run_works(which: str, box: Sandbox) -> None:
    box.run(["/bin/true"])
    launcher, template, slots = tree()
    kill_and_wait(*{"launcher": [launcher], "template": [template], "all": [launcher, template, *slots]}[which])
    failed = 0
    for _ in range(6):
        try:
            assert box.run(["/bin/true"]).ok
        except SetupError as error:
            assert error.stage and error.hint
            failed += 1
    assert failed <= 1


def test_a_killed_init_is_a_setup_error_and_the_next_run_works(box: Sandbox) -> None:
    with box.spawn(verbs("fork 3 , echo up , pause")) as process:
        assert process.stdout.readline() and process.stdout.readline() == b"up\n"
        os.kill(the_init(), signal.SIGKILL)
        with pytest.raises(SetupError) as failure:
            process.wait(PATIENCE)
    assert failure.value.stage == "lost" and failure.value.hint
    assert boxes.tree_is_gone(boxes.SHOWN)
    assert box.run(["/bin/true"]).ok


def the_init() -> int:
    """PID 1 of the one box that runs: the child of any other is still ours, and waits for a request."""
    ours = boxes.ours()
    levels = {pid: Path(f"/proc/{pid}/status").read_text().split("NSpid:")[1].split("\n")[0].split() for pid in ours}
    inits = [pid for pid, numbers in levels.items() if len(numbers) > 1 and numbers[-1] == "1"]
    (init,) = [pid for pid in inits if not ours.issuperset(map(int, children(pid)))]
    return init


def children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("stopped", [0, 1])
def test_a_stopped_process_of_ours_does_not_hold_the_host_for_ever(stopped: int, guest: Guests) -> None:
    """Stopped by somebody outside; the host's own deadline, a grace after init's, ends the run."""
    with Sandbox(boxes.strict(guest)) as box, box.spawn(verbs("echo up , pause"), limits=Limits(wall_seconds=1)) as process:
        process.stdout.readline()
        launcher, init = tree()[0], the_init()
        os.kill((launcher, init)[stopped], signal.SIGSTOP)
        result = process.wait(PATIENCE)
        assert result.status is Status.WALL_LIMIT
        os.kill(launcher, signal.SIGCONT)
    assert boxes.tree_is_gone(boxes.SHOWN)


# ---- the host lacks something ----


def test_few_descriptors_are_a_clear_error_and_no_leak() -> None:
    def work() -> None:
        highest = max(map(int, os.listdir("/proc/self/fd")))
        while os.dup(2) < highest:  # so that there are no gaps
            pass
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        with Sandbox() as warm:
            warm.run(["/bin/true"])
        before = sorted(os.listdir("/proc/self/fd"))
        highest = max(map(int, before))
        ends = set()
        for room in range(60):
            resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + room, hard))
            try:
                with Sandbox() as box:
                    ends.add(box.run(["/bin/true"], files={"x": b"x" * 100_000}, collect=["x"]).status)
            except SetupError as error:
                assert error.errno == errno.EMFILE and "ulimit -n" in error.hint, (room, str(error))
                ends.add(error.errno)
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            assert sorted(os.listdir("/proc/self/fd")) == before, room
        assert ends == {errno.EMFILE, Status.OK}

    boxes.in_a_host(work)


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_a_full_disk_under_a_workspace_is_the_guests_to_see(guest: Guests, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", small], check=True)
    try:
        with Sandbox(boxes.strict(guest)) as box:
            for _ in range(2):
                result = box.run(verbs("file /workspace/big 4"), workspace=small)
                assert (result.status, result.exit_code, result.text) == (Status.NONZERO_EXIT, 99, f"file errno={errno.ENOSPC}\n")
                assert (small / "big").stat().st_size <= 1 << 20
    finally:
        subprocess.run(["umount", small], check=True)


@pytest.mark.needs("cgroup")
def test_slots_that_were_killed_and_lost_their_group_are_replaced(guest: Guests) -> None:
    def work() -> None:
        with Sandbox(boxes.strict(guest)) as box:
            assert box.run(["/bin/true"]).ok
            _, _, slots = tree()
            for slot in slots:
                os.kill(slot, signal.SIGKILL)
            boxes.until(lambda: not any(boxes.command_line(slot) for slot in slots), PATIENCE, "the slots' end")
            for base in groups_of(os.getpid()):
                for group in base.glob("slot-*"):
                    kill_all([int(pid) for pid in (group / "cgroup.procs").read_text().split()])  # of the next box
                    boxes.until(lambda group=group: removed(group), PATIENCE, "an empty group")  # type: ignore[misc]
            assert box.run(["/bin/true"], limits=Limits(memory_bytes=77 << 20, processes=7)).ok

    boxes.in_a_host(work)


def removed(group: Path) -> bool:
    try:
        for path in (*group.glob("*/"), group):
            path.rmdir()
    except OSError:
        return not group.exists()
    return True


def test_a_group_that_is_not_there_is_named() -> None:
    with pytest.raises(SetupError) as failure:
        Sandbox(cgroup="/sys/fs/cgroup/no/such/group")
    assert (failure.value.stage, failure.value.item) == ("cgroup", "/sys/fs/cgroup/no/such/group/cgroup.procs")
    assert failure.value.hint
