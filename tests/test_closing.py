"""Sandbox.close while another thread, or the very thread that closes, has a question to the launcher."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from boxes import PATIENCE

from sandbox_native import Sandbox, SetupError

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def engine_of(sandbox: Sandbox) -> Any:
    backend: Any = sandbox._backend
    return backend._engine


def until_told(control: int) -> None:
    """That the conversation is over."""
    watched = select.poll()
    watched.register(control, select.POLLHUP)
    assert watched.poll(PATIENCE * 1000)


def test_a_socket_that_is_asked_is_shut_down_and_stays_what_it_is(sandbox: Sandbox) -> None:
    """Closed, its number could be another's by the time that the one who asks uses it."""
    engine = engine_of(sandbox)
    controls = [engine._launcher.control, engine._template.control]
    closing = threading.Thread(target=sandbox.close)
    with engine._asking:
        closing.start()
        for control in controls:
            until_told(control)
        assert [engine._launcher.control, engine._template.control] == controls
    closing.join()
    assert [engine._launcher.control, engine._template.control] == [-1, -1]


def test_a_run_that_waits_for_a_launcher_is_told_that_its_sandbox_was_closed(sandbox: Sandbox, tmp_path: Path) -> None:
    engine, told = engine_of(sandbox), list[SetupError]()

    def run() -> None:
        try:
            sandbox.run(["/bin/true"], workspace=tmp_path)
        except SetupError as error:
            told.append(error)

    launcher = os.pidfd_open(engine._launcher.pid)
    running, closing = threading.Thread(target=run), threading.Thread(target=sandbox.close)
    signal.pidfd_send_signal(launcher, signal.SIGSTOP)
    try:
        while Path(f"/proc/{engine._launcher.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            pass  # until it has stopped it could still answer
        running.start()
        while engine._asking.acquire(blocking=False):
            engine._asking.release()
            assert running.is_alive()
        closing.start()
        running.join(PATIENCE)
        assert [(error.stage, error.item) for error in told] == [("spawn", "sandbox")]  # while the launcher says nothing
        assert "it was closed" in str(told[0])
    finally:
        signal.pidfd_send_signal(launcher, signal.SIGCONT)
        os.close(launcher)
        running.join()
        sandbox.close()


def test_a_signal_handler_may_close_the_sandbox_of_which_its_thread_asks_something(sandbox: Sandbox) -> None:
    engine = engine_of(sandbox)

    def handled() -> None:
        with engine._asking:
            sandbox.close()

    thread = threading.Thread(target=handled, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert engine._launcher.control == -1
