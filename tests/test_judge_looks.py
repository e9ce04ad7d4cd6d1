"""What a look at a run tells: who waits for what."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from boxes import PATIENCE, until
from running import PYTHON, nap

from sandbox_native import PipeEnd, Sandbox
from sandbox_native.judge import looks
from sandbox_native.judge.looks import Look, Wait, is_running, look

NONE: frozenset[int] = frozenset()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for fd in ends:
        os.close(fd)


@pytest.mark.parametrize(
    ("script", "waits", "stuck"),
    [
        ("input()", [Wait.READING], True),
        ("select.select([0], [], [])", [Wait.POLLING], True),
        ("p = select.poll(); p.register(0); p.poll()", [Wait.POLLING], True),
        ("e = select.epoll(); e.register(0); e.poll()", [Wait.POLLING], True),
        ("select.select([0], [], [], 1000)", [Wait.UNKNOWN], False),
        ("p = select.poll(); p.register(0); p.poll(10**6)", [Wait.UNKNOWN], False),
        (f"time.sleep({nap(80)})", [Wait.UNKNOWN], False),
        ("signal.pause()", [Wait.FOR_OTHERS], False),
        ("os.read(os.pipe()[0], 1)", [Wait.FOR_OTHERS], False),
        ("threading.Thread(target=input).start(); threading.Event().wait()", [Wait.FOR_OTHERS, Wait.READING], True),
        ("threading.Thread(target=input).start(); time.sleep(1000)", [Wait.UNKNOWN, Wait.READING], False),
        ("pid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: input()", [Wait.FOR_OTHERS, Wait.READING], True),
        ("signal.signal(signal.SIGALRM, print); input()", [Wait.UNKNOWN], False),
    ],
)
def test_a_look_tells_what_each_thread_waits_for(pipe: tuple[int, int], script: str, waits: list[Wait], stuck: bool) -> None:
    text = f"import os, select, signal, threading, time\nprint('here', flush=True)\n{script}\n"
    of = frozenset({os.fstat(pipe[0]).st_ino})
    with Sandbox() as box, box.spawn([PYTHON, "-c", text], stdin=PipeEnd(pipe[0])) as process:
        process.stdout.readline()

        def seen() -> Look:
            return look(process.pids(), of)

        until(lambda: list(seen().waits) == waits, PATIENCE, f"{waits}")
        assert seen().stuck is stuck
        assert seen().waits_for_pipe is (waits[-1] > Wait.FOR_OTHERS)
        assert of <= seen().pipes
        assert is_running(process.pids()[0])


def test_who_computes_does_not_wait(pipe: tuple[int, int]) -> None:
    with Sandbox() as box, box.spawn([PYTHON, "-c", "print('here', flush=True)\nwhile True: pass"], stdin=b"") as process:
        process.stdout.readline()
        assert look(process.pids(), NONE).waits == (Wait.UNKNOWN,)


def test_nothing_moves_in_a_stuck_run(pipe: tuple[int, int]) -> None:
    of = frozenset({os.fstat(pipe[0]).st_ino})
    with Sandbox() as box, box.spawn(["/bin/cat"], stdin=PipeEnd(pipe[0])) as process:
        until(lambda: look(process.pids(), of).stuck, PATIENCE, "reading")
        before = look(process.pids(), of)
        assert look(process.pids(), of) == before
        os.write(pipe[1], b"x")
        until(lambda: look(process.pids(), of).stuck and look(process.pids(), of) != before, PATIENCE, "the next read")


def test_of_who_is_gone_nothing_is_told() -> None:
    with Sandbox() as box, box.spawn(["/bin/cat"], stdin=b"") as process:
        process.wait()
        assert look(process.pids(), NONE) == Look()
    assert not is_running(2**22)


def test_a_host_that_may_not_look_knows_nothing(monkeypatch: pytest.MonkeyPatch, pipe: tuple[int, int]) -> None:
    read = looks._read
    monkeypatch.setattr(looks, "_read", lambda path: "" if path.endswith("/syscall") else read(path))
    of = frozenset({os.fstat(pipe[0]).st_ino})
    with Sandbox() as box, box.spawn(["/bin/cat"], stdin=PipeEnd(pipe[0])) as process:
        until(lambda: bool(process.pids()), PATIENCE, "the guest")
        assert look(process.pids(), of).waits == (Wait.UNKNOWN,)
