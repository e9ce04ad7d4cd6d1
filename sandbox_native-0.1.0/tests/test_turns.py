"""Turns: served in the order of asking, also when somebody gives up."""

from __future__ import annotations

import signal
import threading

import pytest

from sandbox_native.turns import Turns


def asking(turns: Turns, threads: int) -> None:
    while len(turns._queue) < threads:
        pass


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
    assert not turns._queue
    release.set()
    holder.join()
    with turns:
        pass
