"""What "parked" and "fresh" mean in the bench, seen by the Sandbox's own count."""

from __future__ import annotations

import time
from collections.abc import Iterator

import boxes as helpers
import pytest

from sandbox_native import Sandbox
from sandbox_native.bench.boxes import Fresh, boxed, parked

pytestmark = pytest.mark.needs("userns")
TRUE = ["/bin/true"]


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def test_a_parked_run_counts_when_its_box_waited() -> None:
    with Sandbox(prepared=3) as sandbox:
        entry = parked(sandbox, TRUE)
        time.sleep(0.3)  # of nobody else's doing: they are being made
        assert entry.before is not None and entry.counts is not None
        entry.before()
        entry.run()
        assert entry.counts()
        entry.before()
        with Fresh(sandbox) as fresh:  # takes one, and the next is made anew
            other = fresh.entry(TRUE)
            assert other.before is not None
        assert sandbox.stats().misses == 0 or not entry.counts()


def test_fresh_runs_find_no_box_however_long_they_were_waited_for(box: Sandbox) -> None:
    with Fresh(box) as fresh:
        entry = fresh.entry(TRUE)
        assert entry.before is not None and entry.counts is not None
        counted = 0
        for _ in range(10):
            entry.before()
            time.sleep(0.05)  # in which a box would be made
            before = box.stats()
            entry.run()
            after = box.stats()
            assert after.hits + after.misses == before.hits + before.misses + 1
            counted += entry.counts()
            assert entry.counts() == (after.misses == before.misses + 1)
    assert counted > 0  # not all: on a busy machine a box may be made while the host writes its request


def test_nothing_is_left_stopped_or_running(box: Sandbox) -> None:
    with Fresh(box) as fresh:
        entry = fresh.entry(TRUE)
        assert entry.before is not None
        entry.before()
    for _ in range(4):
        boxed(box, TRUE)
    helpers.until(lambda: box.stats().idle == box.stats().boxes == 2, 5, "both slots idle")


def test_a_run_that_fails_is_an_error_of_the_bench(box: Sandbox) -> None:
    with pytest.raises(RuntimeError, match="/bin/false ended as"):
        boxed(box, ["/bin/false"])
