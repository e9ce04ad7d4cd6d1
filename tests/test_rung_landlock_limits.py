"""Rung `landlock`: limits, held by sampling the tree."""

from __future__ import annotations

import signal
from collections.abc import Callable

import boxes
import pytest
import without_namespaces
from boxes import MIB, Guests
from running import sh
from without_namespaces import Try

import sandbox_native as sn
from sandbox_native import Limits, Sandbox, Status

pytestmark = [*without_namespaces.MARKS, pytest.mark.usefixtures("only_ours_end")]


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


def test_cpu_time_of_the_tree_is_limited(with_box: Try, verbs: Callable[[str], list[str]]) -> None:
    def work(box: Sandbox) -> None:
        for words in ("spin 0", "spinners 3 , pause", "daemon 1 , spin 0", "fork 3 , spinners 1 , stop"):
            spent = boxes.spent_at_the_limit(box, verbs(words), 0.3)
            assert 0.21 < min(spent) < 0.6, (words, spent)  # each process for itself: up to 1.2
        assert box.run(verbs("sleep 200"), limits=Limits(cpu_seconds=0.1)).ok

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
