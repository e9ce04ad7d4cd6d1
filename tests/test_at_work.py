"""Runs that are at work in the same directory at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
from hosttrees import make
from running import sh

from sandbox_native import Policy, Sandbox
from sandbox_native.at_work import EVERYWHERE, AtWork, Stay


@pytest.fixture(autouse=True)
def nobody_is_left() -> Iterator[None]:
    yield
    assert not list(EVERYWHERE)


def entered(work: AtWork, inode: int, absent: str) -> Stay:
    stay = Stay((1, inode), frozenset(absent))
    work.enter(stay)
    return stay


def test_what_was_absent_for_one_that_is_still_there_is_doubtful() -> None:
    work = AtWork()
    first, elsewhere = entered(work, 1, "ab"), entered(work, 2, "x")
    second = entered(work, 1, "b")
    work.leave(first)
    third = entered(work, 1, "")
    assert (second.doubtful, third.doubtful, elsewhere.doubtful) == (frozenset("ab"), frozenset("ab"), frozenset("x"))
    for stay in (second, third, third, elsewhere):
        work.leave(stay)
    assert entered(work, 1, "c").doubtful == frozenset("c")


def test_a_forked_child_has_nobody_at_work() -> None:
    stay = entered(EVERYWHERE, 1, "a")

    def work() -> None:
        assert not list(EVERYWHERE)
        EVERYWHERE.leave(stay)

    boxes.in_a_host(work)
    assert list(EVERYWHERE) == [stay]
    EVERYWHERE.leave(stay)


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_two_guests_in_turn_leave_no_denied_name(tmp_path: Path) -> None:
    """The first makes the file, so that it is there when the second begins; and takes it away, so that the second can make it."""
    (tmp_path / "w").mkdir()
    make(tmp_path, "w/.npmrc")
    first = "echo 1 > .bashrc; while [ ! -e began ]; do sleep 0.01; done; rm .bashrc"
    second = "touch began; while [ ! -e ended ]; do sleep 0.01; done; echo evil > .bashrc"
    with Sandbox(Policy.strict()) as sandbox, sandbox.spawn(sh(first), workspace=tmp_path / "w") as one:
        boxes.until((tmp_path / "w/.bashrc").exists, 20, "the first guest")
        with sandbox.spawn(sh(second), workspace=tmp_path / "w") as other:
            assert one.wait().ok
            (tmp_path / "w/ended").touch()
            assert [denial.name for denial in other.wait().denials] == ["/workspace/.bashrc"]
    assert sorted(os.listdir(tmp_path / "w")) == [".npmrc", "began", "ended"]
