"""One run after another: three programs, back to back and with a pause, and docker where a daemon answers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sandbox_native.bench.contenders import FRESH, PARKED, Contenders, bare
from sandbox_native.bench.measure import BARE, Entry, Row, rows, take_turns
from sandbox_native.bench.others import docker

PAUSE_SECONDS = 0.030  # agents launch sporadically; a tight loop hides grace periods and cold caches
BURST = 10
PYTHON = ("/usr/bin/python3", "-I", "-S", "-c", "pass")


def programs(tiny: str) -> dict[str, Sequence[str]]:
    """What is launched, by the name that the table shows."""
    found: dict[str, Sequence[str]] = {"static": (tiny,), "/bin/true": ("/bin/true",)}
    if os.path.exists(PYTHON[0]):
        found["python"] = PYTHON
    return found


def measure_launches(boxes: Contenders, tiny: str, *, rounds: int) -> list[Row]:
    """Every program, back to back and spaced."""
    taken: list[Row] = []
    for name, argv in programs(tiny).items():
        entries = boxes.entries(argv, others=True)
        some = max(rounds // 3, 5) if name == "python" else rounds
        taken += rows(f"launch {name}, back to back", take_turns(entries, rounds=some, burst=BURST))
        spaced = take_turns(entries, rounds=max(rounds // 3, 5), pause=PAUSE_SECONDS)
        taken += rows(f"launch {name}, 30 ms apart", spaced)
    return taken


def left_out(rows: Sequence[Row]) -> list[str]:
    """What of the launches did not count, since the box did not wait (parked) or did (fresh)."""
    notes = []
    bare_counts = {row.scenario: row.count for row in rows if row.contender == BARE}
    for row in rows:
        missing = bare_counts.get(row.scenario, row.count) - row.count
        if missing and row.scenario.startswith("launch "):
            runs = f"{missing} of {row.count + missing} runs left out"
            notes.append(f"{row.scenario}, {row.contender}: {runs}, since the box was not what the row says")
    return notes


def measure_docker(boxes: Contenders, *, rounds: int) -> tuple[list[Row], list[str]]:
    """/bin/true through docker, next to bare and strict; or a note that says why not."""
    tool, why = docker()
    if tool is None:
        return [], [f"docker left out: {why}"]
    entries = {name: entry for name, entry in boxes.entries(["/bin/true"]).items() if name in (BARE, PARKED, FRESH)}
    command = [*tool.prefix, "/bin/true"]
    entries[tool.name] = Entry(run=lambda: bare(command))
    return rows("docker run /bin/true", take_turns(entries, rounds=rounds, warm_up=1)), [f"docker: {tool.lacks}"]
