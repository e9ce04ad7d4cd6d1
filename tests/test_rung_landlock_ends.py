"""Rung `landlock`: limits, and how runs end.

There is no pid namespace that the kernel ends as a whole: init finds every process of the tree among the user's own and ends it
(csrc/launcher/tree.c).
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable

import boxes
import pytest
import scope
import without_namespaces
from boxes import Guests
from running import PYTHON, kill_all, nap, processes_named, sh, sleepers
from without_namespaces import Try, left, ours_of

import sandbox_native as sn
from sandbox_native import Limits, Sandbox, Status

pytestmark = [*without_namespaces.MARKS, pytest.mark.usefixtures("only_ours_end")]


# ---- the tree ----


def test_the_whole_tree_ends_though_it_leaves_its_session_and_parents(
    with_box: Try, verbs: Callable[[str], list[str]], public: Guests
) -> None:
    def work(box: Sandbox) -> None:
        result = box.run(verbs("daemon 30000 , hold 30000 , fork 20 , ignore , pause"), limits=Limits(wall_seconds=0.6))
        assert boxes.init_kept_the_limit(result) and result.killed_processes == 23
        assert boxes.tree_is_gone(str(public["verbs"]))
        result = box.run(verbs("daemon 30000 , hold 30000 , exit 3"), limits=Limits(wall_seconds=300))
        assert (result.exit_code, result.killed_processes) == (3, 2), "both were there to the end"
        assert boxes.tree_is_gone(str(public["verbs"]))

    with_box(work)


TWICE_FORKED = "import os\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0: "


def test_background_processes_do_not_survive(with_box: Try) -> None:
    """A double fork with setsid, a whole shell job, one that stops itself and one that ignores every signal."""

    def work(box: Sandbox) -> None:
        double = TWICE_FORKED + f"os.execv('/bin/sleep', ['sleep', '{nap(777)}'])\n"
        result = box.run([PYTHON, "-c", double], limits=Limits(wall_seconds=60))
        assert result.ok and sleepers(777) == []
        box.run(sh(f"(trap '' TERM HUP INT; setsid setsid -f sleep {nap(778)} & kill -STOP $$) & sleep {nap(778)} & exit 0"))
        assert sleepers(778) == []

    with_box(work)


SNAKE = """
import os, sys
for left in range(int(sys.argv[1])):
    try:
        if os.fork(): break
    except BlockingIOError: break
    os.setsid()
import time; time.sleep(60)
"""
HYDRA = """
import os, sys, time
until = time.monotonic() + float(sys.argv[2])
while time.monotonic() < until:
    try:
        if os.fork() == 0:
            os.setsid()
    except BlockingIOError:
        pass
time.sleep(60)
"""


@pytest.mark.parametrize("code", [SNAKE, HYDRA], ids=["snake", "hydra"])
def test_a_bomb_whose_every_process_has_a_session_of_its_own_ends(with_box: Try, code: str) -> None:
    word = f"bomb-{os.getpid()}"

    def work(box: Sandbox) -> None:
        for wall in (0.1, 0.3, 0.5):
            argv = [PYTHON, "-c", code, "64", "3", word]
            result = box.run(argv, limits=Limits(wall_seconds=wall, processes=64, memory_bytes=1 << 30))
            assert result.status in (Status.WALL_LIMIT, Status.MEMORY_LIMIT, Status.OK)
            assert not list(processes_named(word)), result

    with_box(work)
    assert not list(processes_named(word))


def test_a_bomb_of_one_session_ends(with_box: Try, verbs: Callable[[str], list[str]], public: Guests) -> None:
    def work(box: Sandbox) -> None:
        for _ in range(3):
            result = box.run(verbs("bomb 64"), limits=Limits(wall_seconds=0.3, processes=64))
            assert result.status is Status.WALL_LIMIT and result.killed_processes <= 66
            assert boxes.tree_is_gone(str(public["verbs"]))

    with_box(work)


def test_processes_are_bounded_by_what_the_user_had(with_box: Try, verbs: Callable[[str], list[str]]) -> None:
    def work(box: Sandbox) -> None:
        told = box.run(verbs("fork 100"), limits=Limits(processes=20)).text.split()
        assert told[2] == f"errno={errno.EAGAIN}" and int(told[1].removeprefix("made=")) <= 30
        assert box.run(verbs("fork 10"), limits=Limits(processes=20)).text.split()[1:] == ["made=10", "errno=0"]

    with_box(work)


# ---- ends that are not the guest's ----


def test_a_run_is_cancelled_and_closed_while_it_runs(with_box: Try) -> None:
    def work(box: Sandbox) -> None:
        script = f"setsid sleep {nap(779)} & sleep {nap(779)} & echo ready; wait"
        with box.spawn(sh(script)) as process:
            assert process.stdout.readline() == b"ready\n"
            process.kill()
            assert process.wait().status is Status.CANCELLED
        assert sleepers(779) == []
        with box.spawn(sh(script)) as process:
            assert process.stdout.readline() == b"ready\n"
        assert sleepers(779) == [] and box.run(["/bin/true"]).ok

    with_box(work)
    assert left() == []


def test_a_tree_whose_init_was_killed_is_ended_by_its_slot(with_box: Try) -> None:
    def work(box: Sandbox) -> None:
        with box.spawn(sh(f"setsid sleep {nap(780)} & sleep {nap(780)} & echo $PPID; wait")) as process:
            init = int(process.stdout.readline())
            os.kill(init, signal.SIGKILL)
            with pytest.raises(sn.SandboxError):
                process.wait()
            assert sleepers(780) == [], "the slot ends what init left before anybody is told"
        assert box.run(["/bin/true"]).ok

    with_box(work)
    assert left() == []


def test_a_host_that_is_killed_takes_everything_with_it(public: Guests) -> None:
    """And what it left on the disk goes with the next Sandbox."""
    word = nap(781)
    ready, told = os.pipe()

    def host() -> None:
        boxes.become_plain()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        box = Sandbox(without_namespaces.policy(public), Limits(wall_seconds=600))
        process = box.spawn(sh(f"(setsid setsid -f sleep {word}); sleep {word} & mkdir -m 0 closed; echo ready; wait"))
        assert process.stdout.readline() == b"ready\n"
        os.write(told, b"x")
        process.wait()

    set_aside_first()
    pid = scope.child(host)
    assert os.read(ready, 1) == b"x" and len(left()) == 1
    boxes.until(lambda: len(sleepers(781)) == 2, boxes.PATIENCE, "both sleep")
    kill_all([pid])
    os.waitpid(pid, 0)
    boxes.until(lambda: sleepers(781) == [] and not ours_of(boxes.PLAIN_USER), boxes.PATIENCE, "everything ends")
    assert len(left()) == 1
    os.close(ready)
    os.close(told)

    def next_host() -> None:
        with Sandbox(without_namespaces.policy(public)) as box:
            assert box.run(["/bin/true"]).ok
        assert left() == []

    without_namespaces.in_a_plain_host(public, next_host)


def set_aside_first() -> None:
    boxes.set_aside(os.getpid())


def test_a_running_boxs_directory_is_not_swept(public: Guests) -> None:
    def work() -> None:
        with (
            Sandbox(without_namespaces.policy(public)) as box,
            box.spawn(sh("read x; cat f"), files={"f": b"there"}) as process,
        ):
            Sandbox(without_namespaces.policy(public)).close()
            assert process.stdin is not None
            process.stdin.write(b"\n")
            assert process.stdout.read() == b"there"
            assert process.wait().ok

    without_namespaces.in_a_plain_host(public, work)


def test_whatever_the_guest_leaves_is_removed(with_box: Try) -> None:
    script = (
        "mkdir -p a/b; echo x > a/b/c; ln -s / root; mkfifo p; chmod 0 a/b a; mkdir -m 000 z;"
        "i=0; while [ $i -lt 60 ]; do mkdir deep; cd deep; i=$((i+1)); done"
    )

    def work(box: Sandbox) -> None:
        assert box.run(sh(script)).ok
        assert box.run(sh(f"{script}; kill -9 $$")).status is Status.SIGNALED
        assert left() == []

    with_box(work)
    assert left() == []
