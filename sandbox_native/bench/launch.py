"""One run after another: three programs, back to back and with a pause, and docker where a daemon answers."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sandbox_native.bench.contenders import Contenders, bare, docker
from sandbox_native.bench.measure import Row, rows, take_turns

PAUSE_SECONDS = 0.030  # agents launch sporadically; a tight loop hides grace periods and cold caches
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
        actions = boxes.actions(argv)
        some = max(rounds // 3, 5) if name == "python" else rounds
        taken += rows(f"launch {name}, back to back", take_turns(actions, rounds=some))
        spaced = take_turns(actions, rounds=max(rounds // 5, 5), pause=PAUSE_SECONDS)
        taken += rows(f"launch {name}, 30 ms apart", spaced)
    return taken


def measure_docker(boxes: Contenders, *, rounds: int) -> tuple[list[Row], list[str]]:
    """/bin/true through docker, next to bare and strict; or a note that says why not."""
    prefix, why = docker()
    if prefix is None:
        return [], [f"docker left out: {why}"]
    actions = boxes.actions(["/bin/true"], others=False)
    del actions["light"]
    command = [*prefix, "/bin/true"]
    actions["docker"] = lambda: bare(command)
    return rows("docker run /bin/true", take_turns(actions, rounds=rounds, warm_up=1)), []
