"""Where the time of one launch goes: ``python -m sandbox_native.bench.steps [--runs N] [--parked]``: bench/README.md's table.

The kernel's own tracer (tracefs) notes every system call of host, slot, init and guest, which costs a fraction of what strace
does. Runs the smallest program, strict, in boxes that do not wait for it (or do: --parked), and looks at the quickest quarter of
the runs. Needs root and tracefs.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

from sandbox_native import Policy, Sandbox
from sandbox_native.backends.native import syscalls
from sandbox_native.bench import timeline
from sandbox_native.bench.boxes import Fresh, parked
from sandbox_native.bench.hosts import own_mounts
from sandbox_native.bench.measure import Entry
from sandbox_native.bench.tiny import write_tiny

_INSIDE: Final = "/mnt/bench"
_EVENTS: Final = ("raw_syscalls/sys_enter", "raw_syscalls/sys_exit", "sched/sched_process_fork", "sched/sched_process_exit")
_SETTINGS: Final = {"buffer_size_kb": 32 << 10, "trace_clock": "mono", "options/event-fork": 1}  # the buffer: of each core
_PAUSE_SECONDS: Final = 0.01
_QUICKEST: Final = 4  # one of so many runs is looked at: the others tell when the kernel had something else to do


@contextmanager
def _tracer() -> Iterator[Path]:
    """A tracer of this process and of what it forks: the directory of its files, in a mount namespace of our own."""
    own_mounts()
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"tracefs", folder.encode(), b"tracefs", 0, None) != 0:
            raise OSError(ctypes.get_errno(), f"tracefs cannot be mounted: {os.strerror(ctypes.get_errno())}")
        tracer = Path(folder, "instances", f"sandbox-native-{os.getpid()}")
        tracer.mkdir()
        try:
            for name, value in {**_SETTINGS, "set_event_pid": os.getpid()}.items():
                (tracer / name).write_text(str(value))
            for event in _EVENTS:
                (tracer / "events" / event / "enable").write_text("1")
            yield tracer
        finally:
            for event in _EVENTS:
                (tracer / "events" / event / "enable").write_text("0")
            tracer.rmdir()
            libc.umount2(folder.encode(), 2)


def _windows(entry: Entry, runs: int) -> list[tuple[float, float]]:
    """When each run began and ended, on the tracer's clock; the quickest of those that are what they should be."""
    found = []
    for _ in range(runs):
        time.sleep(_PAUSE_SECONDS)
        if entry.before is not None:
            entry.before()
        time.sleep(_PAUSE_SECONDS)
        begin = time.perf_counter()
        entry.run()
        end = time.perf_counter()
        if entry.counts is None or entry.counts():
            found.append((begin, end))
    return sorted(found, key=lambda window: window[1] - window[0])[: max(1, runs // _QUICKEST)]


@contextmanager
def _entry(waits: bool, folder: str) -> Iterator[Entry]:
    policy, command = Policy.strict(readable=[(folder, _INSIDE)]), [f"{_INSIDE}/tiny"]
    with Sandbox(policy, prepared=2 if waits else 0) as sandbox:
        if waits:
            yield parked(sandbox, command)
        else:
            with Fresh(sandbox) as fresh:
                yield fresh.entry(command)


Shares = dict[tuple[str, str], float]


def trace(runs: int, waits: bool) -> tuple[float, Shares, Shares]:
    """Seconds of a typical run, and for each (role, call) the median of its seconds and how often it is called."""
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        write_tiny(folder)
        with _tracer() as tracer:
            with _entry(waits, folder) as entry:
                windows = _windows(entry, runs)
            (tracer / "tracing_on").write_text("0")  # or reading what was traced is traced, without an end
            with (tracer / "trace").open(encoding="utf-8", errors="replace") as file:
                found = timeline.events(file)
    numbers = syscalls()
    names = {number: name for name, number in numbers.items()}
    each: list[Shares] = []
    counts: list[Shares] = []
    forked = timeline.parents(found)
    for begin, end in windows:
        some = timeline.between(found, begin, end)
        known = timeline.roles(some, forked, os.getpid(), numbers["execve"], begin, end)
        taken = timeline.spans(some, known, names, begin, end)
        each.append(timeline.shares(taken, begin, end))
        often: Shares = {}
        for span in taken:
            often[span.role, span.call or timeline.OWN] = often.get((span.role, span.call or timeline.OWN), 0) + 1
        counts.append(often)
    return median(end - begin for begin, end in windows), _medians(each), _medians(counts)


def _medians(each: Sequence[Shares]) -> Shares:
    return {key: median(one.get(key, 0.0) for one in each) for key in set().union(*each)}


def table(seconds: float, steps: Shares, counts: Shares, least: float) -> str:
    """Markdown: what takes at least that share of the run has its line, the rest of each role is one."""
    total = sum(steps.values())
    lines = ["| who | step | calls | us | share |", "|---|---|---|---|---|"]

    def line(role: str, step: str, often: str, taken: float) -> None:
        lines.append(f"| {role} | {step} | {often} | {taken * 1e6:.0f} | {taken / total:.0%} |")

    for role in (*timeline.ROLES, ""):
        mine = sorted(((taken, call) for (who, call), taken in steps.items() if who == role), reverse=True)
        for taken, call in mine:
            if taken / total >= least:
                often = counts.get((role, call), 0) if call not in (timeline.OWN, timeline.WAKING[1]) else 0
                line(role, call, f"{often:.0f}" if often else "", taken)
        rest = [taken for taken, _ in mine if taken / total < least]
        if rest:
            line(role, f"{len(rest)} other calls", "", sum(rest))
    return "\n".join([*lines, f"| | all | | {total * 1e6:.0f} | (median of these runs: {seconds * 1e6:.0f} us) |"])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox_native.bench.steps", description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--parked", action="store_true", help="in boxes that wait for the run")
    parser.add_argument("--least", type=float, default=0.015, metavar="SHARE", help="of the time, for a line of its own")
    options = parser.parse_args(arguments)
    try:
        print(table(*trace(options.runs, options.parked), options.least))
    except OSError as error:
        print(f"sandbox-native: the kernel's tracer: {error}", file=sys.stderr)
        return 125
    return 0


if __name__ == "__main__":
    sys.exit(main())
