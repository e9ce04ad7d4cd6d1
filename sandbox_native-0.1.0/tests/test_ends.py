"""How a run ended: exit codes and signals as they are, and what the filter ended told from what the guest did itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import boxes
import pytest
from boxes import Guests, verbs

from sandbox_native import Sandbox, Status

pytestmark = pytest.mark.needs("userns")
HARMLESS = {signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT}
STOPPING = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
FATAL = sorted(signal.valid_signals() - HARMLESS - STOPPING)


@pytest.fixture
def box(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(boxes.strict(guest)) as sandbox:
        yield sandbox


def test_every_exit_code_comes_back_as_it_is(box: Sandbox) -> None:
    told = [box.run(verbs(f"exit {code}")) for code in range(256)]
    assert [result.exit_code for result in told] == list(range(256))
    assert [result.status for result in told] == [Status.OK] + [Status.NONZERO_EXIT] * 255


@pytest.mark.kernel
def test_every_fatal_signal_comes_back_as_it_is(box: Sandbox) -> None:
    told = [box.run(verbs(f"signal {number} , sleep 5000")) for number in FATAL]
    assert [(result.status, result.signal) for result in told] == [(Status.SIGNALED, number) for number in FATAL]
    assert {result.exit_code for result in told} == {None}


def test_abort_is_sigabrt(box: Sandbox) -> None:
    assert box.run(verbs("abort")).signal == signal.SIGABRT


@pytest.mark.kernel
@pytest.mark.needs("x86_64")
@pytest.mark.parametrize("words,names", [("int80 20", ("20", "getpid", "i386")), ("x32 39", ("39", "getpid", "x32"))])
def test_a_call_that_the_filter_ends_is_named(words: str, names: tuple[str, ...], box: Sandbox) -> None:
    result = box.run([f"{boxes.SHOWN}/attempts", *words.split()])
    assert (result.status, result.exit_code, result.signal) == (Status.FORBIDDEN_SYSCALL, None, None)
    assert result.hint is not None and all(name in result.hint for name in names), result.hint


@pytest.mark.kernel
@pytest.mark.parametrize("words", ["sigsys", "sigsys-forged"])
def test_a_sigsys_of_the_guests_own_is_no_forbidden_call(words: str, box: Sandbox) -> None:
    result = box.run(verbs(words))
    assert (result.status, result.signal) == (Status.SIGNALED, signal.SIGSYS)


def test_cancelling_ends_the_tree_and_says_so(box: Sandbox) -> None:
    with box.spawn(verbs("fork 5 , echo ready , pause")) as process:
        assert [line.split()[0] for line in (process.stdout.readline(), process.stdout.readline())] == [b"fork", b"ready"]
        process.kill()
        result = process.wait()
    assert (result.status, result.exit_code, result.signal, result.killed_processes) == (Status.CANCELLED, None, None, 6)
    assert boxes.tree_is_gone(boxes.SHOWN)
