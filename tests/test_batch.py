"""Sandbox.map: a bounded number at once, errors as values, back-pressure, and an orderly end."""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import pickle
import queue
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import boxes
import interrupting
import pytest
from running import nap, sh, sleepers

from sandbox_native import ExecError, Limits, Policy, PolicyError, Result, Sandbox, SetupError, Status, batch, supervisor
from sandbox_native.backends.base import Job as RawJob
from sandbox_native.backends.box import LinuxBox
from sandbox_native.backends.linux import LinuxBackend
from sandbox_native.budget import Budget
from sandbox_native.executor import SandboxExecutor
from sandbox_native.options import Job

pytestmark = pytest.mark.needs("userns")


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox() as box:
        yield box


def texts(outcomes: Iterator[Any]) -> list[str]:
    return [outcome.text.strip() for outcome in outcomes]


def test_outcomes_come_in_the_order_of_the_jobs(box: Sandbox) -> None:
    jobs = [sh(f"sleep 0.{9 - number}; echo {number}") for number in range(5)]
    assert texts(box.map(jobs, concurrency=5)) == list("01234")


def test_unordered_they_come_as_they_end(tmp_path: Path) -> None:
    """Each ends when it is let."""
    tmp_path.chmod(0o755)
    jobs = [sh(f"until [ -e /let/{number} ]; do sleep 0.01; done; echo {number}") for number in range(5)]
    with Sandbox(Policy.strict(readable=[(str(tmp_path), "/let")])) as box:
        outcomes = box.map(jobs, concurrency=5, ordered=False)
        for number in "43210":
            (tmp_path / number).touch()
            assert texts(itertools.islice(outcomes, 1)) == [number]
        assert list(outcomes) == []


def test_a_job_is_an_argv_a_mapping_or_a_job(box: Sandbox) -> None:
    jobs = [["/bin/echo", "argv"], {"argv": ["/bin/cat"], "stdin": b"mapping"}, Job(argv=["/bin/cat"], stdin=b"job")]
    assert texts(box.map(jobs)) == ["argv", "mapping", "job"]


def test_a_job_can_be_pickled(box: Sandbox) -> None:
    job = pickle.loads(pickle.dumps(Job(argv=["/bin/cat"], stdin=b"there", limits=Limits(wall_seconds=3))))
    (result,) = box.run_many([job])
    assert isinstance(pickle.loads(pickle.dumps(result)), Result) and texts(iter([result])) == ["there"]


def test_an_error_is_the_outcome_of_its_job_alone(box: Sandbox) -> None:
    nowhere = {"argv": ["/bin/true"], "cwd": "x"}
    jobs: list[Any] = [["/bin/echo", "a"], ["/no/such/program"], nowhere, {"arg": 1}, "echo", sh("echo b")]
    first, missing, cwd, unknown, text, last = box.map(jobs)
    assert isinstance(missing, ExecError) and all(isinstance(one, PolicyError) for one in (cwd, unknown, text))
    assert "'arg'" in str(unknown) and texts(iter([first, last])) == ["a", "b"]


def test_no_more_run_at_once_than_was_said(box: Sandbox) -> None:
    started = time.monotonic()
    assert len(list(box.map([["/bin/sleep", "0.2"]] * 6, concurrency=2))) == 6
    assert time.monotonic() - started >= 0.6


def test_input_is_taken_only_as_there_is_room(box: Sandbox) -> None:
    taken = 0

    def jobs() -> Iterator[list[str]]:
        nonlocal taken
        for number in itertools.count():
            taken = number + 1
            yield ["/bin/echo", str(number)]

    outcomes = box.map(jobs(), concurrency=2)
    assert texts(itertools.islice(outcomes, 10)) == [str(number) for number in range(10)]
    assert taken <= 10 + 4
    outcomes.close()  # type: ignore[attr-defined]


def test_guests_are_served_while_the_caller_is_busy_with_an_outcome(box: Sandbox) -> None:
    """A guest that fills its pipe must not wait for whoever looks at another's result."""
    word = f"loud-{os.getpid()}"
    loud = {"argv": ["/bin/sh", "-c", "head -c 3000000 /dev/zero; :", word], "limits": Limits(wall_seconds=300)}
    outcomes = box.map([sh("true"), *[loud] * 3], concurrency=4)
    next(outcomes)
    boxes.until(lambda: boxes.tree_is_gone(word), boxes.PATIENCE, "the end of guests that fill their pipes")
    assert [one.status for one in outcomes if isinstance(one, Result)] == [Status.OK] * 3


def test_stop_on_ends_the_rest_and_gives_what_is_done(box: Sandbox) -> None:
    jobs = [sh("exit 3"), ["/bin/sleep", nap(311)], ["/bin/sleep", nap(311)], *[["/bin/sleep", nap(311)]] * 50]
    got = list(box.map(jobs, concurrency=3, stop_on=lambda one: isinstance(one, Result) and one.exit_code == 3))
    first, *rest = [one.status for one in got if isinstance(one, Result)]
    assert first is Status.NONZERO_EXIT and set(rest) == {Status.CANCELLED} and len(rest) <= 3
    assert sleepers(311) == []


def test_an_iterator_that_is_dropped_ends_what_runs(box: Sandbox) -> None:
    outcomes = box.map([sh("true"), *[["/bin/sleep", nap(312)]] * 5], concurrency=3)
    next(outcomes)
    del outcomes
    assert sleepers(312) == []


def test_one_that_is_never_asked_for_anything_costs_nothing(box: Sandbox) -> None:
    threads = threading.active_count()
    for _ in range(3):
        box.map([sh("true")])
    assert threading.active_count() == threads


def test_ctrl_c_gives_what_is_done_and_then_comes_through(box: Sandbox) -> None:
    def work() -> None:
        with Sandbox() as own:
            got: list[Any] = []
            with pytest.raises(KeyboardInterrupt):
                jobs = [sh("echo first"), *[["/bin/sleep", nap(313)]] * 3]
                for outcome in own.map(jobs, concurrency=4):
                    if not got:
                        boxes.until(lambda: len(sleepers(313)) == 3, boxes.PATIENCE, "sleepers")
                        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                    got.append(outcome)
            assert [one.status for one in got] == [Status.OK, *[Status.CANCELLED] * 3]
            assert sleepers(313) == []

    boxes.in_a_host(work)


@pytest.mark.parametrize("ordered", [True, False])
def test_wherever_ctrl_c_comes_it_ends_and_no_outcome_comes_twice(ordered: bool) -> None:
    def work() -> None:
        signal.alarm(int(boxes.PATIENCE))  # should it hang
        got: list[str] = []

        def run() -> None:
            got.clear()
            for outcome in box.map((["/bin/echo", str(number)] for number in range(4)), concurrency=2, ordered=ordered):
                assert isinstance(outcome, Result)
                got.append(outcome.text or outcome.status.value)

        with Sandbox() as box:
            run()
            assert sorted(got) == ["0\n", "1\n", "2\n", "3\n"]
            places = list[str]()
            for where in interrupting.places(run, batch, supervisor):
                places.append(where)
                ended = [text for text in got if text != Status.CANCELLED.value]
                assert len(set(ended)) == len(ended), where
            assert len(places) > 50

    boxes.in_a_host(work)


def test_an_outcome_that_was_just_awaited_is_not_lost(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(queue.SimpleQueue[Any]):
        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            super().get(block, timeout)
            raise KeyboardInterrupt

    monkeypatch.setattr(batch.queue, "SimpleQueue", Interrupted)
    got = list[Any]()
    with pytest.raises(KeyboardInterrupt):
        got.extend(map(got.append, box.map([sh("echo there")], ordered=False)))
    assert texts(iter(one for one in got if one)) == ["there"]


def test_a_budget_keeps_runs_from_starting_and_kills_none() -> None:
    budget = Budget(memory_bytes=256 << 20)
    job = {"argv": sh("sleep 0.1; echo ok"), "limits": Limits(memory_bytes=128 << 20)}
    with Sandbox(budget=budget) as one, Sandbox(budget=budget) as other:
        started = time.monotonic()
        both = zip(one.map([job] * 6, concurrency=6), other.map([job] * 6, concurrency=6), strict=True)
        assert all(isinstance(outcome, Result) and outcome.ok for pair in both for outcome in pair)
        assert time.monotonic() - started >= 0.6, "two at once, of twelve"
        (refused,) = one.map([{"argv": sh("true"), "limits": Limits(memory_bytes=512 << 20)}])
        assert isinstance(refused, PolicyError)
        assert one.run(sh("true"), limits=Limits(memory_bytes=1 << 26)).ok


def test_a_budget_holds_for_every_way_to_run() -> None:
    budget = Budget(memory_bytes=64 << 20)
    limits = Limits(memory_bytes=64 << 20)
    with Sandbox(limits=limits, budget=budget) as box:
        started = time.monotonic()
        with box.spawn(["/bin/sleep", "0.3"]) as process:
            waiter = threading.Thread(target=process.wait)
            waiter.start()
            assert box.run(["/bin/true"]).ok and time.monotonic() - started > 0.25
            waiter.join()

            async def both() -> None:
                began = time.monotonic()
                async with await box.spawn_async(["/bin/sleep", "0.3"]) as first:
                    assert (await box.run_async(["/bin/true"])).ok and time.monotonic() - began > 0.25
                    assert (await first.wait()).ok

            asyncio.run(both())
        with pytest.raises(ExecError):
            box.spawn(["./nothing"], files={"nothing": b"#!/no/such\n"}).wait()
        assert box.run(["/bin/true"]).ok, "what failed has given back its claim"


class TestExecutor:
    def test_one_that_can_never_fit_and_is_cancelled_holds_up_nobody(self) -> None:
        with Sandbox(budget=Budget(memory_bytes=64 << 20)) as box, SandboxExecutor(box, max_workers=1) as executor:
            small = Limits(memory_bytes=64 << 20)
            running = executor.submit(["/bin/sleep", "0.3"], limits=small)
            large = executor.submit(["/bin/true"], limits=Limits(memory_bytes=128 << 20))
            never = executor.submit(["/bin/true"], limits=Limits(memory_bytes=128 << 20))
            last = executor.submit(["/bin/true"], limits=small)
            assert large.cancel() and running.result().ok
            with pytest.raises(PolicyError):
                never.result()
            assert last.result().ok

    def test_futures_have_results(self, box: Sandbox) -> None:
        with SandboxExecutor(box, max_workers=3) as executor:
            futures = [executor.submit(["/bin/echo", str(number)]) for number in range(9)]
            assert texts(future.result() for future in futures) == [str(number) for number in range(9)]
            assert texts(executor.map([["/bin/echo", "a"], ["/bin/echo", "b"]])) == ["a", "b"]
            assert executor.submit(["/bin/cat"], stdin=b"option").result().stdout == b"option"

    def test_what_has_not_begun_can_be_cancelled(self, box: Sandbox) -> None:
        with SandboxExecutor(box, max_workers=1) as executor:
            first, second = executor.submit(["/bin/sleep", "0.3"]), executor.submit(["/bin/true"])
            assert second.cancel()
            assert first.result().ok
            with pytest.raises(CancelledError):
                second.result()

    def test_shutdown_waits_and_takes_nothing_more(self, box: Sandbox) -> None:
        executor = SandboxExecutor(box)
        future = executor.submit(sh("sleep 0.2; echo end"))
        executor.shutdown()
        assert future.done() and future.result().text == "end\n"
        with pytest.raises(RuntimeError):
            executor.submit(["/bin/true"])

    def test_shutdown_that_cancels_ends_what_runs(self, box: Sandbox) -> None:
        executor = SandboxExecutor(box, max_workers=1)
        running, waiting = executor.submit(["/bin/sleep", nap(314)]), executor.submit(["/bin/true"])
        boxes.until(lambda: bool(sleepers(314)), boxes.PATIENCE, "sleeper")
        executor.shutdown(cancel_futures=True)
        assert running.result().status is Status.CANCELLED and waiting.cancelled() and sleepers(314) == []

    def test_it_works_in_a_forked_child(self, box: Sandbox) -> None:
        def work() -> None:
            with SandboxExecutor(box) as executor:
                assert executor.submit(["/bin/echo", "child"]).result().text == "child\n"
            box.close()

        boxes.in_a_host(work)


def test_closing_the_sandbox_ends_its_batch() -> None:
    box = Sandbox()
    outcomes = box.map([{"argv": ["/bin/sleep", nap(600)], "limits": Limits(wall_seconds=900)}] * 4, concurrency=4)

    def close() -> None:
        boxes.until(lambda: bool(sleepers(600)), boxes.PATIENCE, "a guest")
        box.close()

    closing = threading.Thread(target=close)
    closing.start()
    ended = list(outcomes)
    closing.join()
    assert len(ended) == 4
    begun = [outcome.status for outcome in ended if isinstance(outcome, Result)]  # the others found it closed
    assert begun and set(begun) == {Status.CANCELLED}


def test_what_nobody_foresaw_is_its_own_jobs_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(box: LinuxBox) -> Result:
        if box._job.limits.wall_seconds == 7:
            raise RecursionError("too deep")
        return whole(box)

    whole = LinuxBox.result
    monkeypatch.setattr(LinuxBox, "result", broken)
    jobs = [{"argv": ["/bin/true"], "limits": Limits(wall_seconds=wall)} for wall in (5, 7, 5)]
    with Sandbox() as box:
        first, second, third = box.map(jobs)
    assert isinstance(first, Result) and isinstance(third, Result)
    assert isinstance(second, SetupError) and second.stage == "job"
    assert "RecursionError" in str(second) and "too deep" in str(second)
    assert isinstance(second.__cause__, RecursionError)


def own_jobs() -> list[dict[str, Any]]:
    """The second of three is told by its limit."""
    return [{"argv": ["/bin/true"], "limits": Limits(wall_seconds=wall)} for wall in (5, 7, 5)]


def is_second(job: RawJob) -> bool:
    return job.limits.wall_seconds == 7


def test_a_box_that_cannot_be_given_back_before_another_try_is_its_own_jobs_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(box: LinuxBox) -> Result:
        if is_second(box._job):
            lost.append(box)
            raise SetupError("lost", 0, "box")
        return result(box)

    def unsettled(box: LinuxBox) -> None:
        close(box)
        if box in lost:
            lost.remove(box)
            raise SetupError("quarantine", errno.EMFILE, "/w")

    result, close, lost = LinuxBox.result, LinuxBox.close, list[LinuxBox]()
    monkeypatch.setattr(LinuxBox, "result", failing)
    monkeypatch.setattr(LinuxBox, "close", unsettled)
    monkeypatch.setattr(LinuxBox, "came_to_nothing", property(lambda box: is_second(box._job)))
    with Sandbox() as box:
        first, second, third = box.map(own_jobs())
    assert isinstance(first, Result) and isinstance(third, Result)
    assert isinstance(second, SetupError) and second.stage == "quarantine"


def test_a_program_that_is_not_found_again_is_its_own_jobs_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(backend: LinuxBackend, job: RawJob) -> LinuxBox:
        if is_second(job):
            raise ExecError("exec", errno.ESTALE, "/bin/true")
        return start(backend, job)

    def gone(job: RawJob, error: Exception) -> bool:
        raise ExecError("exec", errno.ENOENT, "/bin/true")

    start = LinuxBackend.start
    monkeypatch.setattr(LinuxBackend, "start", stale)
    monkeypatch.setattr(RawJob, "renewed_after", gone)
    with Sandbox() as box:
        first, second, third = box.map(own_jobs())
    assert isinstance(first, Result) and isinstance(third, Result)
    assert isinstance(second, ExecError) and second.errno == errno.ENOENT


def test_a_run_that_was_ended_before_anybody_served_it_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(backend: LinuxBackend, job: RawJob) -> LinuxBox:
        box = start(backend, job)
        if is_second(job):
            box.settle()  # as whoever closes the Sandbox does
        return box

    start = LinuxBackend.start
    monkeypatch.setattr(LinuxBackend, "start", started)
    jobs = [{**job, "argv": ["/bin/sleep", "0.2"]} for job in own_jobs()]
    with Sandbox() as box:
        assert [one.status for one in box.map(jobs) if isinstance(one, Result)] == [Status.OK, Status.CANCELLED, Status.OK]
