"""Usage.peak_memory_bytes is the guest's own resident memory: not the host's, not page cache, not an earlier run's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
from boxes import MIB, Guests, verbs

from sandbox_native import Limits, Result, Sandbox

pytestmark = [pytest.mark.needs("userns"), pytest.mark.needs("cgroup")]
ONE = "high-water mark of the largest process"
TREE = "sampled sum of anonymous and shared memory"


@pytest.fixture
def box(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(boxes.strict(guest)) as sandbox:
        yield sandbox


def peak(result: Result) -> float:
    """In MiB."""
    assert result.ok, (result.status, result.hint, result.stderr)
    return result.usage.peak_memory_bytes / MIB


@pytest.mark.kernel
def test_a_tiny_program_shows_what_it_uses_itself(box: Sandbox) -> None:
    result = box.run(verbs("exit 0"))
    assert peak(result) < 2
    assert result.usage.peak_memory_source == ONE and result.usage.peak_processes == 1


@pytest.mark.kernel
@pytest.mark.parametrize("mb", [5, 50, 200])
def test_one_process_is_measured_to_the_page(mb: int, box: Sandbox) -> None:
    assert mb <= peak(box.run(verbs(f"eat {mb}"))) < mb + 2


def test_what_was_freed_before_the_end_counts(box: Sandbox) -> None:
    """The program that ate is gone when the run ends; its high-water mark is kept."""
    assert 50 <= peak(box.run(verbs("eat 50 , exec /bin/true"))) < 52


def test_several_processes_are_summed(box: Sandbox) -> None:
    result = boxes.eaten_together(box, "eat 40", "eat 30", "eat 20")
    assert 90 <= peak(result) < 96
    assert result.usage.peak_memory_source == TREE and result.usage.peak_processes >= 4


def test_memory_that_a_fork_shares_is_counted_once(box: Sandbox) -> None:
    assert 40 <= peak(boxes.eaten_together(box, "eat 40 , fork 6")) < 44


def test_one_large_process_after_small_ones_is_the_peak(box: Sandbox) -> None:
    """Ended before the sampler looked: the larger of the two figures counts."""
    result = box.run(["/bin/sh", "-c", f"{boxes.SHOWN}/verbs eat 60; {boxes.SHOWN}/verbs fork 3 , sleep 30"])
    assert 60 <= peak(result) < 64


def test_shared_memory_counts(box: Sandbox) -> None:
    assert 30 <= peak(boxes.eaten_together(box, "shm 30 , fork 2")) < 34


def test_address_space_does_not_count(box: Sandbox) -> None:
    assert peak(box.run(verbs("reserve 4000 , fork 1 , sleep 20"))) < 3


def test_it_does_not_grow_with_an_earlier_run(box: Sandbox) -> None:
    for _ in range(3):
        assert peak(box.run(verbs("eat 100 , fork 2"))) >= 100
    after = [box.run(verbs("fork 1 , sleep 20")) for _ in range(4)]
    assert max(map(peak, after)) < 3


def test_it_does_not_grow_with_the_host(guest: Guests) -> None:
    def large_host() -> None:
        ballast = bytearray(400 * MIB)
        ballast[::4096] = b"x" * len(ballast[::4096])
        with Sandbox(boxes.strict(guest)) as box:
            assert peak(box.run(verbs("exit 0"))) < 2
            assert peak(box.run(["/bin/true"])) < 16

    boxes.in_a_host(large_host)


def test_files_that_are_read_or_written_are_not_memory(box: Sandbox, tmp_path: Path) -> None:
    """Nor do they end a run at a limit that is smaller than they are."""
    (tmp_path / "in").write_bytes(bytes(48 * MIB))
    limits = Limits(memory_bytes=24 * MIB)
    command = "cat in > out && dd if=out of=/dev/null bs=1M 2>/dev/null"
    result = box.run(["/bin/sh", "-c", command], limits=limits, workspace=tmp_path)
    assert peak(result) < 8
    assert (tmp_path / "out").stat().st_size == 48 * MIB


def test_the_upper_figure_is_the_groups_own_peak_with_page_cache(box: Sandbox, tmp_path: Path) -> None:
    result = box.run(verbs("file /workspace/out 40"), workspace=tmp_path)
    upper = result.usage.peak_memory_upper_bytes
    if upper is None:  # cgroup v2 before Linux 5.19 does not tell, and the receipt is the place to say so
        return
    assert peak(result) < 8 and upper >= 40 * MIB


def test_the_upper_figure_is_at_least_the_peak(box: Sandbox) -> None:
    for words in ("exit 0", "eat 60", "eat 30 , fork 3"):
        usage = box.run(verbs(words)).usage
        assert usage.peak_memory_upper_bytes is None or usage.peak_memory_upper_bytes >= usage.peak_memory_bytes - 2 * MIB
