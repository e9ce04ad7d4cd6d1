"""Process: streams that are read while the run goes on, waiting, killing, and many threads at one Process."""

from __future__ import annotations

import asyncio
import gc
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import interrupting
import pytest
from boxes import PATIENCE, in_a_host
from running import nap, sh, sleepers

from sandbox_native import (
    ExecError,
    Limits,
    PolicyError,
    Process,
    Sandbox,
    SandboxError,
    SetupError,
    Status,
    shared_run,
    streams,
    turns,
)
from sandbox_native import process as process_module
from sandbox_native.backends.base import Job
from sandbox_native.backends.box import LinuxBox
from sandbox_native.backends.linux import LinuxBackend

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
LONG = Limits(wall_seconds=60)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(limits=LONG) as made:
        yield made


def test_a_conversation(sandbox: Sandbox) -> None:
    with sandbox.spawn(["/bin/cat"]) as process:
        assert process.stdin is not None
        for line in (b"one\n", b"two\n"):
            assert process.stdin.write(line) == 4
            assert process.stdout.readline() == line
        process.stdin.close()
        process.stdin.close()
        assert process.stdout.read() == b""
        result = process.wait()
    assert (result.status, result.stdout, result.stdout_total, result.stdout_truncated) == (Status.OK, b"", 8, False)


def test_what_nobody_reads_is_in_the_result(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("echo out; echo err >&2")) as process:
        result = process.wait()
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")


def test_a_reader_takes_no_more_than_it_asks_for(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("echo first; echo second; echo third")) as process:
        assert process.stdout.readline() == b"first\n"
        assert process.stdout.read(3) == b"sec"
        result = process.wait()
    assert result.stdout == b"ond\nthird\n"
    assert not result.stdout_truncated


def test_a_reader_goes_on_after_the_end(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("echo a; echo b; echo err >&2")) as process:
        assert process.stdout.readline() == b"a\n"
        process.wait()
        assert process.stdout.readline() == b"b\n"
        assert process.stdout.read() == b""
        assert list(process.stderr) == [b"err\n"]


def test_a_slow_reader_loses_nothing_while_another_thread_waits(sandbox: Sandbox) -> None:
    got: list[bytes] = []
    with sandbox.spawn(sh("head -c 300000 /dev/zero"), limits=Limits(stdout_bytes=1 << 16, wall_seconds=60)) as process:
        assert process.stdout.read(1) == b"\0"

        def body() -> None:
            while data := process.stdout.read1(4096):
                got.append(data)
                time.sleep(0.0005)

        thread = threading.Thread(target=body)
        thread.start()
        result = process.wait()
        thread.join()
    assert sum(map(len, got)) == 299999
    assert not result.stdout_truncated


def test_who_reads_and_then_waits_does_not_wait_for_himself(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("head -c 3000000 /dev/zero"), limits=Limits(stdout_bytes=1 << 16, wall_seconds=60)) as process:
        assert process.stdout.read(10) == bytes(10)
        result = process.wait(60)
    assert (result.stdout_total, result.stdout_truncated) == (3000000, True)


def test_wait_times_out_and_the_run_goes_on(sandbox: Sandbox) -> None:
    with sandbox.spawn(["/bin/cat"]) as process:
        for timeout in (0, 0.05):
            with pytest.raises(TimeoutError):
                process.wait(timeout)
        assert process.poll() is None
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) is process.wait() is process.poll()


def test_kill_ends_the_whole_tree(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh(f"sleep {nap(306)} & sleep {nap(306)} & echo up; wait")) as process:
        process.stdout.readline()
        process.kill()
        process.kill()
        assert process.wait(60).status is Status.CANCELLED
        process.kill()
    assert not sleepers(306)


def test_kill_from_another_thread_reaches_a_wait(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh(f"sleep {nap(307)}")) as process:
        timer = threading.Timer(0.1, process.kill)
        timer.start()
        assert process.wait().status is Status.CANCELLED
        timer.join()


def test_leaving_the_context_ends_the_run(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh(f"echo up; sleep {nap(308)}")) as process:
        process.stdout.readline()
        while not sleepers(308):
            pass
    assert not sleepers(308)
    assert process.wait() is process.wait()
    assert (process.wait().status, process.wait().stdout) == (Status.CANCELLED, b"")
    assert sandbox.run(["/bin/true"]).ok


def test_a_process_that_is_forgotten_is_ended(sandbox: Sandbox) -> None:
    process = sandbox.spawn(sh(f"echo up; sleep {nap(309)}"))
    process.stdout.readline()
    while not sleepers(309):
        pass
    del process
    assert not sleepers(309)


def test_wherever_a_handlers_exception_comes_it_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a Process that nobody else uses; what is not even made then is given back silently."""

    def work() -> None:
        signal.alarm(int(PATIENCE))  # should it hang
        ignored: list[object] = []
        monkeypatch.setattr(sys, "unraisablehook", ignored.append)
        seen = list[str]()
        made = list[Process]()

        def use() -> None:
            made.append(sandbox.spawn(["/bin/cat"]))
            made[0].stdin.write(b"word\n")  # type: ignore[union-attr]
            assert made[0].stdout.readline() == b"word\n"
            made[0].poll()

        with Sandbox() as sandbox:
            for where in interrupting.places(use, process_module, shared_run, streams, turns):
                if made:
                    made.pop().close()
                seen.append(where)
            made.pop().close()
            gc.collect()
        assert len(seen) > 50 and ignored == []

    in_a_host(work)


def test_a_reader_alone_keeps_the_run(sandbox: Sandbox) -> None:
    assert list(sandbox.spawn(sh("echo a; sleep 0.1; echo b")).stdout) == [b"a\n", b"b\n"]


def test_an_event_loop_can_watch_it(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("sleep 0.05; echo hi")) as process:
        watched = select.poll()
        watched.register(process, select.POLLIN)
        while process.poll() is None:
            watched.poll(1000)
        assert process.wait().stdout == b"hi\n"
        assert watched.poll(0), "whoever comes late sees the end too"
    with pytest.raises(ValueError, match="closed"):
        process.fileno()


def test_of_one_whose_sandbox_was_closed_while_it_began_too(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(backend: LinuxBackend, job: Job) -> LinuxBox:
        box = start(backend, job)
        box.settle()
        return box

    start = LinuxBackend.start
    monkeypatch.setattr(LinuxBackend, "start", started)
    with sandbox.spawn(["/bin/sleep", "60"]) as process:
        watched = select.poll()
        watched.register(process, select.POLLIN)
        assert watched.poll(0)
        assert process.wait().status is Status.CANCELLED


def test_event_loop_forgets_each_of_many_after_its_end(sandbox: Sandbox) -> None:
    async def watch(number: int) -> bytes:
        loop = asyncio.get_running_loop()
        with sandbox.spawn(sh(f"sleep 0.0{number}; echo {number}")) as process:
            ended: asyncio.Future[bytes] = loop.create_future()
            fd = process.fileno()

            def serve() -> None:
                result = process.poll()
                if result is not None:
                    assert process.fileno() == fd
                    assert loop.remove_reader(process)
                    ended.set_result(result.stdout)

            loop.add_reader(process, serve)
            return await ended

    async def all_of_them() -> list[bytes]:
        return await asyncio.gather(*(watch(number) for number in range(6)))

    assert asyncio.run(all_of_them()) == [b"%d\n" % number for number in range(6)]


def test_loop_is_told_of_an_end_that_another_thread_saw(sandbox: Sandbox) -> None:
    with sandbox.spawn(["/bin/true"]) as process:
        watched = select.epoll()
        watched.register(process, select.EPOLLIN)
        process.wait()
        assert watched.poll(60)
        watched.unregister(process)
        watched.close()


def test_process_that_is_closed_gives_what_it_printed(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh(f"echo one; echo two; echo three > f; exec sleep {nap(311)}"), collect=["f"]) as process:
        assert process.stdout.readline() == b"one\n"
        while not sleepers(311):
            pass
    result = process.wait()
    assert (result.status, result.stdout, result.files) == (Status.CANCELLED, b"two\n", {"f": b"three\n"})
    assert process.stdout.read() == b"two\n"


def test_forked_child_is_told_that_the_process_is_not_its_own(sandbox: Sandbox) -> None:
    def work() -> None:
        for use in (process.wait, process.poll, process.stdout.read, process.stdout.readline, process.stdout.readline):
            with pytest.raises(SandboxError, match="^this Process belongs to the process that spawned it$"):
                use()
        process.close()

    with sandbox.spawn(sh("echo one; echo two; read x; echo $x")) as process:
        assert process.stdout.readline() == b"one\n"
        in_a_host(work)
        assert process.stdin is not None
        process.stdin.write(b"three\n")
        assert process.wait().stdout == b"two\nthree\n"


def test_stdin_that_is_given_is_not_for_writing(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"from a file")
    for stdin, expected in ((b"from bytes", b"from bytes"), (path, b"from a file"), (b"", b"")):
        with sandbox.spawn(["/bin/cat"], stdin=stdin) as process:
            assert process.stdin is None
            assert process.wait().stdout == expected


def test_errors_of_the_start_come_once_and_again(sandbox: Sandbox) -> None:
    with pytest.raises(PolicyError):
        sandbox.spawn([])
    with pytest.raises(ExecError):
        sandbox.spawn(["/no/such/program"])
    with sandbox.spawn(["/bin/true"], cwd="/no/such/directory") as process:
        for _ in range(2):
            with pytest.raises(SetupError, match="cwd"):
                process.wait()
        with pytest.raises(SetupError, match="cwd"):
            process.stdout.read()


def test_many_threads_at_one_process(sandbox: Sandbox) -> None:
    lines: list[bytes] = []
    errors: list[bytes] = []
    with sandbox.spawn(sh("while read x; do echo out $x; echo err $x >&2; done")) as process:
        threads = [
            threading.Thread(target=lambda: lines.extend(process.stdout)),
            threading.Thread(target=lambda: errors.extend(process.stderr)),
        ]
        for thread in threads:
            thread.start()
        assert process.stdin is not None
        for number in range(50):
            process.stdin.write(b"%d\n" % number)
        process.stdin.close()
        assert process.wait(60).ok
        for thread in threads:
            thread.join()
    assert lines == [b"out %d\n" % number for number in range(50)]
    assert errors == [b"err %d\n" % number for number in range(50)]
