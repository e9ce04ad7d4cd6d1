"""Without a control group: rung `namespaces`. Sampling keeps memory and CPU, and says so; who asks for more is refused."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import boxes
import pytest
from boxes import MIB, Guests, verbs

from sandbox_native import Limits, Policy, Result, Rung, Sandbox, Status, UnsupportedError

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
Hosted = Callable[[Callable[[Sandbox], None]], None]


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    with boxes.public(guest) as found:
        yield found


@pytest.fixture(params=["root", "plain"])
def hosted(request: pytest.FixtureRequest, public: Guests, needs: Callable[[str], None]) -> Hosted:
    """`hosted(work)` calls `work(box)` in a process of its own that has no control group."""
    if request.param == "root" or os.geteuid() != 0:
        needs("root" if request.param == "root" else "no_cgroup")

    def run(work: Callable[[Sandbox], None]) -> None:
        def host() -> None:
            boxes.hide_groups() if request.param == "root" else boxes.become_plain()
            os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
            with Sandbox(boxes.strict(public)) as box:
                work(box)

        boxes.in_a_host(host)

    return run


def test_the_receipt_says_what_is_sampled(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        result = box.run(["/bin/true"], limits=Limits(cpu_seconds=1))
        assert result.enforcement.rung is Rung.NAMESPACES
        assert boxes.layer(result, "control_group").held is False
        assert {boxes.layer(result, name).mechanism for name in ("memory", "cpu_seconds")} == {"sampling"}
        assert boxes.layer(result, "processes").mechanism == "rlimit"
        others = ("user", "mount", "root", "pid", "proc", "ipc", "uts", "net", "capabilities", "seccomp", "rlimits")
        assert all(boxes.layer(result, name).held for name in others)

    hosted(work)


def test_a_policy_that_asks_for_more_is_refused_before_anything_runs(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        with pytest.raises(UnsupportedError) as refusal:
            Sandbox(Policy.strict(minimum_rung=Rung.FULL))
        assert "control group" in str(refusal.value.missing) and refusal.value.remedy
        with pytest.raises(UnsupportedError) as refusal:
            box.run(["/bin/true"], limits=Limits(cpus=0.5))
        assert refusal.value.missing

    hosted(work)


def test_memory_of_the_tree_is_limited(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        for words in ("eat 400 , pause", "fork 1 , eat 400 , pause", "shm 50 , eat 30 , pause", "daemon 1 , eat 400 , pause"):
            result = box.run(verbs(words), limits=Limits(memory_bytes=64 * MIB))
            assert (result.status, result.exit_code, result.signal) == (Status.MEMORY_LIMIT, None, None), words
        three = "; ".join([f"{boxes.SHOWN}/verbs eat 30 , pause &"] * 3)
        result = box.run(["/bin/sh", "-c", f"{three.replace('&;', '&')} wait"], limits=Limits(memory_bytes=64 * MIB))
        assert result.status is Status.MEMORY_LIMIT
        assert 64 * MIB < result.usage.peak_memory_bytes < 100 * MIB

    hosted(work)


def test_memory_that_processes_share_is_counted_once(hosted: Hosted) -> None:
    """A fork copies nothing, and a mapping of many is one: what fits must not be ended for it."""

    def work(box: Sandbox) -> None:
        for words in ("eat 40 , fork 8 , sleep 150", "shm 30 , fork 8 , sleep 150", "eat 100 , sleep 100"):
            result = box.run(verbs(words), limits=Limits(memory_bytes=128 * MIB))
            assert result.ok, (words, result.status, result.usage.peak_memory_bytes)
            assert result.usage.peak_memory_bytes < 128 * MIB

    hosted(work)


def test_cpu_time_of_the_tree_is_limited(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        for words in ("spin 0", "spinners 3 , pause", "daemon 1 , spin 0", "fork 3 , spinners 1 , stop"):
            spent = boxes.spent_at_the_limit(box, verbs(words), 0.3)
            assert 0.21 < min(spent) < 0.6, (words, spent)  # each process for itself: up to 1.2
        assert box.run(verbs("spin 30"), limits=Limits(cpu_seconds=0.01)).status is Status.CPU_LIMIT
        assert box.run(verbs("sleep 200"), limits=Limits(cpu_seconds=0.1)).ok

    hosted(work)


def test_wall_time_is_limited_and_the_tree_is_gone(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        result = box.run(verbs("daemon 300000 , fork 20 , ignore , pause"), limits=Limits(wall_seconds=0.5))
        assert boxes.init_kept_the_limit(result) and result.killed_processes == 22
        assert boxes.tree_is_gone(boxes.SHOWN)

    hosted(work)


@pytest.mark.parametrize("words", ["fork 100", "threads 100"])
def test_processes_are_limited_for_each_box_alone(words: str, hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        limits = Limits(processes=20)
        with box.spawn(verbs("fork 15 , echo ready , pause"), limits=limits) as neighbour:
            assert neighbour.stdout.readline() and neighbour.stdout.readline() == b"ready\n"
            told = box.run(verbs(words), limits=limits).text.split()
            neighbour.kill()
        made = int(told[1].removeprefix("made="))
        assert told[2] == f"errno={errno.EAGAIN}" and made <= 19
        assert made == 19 or not counts_by_namespace(), made

    hosted(work)


def counts_by_namespace() -> bool:
    """Linux 5.14 and later count processes in each user namespace; before, all boxes of one user add up."""
    return tuple(map(int, os.uname().release.split(".")[:2])) >= (5, 14)


def test_ends_come_back_as_they_are(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        assert [box.run(verbs(f"exit {code}")).exit_code for code in (0, 1, 200)] == [0, 1, 200]
        ends = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTERM)
        told = [box.run(verbs(f"eat 20 , signal {number}"), limits=Limits(memory_bytes=64 * MIB)) for number in ends]
        assert [(one.status, one.signal) for one in told] == [(Status.SIGNALED, number) for number in ends]
        assert box.run(verbs("abort")).signal == signal.SIGABRT

    hosted(work)


def test_peak_memory_is_known_without_a_group(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        def peak(result: Result) -> float:
            assert result.ok and result.usage.peak_memory_upper_bytes is None
            return result.usage.peak_memory_bytes / MIB

        assert peak(box.run(verbs("exit 0"))) < 2
        assert 30 <= peak(box.run(verbs("eat 30"))) < 32
        assert 50 <= peak(boxes.eaten_together(box, "eat 30", "eat 20")) < 56

    hosted(work)


def test_a_workspace_belongs_to_the_caller(hosted: Hosted) -> None:
    def work(box: Sandbox) -> None:
        directory = Path(tempfile.mkdtemp())
        try:
            result = box.run(["/bin/sh", "-c", "mkdir d && echo x > d/file && id -u"], workspace=directory)
            made = (directory / "d/file").stat()
        finally:
            shutil.rmtree(directory)
        assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (os.geteuid(), os.getegid(), 0o644)
        assert result.text == "1000\n"

    hosted(work)


def test_a_plain_users_guest_may_no_more_than_the_user(public: Guests, needs: Callable[[str], None]) -> None:
    needs("root")
    secret = Path(tempfile.mkdtemp(prefix="degraded-secret-"))
    secret.chmod(0o755)
    (secret / "file").write_text("x")
    (secret / "file").chmod(0o600)

    def host() -> None:
        boxes.become_plain()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        with Sandbox(Policy.strict(readable=[*boxes.shown(public), (str(secret), "/secret")])) as box:
            found = boxes.facts(box.run([f"{boxes.SHOWN}/inside"]))
            assert (found["uids"], found["CapBnd"], found["no_new_privs"]) == (["1000 1000 1000"], ["0" * 16], ["1"])
            assert boxes.attempts(box, "read /secret/file , unshare 0x10000000") == {"read": errno.EACCES, "unshare": errno.EPERM}

    try:
        boxes.in_a_host(host)
    finally:
        shutil.rmtree(secret)
