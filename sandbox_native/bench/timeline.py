"""What the kernel's tracer wrote of one launch, lowered to steps: who did what, and for how long the run waited for it. Pure.

A launch is a chain (host, slot, init, guest, init, host), and nearly always one of them works while the others wait. So each
moment is given to one step: to what the foremost that does not wait is doing. What is left are wake-ups: nobody of ours runs,
somebody is about to.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

ROLES: Final = ("host", "slot", "init", "guest")  # the foremost last
WAKING: Final = ("", "waking up: nobody of ours runs")
_LINE: Final = re.compile(r"\s*.+-(\d+)\s+\[\d+\].*?\s(\d+\.\d+): (\w+): (.*)")
_ENTERED: Final = re.compile(r"NR (-?\d+)")
_FORKED: Final = re.compile(r"comm=.* pid=(\d+) child_comm=.* child_pid=(\d+)")
_WAITS: Final = {"host": {"epoll_wait"}, "slot": {"wait4"}, "init": {"futex", "ppoll"}, "guest": {"futex"}}
_BEFORE_SECONDS: Final = 0.2
OWN: Final = "own code and page faults"


@dataclass(frozen=True, slots=True)
class Event:
    seconds: float
    pid: int
    kind: str  # "enter", "exit", "forked", "ended"
    number: int = -1  # of the call, or the child's pid


@dataclass(frozen=True, slots=True)
class Span:
    begin: float
    end: float
    role: str
    call: str  # "": between two calls


def events(text: Iterable[str]) -> list[Event]:
    """From the file `trace` of tracefs, with raw_syscalls and sched_process_{fork,exit}; in the order of time."""
    found = []
    for line in text:
        match = _LINE.match(line)
        if match is None:
            continue
        pid, at, name, rest = int(match[1]), float(match[2]), match[3], match[4]
        if name in ("sys_enter", "sys_exit") and (entered := _ENTERED.match(rest)):
            found.append(Event(at, pid, name.removeprefix("sys_"), int(entered[1])))
        elif name == "sched_process_fork" and (forked := _FORKED.match(rest)):
            found.append(Event(at, int(forked[1]), "forked", int(forked[2])))
        elif name == "sched_process_exit":
            found.append(Event(at, pid, "ended"))
    return sorted(found, key=lambda one: one.seconds)


def parents(found: Iterable[Event]) -> dict[int, int]:
    return {one.number: one.pid for one in found if one.kind == "forked"}


def between(found: Sequence[Event], begin: float, end: float) -> Sequence[Event]:
    """The events of a run, and some before it: what each is in the middle of."""
    low = bisect_left(found, begin - _BEFORE_SECONDS, key=lambda one: one.seconds)
    return found[low : bisect_right(found, end, key=lambda one: one.seconds)]


def roles(found: Sequence[Event], forked: Mapping[int, int], host: int, execve: int, begin: float, end: float) -> dict[int, str]:
    """Who is who in a run between two moments: the guest is who executes a program then, init its parent, the slot that one's."""
    for one in found:
        if one.kind == "enter" and one.number == execve and begin <= one.seconds <= end and one.pid != host:
            init = forked[one.pid]
            return {host: "host", forked[init]: "slot", init: "init", one.pid: "guest"}
    raise ValueError("the trace has no guest between these moments: events were lost, or the run was not traced")


def spans(found: Sequence[Event], known: Mapping[int, str], names: Mapping[int, str], begin: float, end: float) -> list[Span]:
    """What each did between two moments, waits left out."""
    taken: list[Span] = []
    since: dict[int, tuple[float, int | None]] = {}  # from when on, and in which call; who is not in it waits
    for one in found:
        if one.kind == "forked":
            if one.number in known:
                since[one.number] = (one.seconds, None)
            continue
        if one.pid not in known:
            continue
        if one.pid in since:
            start, number = since[one.pid]
            call = "" if number is None else names.get(number, str(number))
            waits = start < begin and known[one.pid] != "host"  # for the run
            if not waits:
                _add(taken, Span(max(start, begin), min(one.seconds, end), known[one.pid], call))
        since[one.pid] = (one.seconds, one.number if one.kind == "enter" else None)
        if one.kind == "ended":
            del since[one.pid]
    return taken


def _add(taken: list[Span], span: Span) -> None:
    if span.end > span.begin and span.call not in _WAITS[span.role]:
        taken.append(span)


def shares(taken: Sequence[Span], begin: float, end: float) -> dict[tuple[str, str], float]:
    """Seconds for each (role, call), which add up to the whole."""
    reports = [span.end for span in taken if (span.role, span.call) == ("init", "sendmsg")]
    reported = max(reports, default=end)
    edges = sorted({begin, end, reported, *(span.begin for span in taken), *(span.end for span in taken)})
    found: dict[tuple[str, str], float] = {}
    for low, high in pairwise(edges):
        here = [span for span in taken if span.begin <= low and high <= span.end]
        if low >= reported:  # the slot makes its next box: nobody waits for that
            here = [span for span in here if span.role == "host"]
        foremost = max(here, key=lambda span: ROLES.index(span.role), default=None)
        step = WAKING if foremost is None else (foremost.role, foremost.call or OWN)
        found[step] = found.get(step, 0.0) + high - low
    return found
