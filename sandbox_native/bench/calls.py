"""The system calls of one launch, by who makes them: ``python -m sandbox_native.bench.calls [--record FILE]``.

A count that does not depend on how busy the machine is, so that a test can keep watch over it (tests/test_launch_cost.py). strace
runs a host that makes some runs of the smallest program in boxes that wait for them. The calls between two marks are the host's
for one run; a process that is cloned with a pid namespace is an init, who clones it is its slot, who executes the program is its
guest. Needs root: init lets nobody else look.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Final

from sandbox_native import Policy, Sandbox
from sandbox_native.bench.boxes import boxed
from sandbox_native.bench.tiny import write_tiny

ROLES: Final = ("host", "slot", "init", "guest")
RUNS: Final = 12
_SKIPPED: Final = 4  # the first runs: caches, slots that are new
_PAUSE_SECONDS: Final = 0.2  # traced, a box takes some 50 ms to make
_INSIDE: Final = "/mnt/bench"
_MARK, _END = "/sandbox-native-mark", "/sandbox-native-end"
_CALL: Final = re.compile(r"(\w+)\(")
_CLONED: Final = re.compile(r"clone3?\(.*CLONE_NEWPID.* = (\d+)$")

Counts = dict[str, dict[str, int]]


def count_calls() -> tuple[str, Counts]:
    """Of one run in a box that waits for it: role -> call -> how often, the median over some runs. With the kind of control
    group, on which the counts depend."""
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        command = ["strace", "-ff", "-qq", "-s", "256", "-o", os.path.join(folder, "trace")]
        command += [sys.executable, "-m", "sandbox_native.bench.calls", "--child"]
        kind = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        traces = {int(path.suffix[1:]): path.read_text(errors="replace").splitlines() for path in Path(folder).glob("trace.*")}
    return kind, by_role(traces)


def by_role(traces: Mapping[int, Sequence[str]]) -> Counts:
    """What strace wrote, by pid, lowered to counts. Pure."""
    runs: dict[str, list[Counter[str]]] = {role: [] for role in ROLES}
    inits: set[int] = set()
    for _, lines in sorted(traces.items()):
        cloned = [match for match in map(_CLONED.match, lines) if match]
        inits.update(int(match[1]) for match in cloned)
        if cloned:
            runs["slot"] += _between(lines, _CLONED, _CLONED)
    for pid, lines in sorted(traces.items()):
        if pid in inits and lines and lines[-1].startswith("exit_group(0)"):
            runs["init"].append(_counted(lines))
        elif any(line.startswith(f'execve("{_INSIDE}/') for line in lines):
            runs["guest"].append(_counted(lines[:-1]))  # its own exit_group is the program's
        elif any(_MARK in line for line in lines):
            runs["host"] += _between(lines, re.compile(f".*{_MARK}"), re.compile(f".*{_END}"))
    empty = [role for role in ROLES if not runs[role]]
    if empty:
        raise RuntimeError(f"strace saw no {' and no '.join(empty)} in {len(traces)} processes")
    return {role: _typical(runs[role]) for role in ROLES}


def _counted(lines: Iterable[str]) -> Counter[str]:
    return Counter(match[1] for match in map(_CALL.match, lines) if match)


def _between(lines: Sequence[str], begin: re.Pattern[str], end: re.Pattern[str]) -> list[Counter[str]]:
    """The calls after each line that begins a run, until the one that ends it; with that one where both are the same."""
    found: list[Counter[str]] = []
    start = -1
    for at, line in enumerate(lines):
        if start >= 0 and end.match(line):
            found.append(_counted(lines[start + 1 : at + (begin is end)]))
            start = -1
        if begin.match(line):
            start = at
    return found


def _typical(runs: Sequence[Counter[str]]) -> dict[str, int]:
    """The median of each call: one that comes in some runs only (a wait that was interrupted) is not among them."""
    settled = runs[_SKIPPED:] or runs
    names = sorted(set().union(*settled))
    return {name: count for name in names if (count := median_low([run[name] for run in settled]))}


def totals(counts: Counts) -> dict[str, int]:
    return {role: sum(calls.values()) for role, calls in counts.items()}


def difference(now: Counts, then: Counts) -> str:
    """What differs, a line for each call."""
    lines = []
    for role in ROLES:
        names = sorted(now[role].keys() | then[role].keys())
        changed = [name for name in names if now[role].get(name, 0) != then[role].get(name, 0)]
        lines.append(f"{role}: {sum(now[role].values())} calls, recorded {sum(then[role].values())}")
        lines += [f"    {name}: {now[role].get(name, 0)}, recorded {then[role].get(name, 0)}" for name in changed]
    return "\n".join(lines)


def _runs() -> str:
    """The traced host; the kind of control group that it found."""
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        write_tiny(folder)
        with Sandbox(Policy.strict(readable=[(folder, _INSIDE)]), prepared=2) as sandbox:
            for number in range(RUNS + _SKIPPED):
                time.sleep(_PAUSE_SECONDS)
                _mark(f"{_MARK}-{number}")
                boxed(sandbox, [f"{_INSIDE}/tiny"])
                _mark(f"{_END}-{number}")
            stats, receipt = sandbox.stats(), sandbox.run([f"{_INSIDE}/tiny"]).enforcement
    if stats.hits < RUNS:
        raise RuntimeError(f"only {stats.hits} of {RUNS + _SKIPPED} runs found their box waiting: the machine is too busy")
    (group,) = [layer for layer in receipt.layers if layer.name == "control_group"]
    return " ".join(group.detail.split()[:2]) if group.held else "no cgroup"


def _mark(path: str) -> None:
    """A call that strace shows and that nobody else makes."""
    os.access(path, os.F_OK)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox_native.bench.calls", description=__doc__)
    parser.add_argument("--record", metavar="FILE", help="write the counts into FILE (bench/record.json), on purpose")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        print(_runs())
        return 0
    kind, counts = count_calls()
    print(kind)
    for role, calls in counts.items():
        print(f"{role}: {sum(calls.values())}")
        print("    " + ", ".join(f"{name} {count}" for name, count in sorted(calls.items(), key=lambda item: -item[1])))
    if options.record:
        _record(Path(options.record), kind, counts)
    return 0


def _record(path: Path, kind: str, counts: Counts) -> None:
    """The other kinds' counts stay."""
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, kind: counts}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
