"""A case's guest works while the output of the one before it is compared, and never beside another guest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from graded import bash, problem, verdict
from judged import compiled
from lost import Thief
from running import nap, sleepers

from sandbox_native import Sandbox
from sandbox_native.backends.box import LinuxBox
from sandbox_native.judge.ahead import Begun, judge_ahead
from sandbox_native.judge.attempt import Terms
from sandbox_native.judge.casework import Casework
from sandbox_native.judge.opinions import Compared, Opinion, Output
from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Case, Checker, OnReject
from sandbox_native.judge.verdicts import Verdict
from sandbox_native.process import Process

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
ECHO = "cat"
THREE = problem({str(number): (b"%d\n" % number, b"%d\n" % number) for number in (1, 2, 3)})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def box(store: Store) -> Iterator[Sandbox]:
    program = compiled(store, {"main.sh": ECHO}).program
    assert program is not None
    with Sandbox(program.policy()) as box:
        yield box


class Told(Casework):
    """Says when a guest is started."""

    events: list[str]

    def start(self, case: Case) -> Process:
        self.events.append(f"start {case.name}")
        return super().start(case)


class Check(Compared):
    """Says when an output is compared."""

    __slots__ = ("events",)
    events: list[str]

    def __call__(self, case: Case, output: Output, /) -> Opinion:
        self.events.append(f"compare {case.name}")
        return super().__call__(case, output)


def order(store: Store, box: Sandbox, text: str, *, near: float = 0.1) -> list[str]:
    """Of what is done for three cases."""
    program = compiled(store, {"main.sh": text}).program
    assert program is not None
    check, events = Check(Checker()), list[str]()
    object.__setattr__(check, "events", events)
    casework = Told(box, Terms.of(program, THREE.limits, 5.0, near), check, rerun_near=near)
    casework.events = events

    def take(begun: Begun) -> bool:
        events.append(f"take {begun.case.name}")
        return begun.rated().verdict is Verdict.AC

    judge_ahead(casework, iter(THREE.cases()), take, lambda case: True)
    return events


def test_the_next_guest_starts_before_the_output_is_compared(store: Store, box: Sandbox) -> None:
    first, second = ["start 1", "start 2", "take 1", "compare 1"], ["start 3", "take 2", "compare 2"]
    assert order(store, box, ECHO) == [*first, *second, "take 3", "compare 3"]


@pytest.mark.parametrize(
    ("text", "near"),
    [("cat; head -c 70000 /dev/zero", 0.1), ("cat; exit 1", 0.1), (ECHO, 1.0)],
    ids=["much to compare", "did not end well", "to be measured again"],
)
def test_the_next_guest_waits_for_what_is_more_than_a_moments_work(text: str, near: float, store: Store, box: Sandbox) -> None:
    events = [event for event in order(store, box, text, near=near) if "compare" not in event]
    assert events == ["start 1", "take 1", "start 2", "take 2", "start 3", "take 3"]


def test_a_long_answer_is_more_than_a_moments_work(store: Store, box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("1")
    (tmp_path / "long").write_text("1" * 70_000)
    program = compiled(store, {"main.sh": ECHO}).program
    assert program is not None
    casework = Casework(box, Terms.of(program, THREE.limits, 5.0, 0.1), Compared(Checker()))
    first = next(iter(THREE.cases()))
    result = casework.result(first, casework.start(first))
    settled = [casework.is_settled(replace(first, answer=tmp_path / name), result) for name in ("short", "long")]
    assert settled == [True, False]


def test_a_guest_that_is_not_wanted_any_more_is_ended(store: Store) -> None:
    done = verdict(store, bash(f"read x; [ $x = 1 ] || sleep {nap(71)}; echo wrong"), THREE)
    assert [(case.case, case.verdict) for case in done.cases] == [("1", Verdict.WA)]
    assert done.skipped == ("2", "3") and not sleepers(71)


def test_a_group_that_goes_on_has_all_its_results(store: Store) -> None:
    of = replace(THREE, data=replace(THREE.data, on_reject=OnReject.CONTINUE))
    done = verdict(store, bash("read x; [ $x = 2 ] || echo $x"), of)
    assert [case.verdict for case in done.cases] == [Verdict.AC, Verdict.WA, Verdict.AC]


def test_a_box_that_is_lost_before_its_guest_began_costs_no_case(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(store, bash(ECHO), THREE).verdict is Verdict.AC
    thief = Thief()
    monkeypatch.setattr(LinuxBox, "start", lambda box, request, body: thief.start(box, request, body))
    thief.left = 2
    done = verdict(store, bash(ECHO), THREE)
    assert thief.left == 0 and [case.verdict for case in done.cases] == [Verdict.AC] * 3


def test_what_keeps_a_case_from_its_start_is_told_in_its_turn(store: Store, tmp_path: Path) -> None:
    missing: Any = tmp_path / "gone"
    first, _, third = THREE.cases()
    of = replace(THREE, data=replace(THREE.data, items=(first, replace(third, input=missing)), on_reject=OnReject.CONTINUE))
    done = verdict(store, bash(ECHO), of)
    assert [case.verdict for case in done.cases] == [Verdict.AC, Verdict.JE] and "gone" in done.cases[1].message
