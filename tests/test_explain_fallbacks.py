"""Refused calls where something that the supervisor uses is missing: less is told, or the run is refused."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket

import boxes
import bpf
import pytest
from boxes import Guests
from launched import refuse
from running import sh

from sandbox_native import Denial, Limits, Policy, Sandbox, SetupError
from sandbox_native.backends.engine import Engine

NUMBERS = bpf.built_numbers()
SCRIPT = "cat /etc/shadow; echo x >/usr/x; unshare -U true"
WHOLE = {"/etc/shadow", "/usr/x", "unshare"}
WAIT_KILLABLE_RECV = 32

pytestmark = pytest.mark.kernel


def told_without(call: str, error: int, argument: int = 0, bits: int = 0) -> set[str]:
    """What a run is told of, on a machine where a call answers with an errno."""

    reading, writing = os.pipe()

    def host() -> None:
        refuse(NUMBERS[call], error, argument, bits)
        with Sandbox(Policy.strict(explain=True)) as sandbox:
            os.write(writing, " ".join(one.name for one in sandbox.run(sh(SCRIPT)).denials).encode())

    with os.fdopen(reading) as answers:
        try:
            boxes.in_a_host(host)
        finally:
            os.close(writing)
        return set(answers.read().split())


@pytest.mark.parametrize(
    "call,error,told",
    [
        ("process_vm_readv", errno.ENOSYS, {"unshare"}),
        ("process_vm_readv", errno.EPERM, {"unshare"}),
        ("faccessat2", errno.ENOSYS, WHOLE),
        ("faccessat2", errno.EPERM, WHOLE),
    ],
)
def test_what_it_cannot_look_at_is_not_told(call: str, error: int, told: set[str]) -> None:
    assert told_without(call, error) == told


def test_an_older_kernel_has_no_flag_for_signals() -> None:
    assert told_without("seccomp", errno.EINVAL, 1, WAIT_KILLABLE_RECV) == WHOLE


def test_a_call_that_a_signal_interrupts_is_counted_when_it_is_answered(guest: Guests) -> None:
    def host() -> None:
        refuse(NUMBERS["seccomp"], errno.EINVAL, 1, WAIT_KILLABLE_RECV)
        policy = Policy.strict(explain=True, readable=[(str(guest["asks"]), "/asks")])
        with Sandbox(policy, Limits(wall_seconds=20)) as sandbox:
            result = sandbox.run(["/asks", "signals", "2000"])
        others = int(result.text.split()[1].removeprefix("others="))
        assert [one.count for one in result.denials] == [2000 - others], result.text

    boxes.in_a_host(host)


def test_a_run_whose_supervisor_is_gone_before_it_begins_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Engine.explain

    def killed(engine: Engine, given: int, memory: int) -> int:
        pidfd = asked(engine, given, memory)
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        select.select([pidfd], [], [])
        return pidfd

    with Sandbox(Policy.strict(explain=True)) as sandbox:
        monkeypatch.setattr(Engine, "explain", killed)
        with pytest.raises(SetupError) as caught:
            sandbox.run(["/bin/true"])
        assert (caught.value.stage, caught.value.errno, caught.value.item) == ("explain", errno.EPIPE, "listener")
        monkeypatch.undo()
        assert sandbox.run(sh("cat /etc/shadow")).denials == (
            Denial(
                kind="path",
                name="/etc/shadow",
                arguments="openat O_RDONLY",
                reason="/etc/shadow exists on the host, not in the view (/etc is the box's own); nothing sensible allows it",
            ),
        )


def test_a_launcher_whose_plan_explains_nothing_makes_no_supervisor() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    memory = os.memfd_create("denials", os.MFD_CLOEXEC)
    try:
        with Sandbox(Policy.strict()) as sandbox, ours, theirs:
            engine = sandbox._backend._engine  # type: ignore[attr-defined]
            with pytest.raises(SetupError) as caught:
                engine.explain(theirs.fileno(), memory)
            assert (caught.value.stage, caught.value.errno) == ("explain", errno.EPROTO)
            assert sandbox.run(["/bin/true"]).ok
    finally:
        os.close(memory)
