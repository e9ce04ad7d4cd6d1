"""A Budget admits in the order of asking, never more than there is, and never kills."""

from __future__ import annotations

import math
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox_native import Limits, PolicyError
from sandbox_native.budget import Budget, Claim

MIB = 1 << 20


def small(memory: int = MIB, cpus: float | None = None) -> Limits:
    return Limits(memory_bytes=memory, cpus=cpus)


class Desk:
    """Asks, and keeps who was let in, in their order."""

    def __init__(self, budget: Budget) -> None:
        self.budget, self.order = budget, list[str]()

    def ask(self, name: str, limits: Limits) -> Claim:
        return self.budget.ask(limits, lambda: self.order.append(name))


def test_what_fits_is_let_in_at_once_and_what_does_not_waits_for_room() -> None:
    desk = Desk(Budget(memory_bytes=3 * MIB))
    first = desk.ask("first", small(2 * MIB))
    desk.ask("second", small(2 * MIB))
    assert desk.order == ["first"]
    first.release()
    assert desk.order == ["first", "second"]


def test_a_large_run_is_not_passed_by_small_ones() -> None:
    desk = Desk(Budget(memory_bytes=4 * MIB))
    one = desk.ask("one", small(2 * MIB))
    desk.ask("large", small(4 * MIB))
    desk.ask("small", small(MIB))
    assert desk.order == ["one"], "the small one would fit"
    one.release()
    assert desk.order == ["one", "large"]


def test_who_waits_no_more_lets_the_next_ones_in() -> None:
    desk = Desk(Budget(cpu=2))
    desk.ask("one", small(cpus=1))
    large = desk.ask("large", small(cpus=2))
    desk.ask("small", small(cpus=1))
    large.release()
    assert desk.order == ["one", "small"]


def test_a_release_counts_once() -> None:
    desk = Desk(Budget(cpu=1))
    first = desk.ask("first", small())
    first.release()
    first.release()
    desk.ask("second", small())
    desk.ask("third", small())
    assert desk.order == ["first", "second"]


def test_shares_of_a_core_add_up_to_a_core() -> None:
    desk = Desk(Budget(cpu=1))
    for name in range(10):
        desk.ask(str(name), small(cpus=0.1))
    assert len(desk.order) == 10


@pytest.mark.parametrize(("budget", "field"), [(Budget(cpu=0.5), "cpu"), (Budget(memory_bytes=MIB - 1), "memory_bytes")])
def test_a_run_that_can_never_fit_is_refused(budget: Budget, field: str) -> None:
    with pytest.raises(PolicyError, match=field):
        budget.ask(small(), lambda: None)


@pytest.mark.parametrize("value", [0, -1, math.inf, math.nan, True, "1"])
@pytest.mark.parametrize("field", ["cpu", "memory_bytes"])
def test_a_budget_of_nonsense_is_refused(field: str, value: Any) -> None:
    with pytest.raises(PolicyError, match=field):
        Budget(**{field: value})


def test_threads_wait_in_hold_and_no_more_than_fit_are_inside() -> None:
    budget, inside, most = Budget(memory_bytes=2 * MIB), 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with budget.hold(small()):
                with lock:
                    inside += 1
                    most = max(most, inside)
                with lock:
                    inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= most <= 2


@given(st.lists(st.tuples(st.integers(1, 8), st.booleans()), max_size=40))
def test_never_more_than_there_is_and_always_in_order(steps: list[tuple[int, bool]]) -> None:
    budget = Budget(memory_bytes=8 * MIB)
    held: list[Claim] = []
    asked: list[Claim] = []
    for size, give_back in steps:
        if give_back and held:
            held.pop(0).release()
        asked.append(budget.ask(small(size * MIB), lambda: None))
        held = [claim for claim in asked if claim.held]
        assert sum(claim.memory_bytes for claim in held) <= 8 * MIB
    for claim in asked:
        claim.release()
    assert not any(claim.held for claim in asked)
    last = budget.ask(small(8 * MIB), lambda: None)
    assert last.held
