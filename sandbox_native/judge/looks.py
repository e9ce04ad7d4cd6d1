"""What the processes of a run are doing right now, seen from the host: who waits for what, and for how long at most. Linux; reads
/proc and touches nothing.

Used by interactive.py to tell two programs that wait for one another from two that work, or sleep. A look takes some 100 us for
each thread. The kernel says of a thread that does not run which system call it waits in, with the arguments
(/proc/PID/task/TID/syscall); who may not read that (a host with restrictions on ptrace) gets looks that know nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final

from sandbox_native.backends.native import syscalls

_GONE: Final = (FileNotFoundError, ProcessLookupError)
_PIPE: Final = re.compile(r"pipe:\[(\d+)\]")
_SIGALRM_BIT: Final = 1 << 13
_EXITING: Final = 0x4  # PF_EXITING, set before anything is given back
Arguments = list[int]


class Wait(IntEnum):
    """How long a thread waits at most."""

    UNKNOWN = 0
    """It works, or sleeps for a time, or nobody can tell."""
    FOR_OTHERS = 1
    """Without an end, for another thread or process of its own, or for a signal."""
    POLLING = 2
    """Without an end, for any of several descriptors."""
    READING = 3
    """Without an end, for data in a pipe that matters."""
    WRITING = 4
    """Without an end, for room in one."""


@dataclass(frozen=True, slots=True)
class Look:
    """One run at one moment. `waits`: of all threads, those that wait for a pipe last; empty when nobody is there.
    `switches` is their sum; `pipes`: inodes of all pipes that somebody has open."""

    waits: tuple[Wait, ...] = ()
    switches: int = 0
    pipes: frozenset[int] = frozenset()

    @property
    def waits_for_pipe(self) -> bool:
        """Whether a thread waits for a pipe, whatever the others do."""
        return bool(self.waits) and self.waits[-1] > Wait.FOR_OTHERS

    @property
    def stuck(self) -> bool:
        """Whether nothing will happen until somebody else uses a pipe."""
        return self.waits_for_pipe and self.waits[0] is not Wait.UNKNOWN


def look(pids: Iterable[int], of: frozenset[int]) -> Look:
    """`of`: inodes of the pipes that matter. A wait at another pipe is one for a process of the run's own."""
    waits: list[Wait] = []
    switches, pipes = 0, set[int]()
    for pid in pids:
        try:
            links = _links(pid)
            own = {number: int(found[1]) in of for number, link in links.items() if (found := _PIPE.fullmatch(link))}
            held = {int(found[1]) for link in links.values() if (found := _PIPE.fullmatch(link))}
            alarmed = _alarmed(pid)
            for thread in os.listdir(f"/proc/{pid}/task"):
                place = f"/proc/{pid}/task/{thread}"
                waits.append(Wait.UNKNOWN if alarmed else _wait(_read(f"{place}/syscall"), own))
                switches += _switches(_read(f"{place}/status"))
        except _GONE:
            continue
        pipes |= held
    return Look(tuple(sorted(waits)), switches, frozenset(pipes))


def is_running(pid: int) -> bool:
    """Whether the process has not begun to end: its descriptors are closed before its parent hears of the end."""
    try:
        fields = _stat(pid)
        return fields[0] not in (b"Z", b"X") and not int(fields[6]) & _EXITING
    except _GONE:
        return False


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except PermissionError:
        return ""


def _links(pid: int) -> dict[int, str]:
    try:
        return {int(number): os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
    except PermissionError:
        return {}


def _stat(pid: int) -> list[bytes]:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()


def _alarmed(pid: int) -> bool:
    """Whether a timer's signal may wake it: it has a handler for SIGALRM."""
    status = _read(f"/proc/{pid}/status")
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)", status, re.MULTILINE)
    return found is None or bool(int(found[1], 16) & _SIGALRM_BIT)


def _switches(status: str) -> int:
    return sum(map(int, re.findall(r"^(?:non)?voluntary_ctxt_switches:\s*(\d+)", status, re.MULTILINE)))


def _wait(line: str, pipes: Mapping[int, bool]) -> Wait:
    """Of a line of /proc/…/syscall: "running", or number, six arguments and two addresses."""
    words = line.split()
    if len(words) < 7 or not words[0].isdigit():
        return Wait.UNKNOWN
    rule = _rules().get(int(words[0]))
    return Wait.UNKNOWN if rule is None else rule([int(word, 16) for word in words[1:7]], pipes)


Rule = Callable[[Arguments, Mapping[int, bool]], Wait]


def _on_pipe(wait: Wait) -> Rule:
    def rule(arguments: Arguments, pipes: Mapping[int, bool]) -> Wait:
        matters = pipes.get(arguments[0] & 0xFFFFFFFF)
        return Wait.UNKNOWN if matters is None else wait if matters else Wait.FOR_OTHERS

    return rule


def _without_end(wait: Wait, at: int, *, number: bool = False) -> Rule:
    """For calls whose argument `at` is a pointer to a time (none: no end) or a number of ms (below 0: no end)."""

    def rule(arguments: Arguments, pipes: Mapping[int, bool]) -> Wait:
        endless = arguments[at] & 0x80000000 if number else not arguments[at]
        return wait if endless else Wait.UNKNOWN

    return rule


def _always(arguments: Arguments, pipes: Mapping[int, bool]) -> Wait:
    return Wait.FOR_OTHERS


@cache
def _rules() -> Mapping[int, Rule]:
    reading, writing = _on_pipe(Wait.READING), _on_pipe(Wait.WRITING)
    by_name: dict[str, Rule] = {
        **dict.fromkeys(("read", "readv"), reading),
        **dict.fromkeys(("write", "writev"), writing),
        "poll": _without_end(Wait.POLLING, 2, number=True),
        "ppoll": _without_end(Wait.POLLING, 2),
        "select": _without_end(Wait.POLLING, 4),
        "pselect6": _without_end(Wait.POLLING, 4),
        "epoll_wait": _without_end(Wait.POLLING, 3, number=True),
        "epoll_pwait": _without_end(Wait.POLLING, 3, number=True),
        "epoll_pwait2": _without_end(Wait.POLLING, 3),
        "futex": _without_end(Wait.FOR_OTHERS, 3),
        "rt_sigtimedwait": _without_end(Wait.FOR_OTHERS, 2),
        **dict.fromkeys(("wait4", "waitid", "pause", "rt_sigsuspend"), _always),
    }
    numbers = syscalls()
    return {numbers[name]: rule for name, rule in by_name.items() if name in numbers}
