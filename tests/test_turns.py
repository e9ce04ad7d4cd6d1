"""Turns: served in the order of asking, also when somebody gives up."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import interrupting
import pytest

from sandbox_native import turns as module
from sandbox_native.turns import Turns


def asking(turns: Turns, threads: int) -> None:
    while len(turns._asking) < threads:
        pass


@contextmanager
def held_until(over: Callable[[Turns], bool], turns: Turns) -> Iterator[None]:
    """By another thread, which has gone after this."""
    held = threading.Event()

    def hold() -> None:
        with turns:
            held.set()
            while not over(turns):
                pass

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        yield
    finally:
        thread.join()


def test_turns_are_served_in_the_order_of_asking() -> None:
    turns, order = Turns(), list[int]()

    def body(number: int) -> None:
        with turns:
            order.append(number)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(5)]
    with turns:
        for asked, thread in enumerate(threads, 1):
            thread.start()
            asking(turns, asked)
    for thread in threads:
        thread.join()
    assert order == [0, 1, 2, 3, 4]


def test_who_asks_again_comes_after_who_waits() -> None:
    turns, order = Turns(), list[str]()
    thread = threading.Thread(target=lambda: [turns.__enter__(), order.append("other"), turns.__exit__(None, None, None)])
    with turns:
        thread.start()
        asking(turns, 1)
    with turns:
        order.append("again")
    thread.join()
    assert order == ["other", "again"]


def test_a_holder_does_not_wait_for_itself() -> None:
    turns = Turns()
    with turns:
        assert turns.mine
        with pytest.raises(RuntimeError, match="in the middle"):
            turns.__enter__()
    assert not turns.mine
    with turns:
        pass


def test_giving_up_keeps_nobody_waiting() -> None:
    turns, held, release = Turns(), threading.Event(), threading.Event()

    def hold() -> None:
        with turns:
            held.set()
            asking(turns, 1)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    with pytest.raises(KeyboardInterrupt):
        turns.__enter__()
    assert not turns._asking
    release.set()
    holder.join()
    with turns:
        pass


def test_who_waits_for_its_turn_does_not_wait_behind_itself() -> None:
    turns, told = Turns(), list[str]()

    def again(*_: object) -> None:
        assert turns.mine
        try:
            turns.take()
        except RuntimeError as error:
            told.append(str(error))

    def interrupted(turns: Turns) -> bool:
        if turns._asking and not sent:
            sent.append(signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1))
        return bool(told)

    sent: list[None] = []
    before = signal.signal(signal.SIGUSR1, again)
    try:
        with held_until(interrupted, turns), turns:
            pass
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert told == ["this thread is in the middle of another call on the same Process"] and is_free(turns)


# ---- an exception of a signal's handler


def is_free(turns: Turns) -> bool:
    """To another thread, whether it asks now or did before."""

    def taken() -> bool:
        got: bool = turns._lock.acquire(False)
        if got:
            turns._lock.release()
        return got

    with ThreadPoolExecutor(1) as other:
        free = other.submit(taken).result()
    return free and not turns._asking and (turns._last is None or not turns._last.locked())


def test_it_leaves_no_turn_taken_wherever_it_comes() -> None:
    turns = Turns()

    def use() -> None:
        nonlocal turns
        turns = Turns()
        with turns:
            assert turns.mine

    seen = []
    for where in interrupting.places(use, module, sys.modules[__name__]):
        assert is_free(turns), where
        seen.append(where)
    assert len(seen) > 5 and is_free(turns)


def test_nor_of_one_who_waited_and_nobody_waits_for_ever_behind_it() -> None:
    turns, given_up = Turns(), threading.Event()

    def use() -> None:
        try:
            with turns:
                assert turns.mine
        finally:
            given_up.set()

    def one() -> None:
        nonlocal turns
        turns = Turns()
        given_up.clear()
        with held_until(lambda turns: bool(turns._asking) or given_up.is_set(), turns):
            use()

    seen = []
    for where in interrupting.places(one, module):
        assert is_free(turns), where
        seen.append(where)
    assert len(seen) > 5 and is_free(turns)


def test_of_several_that_wait_the_one_behind_goes_forward() -> None:
    turns, order = Turns(), list[str]()

    def last() -> None:
        with turns:
            order.append("last")

    def over(turns: Turns) -> bool:
        if len(turns._asking) == 1 and not behind.is_alive():
            behind.start()
        if len(turns._asking) == 2:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            while threading.main_thread().ident in turns._asking:
                pass
            order.append("holder")
            return True
        return False

    behind = threading.Thread(target=last)
    with held_until(over, turns), pytest.raises(KeyboardInterrupt):
        turns.take()
    behind.join()
    assert order == ["holder", "last"] and is_free(turns)
