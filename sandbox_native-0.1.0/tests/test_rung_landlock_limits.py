"""Rung `landlock`: limits, held by sampling the tree."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import boxes
import pytest
import without_namespaces
from boxes import MIB, Guests
from running import sh

import sandbox_native as sn
from sandbox_native import Limits, Sandbox, Status

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.needs("root"),
    pytest.mark.needs("cc"),
    pytest.mark.needs("landlock_scopes"),
]
Try = Callable[[Callable[[Sandbox], None]], None]


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    with without_namespaces.public(guest) as found:
        yield found


@pytest.fixture
def with_box(public: Guests) -> Try:
    return lambda work: without_namespaces.with_box(public, work)


@pytest.fixture
def verbs(public: Guests) -> Callable[[str], list[str]]:
    return lambda words: [str(public["verbs"]), *words.split()]


@pytest.fixture(autouse=True)
def only_ours_end() -> Iterator[None]:
    """A process of the same user, and one in a group of its own, that no run may touch."""
    users = {"user": boxes.PLAIN_USER, "group": boxes.PLAIN_USER, "extra_groups": []}
    bystanders = [subprocess.Popen(["/bin/sleep", "300"], process_group=group, **users) for group in (None, 0)]  # type: ignore[call-overload]
    yield
    assert [one.poll() for one in bystanders] == [None, None]
    states = [Path(f"/proc/{one.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] for one in bystanders]
    for one in bystanders:
        one.kill()
        one.wait()
    assert states == ["S", "S"]


def left() -> list[str]:
    """Directories of runs."""
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith(f"sandbox-native-{boxes.PLAIN_USER}-")]


# ---- limits ----


def test_memory_of_the_tree_is_limited(with_box: Try, verbs: Callable[[str], list[str]]) -> None:
    def work(box: Sandbox) -> None:
        for words in ("eat 400 , pause", "fork 1 , eat 400 , pause", "daemon 1 , eat 400 , pause"):
            result = box.run(verbs(words), limits=Limits(memory_bytes=64 * MIB))
            assert (result.status, result.exit_code, result.signal) == (Status.MEMORY_LIMIT, None, None), words
        one = " ".join(verbs("eat 30 , pause"))
        result = box.run(sh(f"{one} & setsid {one} & (setsid {one} &) ; wait"), limits=Limits(memory_bytes=64 * MIB))
        assert result.status is Status.MEMORY_LIMIT
        shared = box.run(verbs("eat 40 , fork 8 , sleep 150"), limits=Limits(memory_bytes=128 * MIB))
        assert shared.ok and shared.usage.peak_memory_bytes < 128 * MIB

    with_box(work)


def test_cpu_time_of_the_tree_is_limited(with_box: Try, verbs: Callable[[str], list[str]], factor: float) -> None:
    def work(box: Sandbox) -> None:
        for words in ("spin 0", "spinners 3 , pause", "daemon 1 , spin 0", "fork 3 , spinners 1 , stop"):
            result = box.run(verbs(words), limits=Limits(cpu_seconds=0.2, wall_seconds=20))
            assert (result.status, result.exit_code) == (Status.CPU_LIMIT, None), words
            assert 0.15 < result.usage.cpu_seconds < 0.25 + 0.05 * factor, words
        assert box.run(verbs("sleep 100"), limits=Limits(cpu_seconds=0.05)).ok

    with_box(work)


def test_peaks_and_ends_come_back_as_they_are(with_box: Try, verbs: Callable[[str], list[str]]) -> None:
    def work(box: Sandbox) -> None:
        assert [box.run(verbs(f"exit {code}")).exit_code for code in (0, 1, 200)] == [0, 1, 200]
        ends = (signal.SIGKILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTERM)
        told = [box.run(verbs(f"eat 20 , signal {number}")) for number in ends]
        assert [(one.status, one.signal) for one in told] == [(Status.SIGNALED, number) for number in ends]
        assert 30 <= box.run(verbs("eat 30")).usage.peak_memory_bytes / MIB < 32
        result = box.run(verbs("flood 1"), limits=Limits(stdout_bytes=1000, on_overflow=sn.Overflow.KILL))
        assert result.status is Status.OUTPUT_LIMIT

    with_box(work)


@pytest.mark.needs("x86_64")
def test_a_call_that_the_filter_ends_is_named(with_box: Try, public: Guests) -> None:
    def work(box: Sandbox) -> None:
        result = box.run([str(public["attempts"]), "int80", "20"])
        assert result.status is Status.FORBIDDEN_SYSCALL, result

    with_box(work)
