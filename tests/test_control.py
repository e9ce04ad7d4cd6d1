"""Questions to the launcher and its answers (csrc/host/control.c): what the host learns when there is none, or a refusal."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from launched import Failed, checked, launched, told

from sandbox_native._native import ffi, lib
from sandbox_native.features import launcher_path

pytestmark = pytest.mark.kernel


@pytest.fixture
def silent(guest: Mapping[str, Path]) -> Iterator[Any]:
    """A launcher that is alive and never answers."""
    with launched(guest["started"]) as process:
        told(process)
        os.kill(process.pid, signal.SIGSTOP)
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            pass  # until it has stopped it could still take a message
        yield process


@pytest.fixture
def launcher() -> Iterator[Any]:
    with launched(launcher_path()) as process:
        yield process


def ask_plan(process: Any, plan: bytes, timeout_ms: int = 5000) -> int:
    """The template's socket."""
    control, why = ffi.new("int32_t *"), ffi.new("struct sn_failure *")
    fd = os.memfd_create("plan", os.MFD_CLOEXEC)
    try:
        os.write(fd, plan)
        checked(lib.sn_launcher_plan(process, fd, control, timeout_ms, why), why)
    finally:
        os.close(fd)
        assert control[0] == -1
    return int(control[0])


def ask_bind(process: Any, path: bytes, timeout_ms: int = 5000) -> None:
    why = ffi.new("struct sn_failure *")
    os.close(checked(lib.sn_launcher_bind(process, path, 0, 0, 0, timeout_ms, why), why))


def ask_slot(template: Any, count: int, timeout_ms: int = 5000) -> None:
    slot, why = ffi.new("struct sn_process *"), ffi.new("struct sn_failure *")
    try:
        checked(lib.sn_slot_open(template, [0] * count, [0] * count, count, 0, 0, slot, timeout_ms, why), why)
    finally:
        assert (slot.pidfd, slot.control) == (-1, -1)


def test_plan_that_is_none_is_refused_by_the_launcher(launcher: Any) -> None:
    with pytest.raises(Failed) as caught:
        ask_plan(launcher, bytes(ffi.sizeof("struct sn_plan")))
    assert (caught.value.stage, caught.value.errno, caught.value.item) == (lib.SN_STAGE_PLAN, errno.EPROTO, "version")


def test_silent_launcher_is_a_timeout(silent: Any) -> None:
    with pytest.raises(Failed) as caught:
        ask_plan(silent, b"", timeout_ms=100)
    assert (caught.value.stage, caught.value.errno) == (lib.SN_STAGE_CHANNEL, errno.ETIMEDOUT)


def test_late_answers_are_never_taken_for_the_next_ones(silent: Any) -> None:
    """The socket is shut down, so that no later question can be answered by what was meant for this one."""
    with pytest.raises(Failed) as caught:
        ask_bind(silent, b"/", timeout_ms=50)
    assert caught.value.errno == errno.ETIMEDOUT
    with pytest.raises(Failed) as caught:
        ask_bind(silent, b"/")
    assert (caught.value.stage, caught.value.errno) == (lib.SN_STAGE_LOST, errno.EPIPE)


def test_launcher_that_ends_without_a_word_is_lost() -> None:
    with launched("/bin/true") as process, pytest.raises(Failed) as caught:
        ask_plan(process, b"")
    assert (caught.value.stage, caught.value.errno) == (lib.SN_STAGE_LOST, errno.EPIPE)


def test_killed_launcher_is_lost(silent: Any) -> None:
    os.kill(silent.pid, signal.SIGKILL)
    with pytest.raises(Failed) as caught:
        ask_bind(silent, b"/")
    assert caught.value.stage == lib.SN_STAGE_LOST


def test_path_longer_than_a_message_holds_is_refused_here(silent: Any) -> None:
    with pytest.raises(Failed) as caught:
        ask_bind(silent, b"/" + b"x" * 4096)
    assert (caught.value.stage, caught.value.errno) == (lib.SN_STAGE_WORKSPACE, errno.ENAMETOOLONG)
    assert len(caught.value.item) == lib.SN_ITEM_BYTES - 1, "cut, with its NUL"


def test_more_gauges_than_a_message_holds_are_refused_here(silent: Any) -> None:
    with pytest.raises(Failed) as caught:
        ask_slot(silent, lib.SN_MAX_GAUGES + 1)
    assert (caught.value.stage, caught.value.errno) == (lib.SN_STAGE_CGROUP, errno.E2BIG)


def test_template_that_is_gone_is_lost() -> None:
    with pytest.raises(Failed) as caught:
        ask_slot(ffi.new("struct sn_process *", {"control": -1}), 0)
    assert caught.value.stage == lib.SN_STAGE_LOST
