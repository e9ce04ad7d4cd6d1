"""``python -m sandbox_native.bench [--json FILE] [--quick]``: measures here, prints a table, writes JSON if asked."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from sandbox_native.bench.contenders import contenders
from sandbox_native.bench.hosts import measure_ballast, measure_mounts
from sandbox_native.bench.launch import measure_docker, measure_launches
from sandbox_native.bench.measure import Row
from sandbox_native.bench.report import document, machine, table
from sandbox_native.bench.streams import measure_drain
from sandbox_native.bench.threads import measure_threads
from sandbox_native.bench.tiny import write_tiny
from sandbox_native.bench.trees import measure_trees
from sandbox_native.errors import SandboxError


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often everything is repeated."""

    rounds: int
    docker_rounds: int
    thread_seconds: float
    thread_repeats: int
    drain_bytes: int
    drain_repeats: int
    trees: int


FULL = Effort(
    rounds=600,
    docker_rounds=10,
    thread_seconds=1.0,
    thread_repeats=5,
    drain_bytes=1 << 30,
    drain_repeats=9,
    trees=10,
)
QUICK = Effort(
    rounds=60,
    docker_rounds=3,
    thread_seconds=0.2,
    thread_repeats=1,
    drain_bytes=256 << 20,
    drain_repeats=3,
    trees=1,
)


def measure(effort: Effort, tell: bool) -> tuple[list[Row], list[str]]:
    """Everything that this machine can do, and notes on what was left out."""
    rows: list[Row] = []
    notes: list[str] = []

    def progress(what: str) -> None:
        if tell:
            print(f"measuring {what} …", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        tiny = write_tiny(folder)
        with contenders(folder) as boxes:
            progress("launches")
            rows += measure_launches(boxes, tiny, rounds=effort.rounds)
            if not any(row.contender == "bwrap" for row in rows):
                notes.append("bwrap left out: not installed, or not allowed here")
            more, why = measure_docker(boxes, rounds=effort.docker_rounds)
            rows, notes = rows + more, notes + why
            progress("a host of 1 GiB")
            rows += measure_ballast(boxes, rounds=effort.rounds // 2)
            progress("300 more mounts")
            more, why = measure_mounts(rounds=effort.rounds // 2)
            rows, notes = rows + more, notes + why
            progress("threads")
            rows += measure_threads(boxes, seconds=effort.thread_seconds, repeats=effort.thread_repeats)
            progress("drain")
            rows += measure_drain(boxes, size=effort.drain_bytes, repeats=effort.drain_repeats)
            progress("deadlines")
            rows += measure_trees(boxes, repeats=effort.trees)
    return rows, notes


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when everything was measured (goals missed or not), 125 when we cannot run here."""
    where = machine()
    parser = argparse.ArgumentParser(prog="python -m sandbox_native.bench", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE too (-: to stdout, without the table)")
    quick = "rougher figures in about half a minute on 2 cores (without it: several minutes)"
    parser.add_argument("--quick", action="store_true", help=quick)
    options = parser.parse_args(arguments)
    try:
        rows, notes = measure(QUICK if options.quick else FULL, sys.stderr.isatty())
    except SandboxError as error:
        print(f"sandbox-native: {error}", file=sys.stderr)
        return 125
    text = json.dumps(document(rows, notes, where), indent=1)
    if options.json == "-":
        print(text)
        return 0
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    print(
        f"{where['kernel']} {where['machine']}, {where['cpus']} cpus, Python {where['python']}, load {where['load']:.2f} before\n"
    )
    print(table(rows, notes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
