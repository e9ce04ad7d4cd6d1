"""Launchers of machines that lack something: one system call answers an errno, the rest is real (tests/probes/without.c)."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = Path(__file__).parent / "probes" / "without.c"
# Older headers do not know them.
_NUMBERS = {"pidfd_send_signal": 424, "open_tree": 428, "move_mount": 429, "fsopen": 430, "pidfd_open": 434, "clone3": 435}
_NUMBERS |= {"close_range": 436, "openat2": 437, "mount_setattr": 442}
_NUMBERS |= {"landlock_create_ruleset": 444, "landlock_add_rule": 445, "landlock_restrict_self": 446}


def build(directory: Path, launcher: Path, name: str, error: int, argument: tuple[int, int, int] = (0, 0, 0)) -> Path:
    """Stands in for `launcher`. `argument`: (index, mask, value), only where that argument has the value in the mask's bits."""
    program = directory / "launcher"
    words = {"NUMBER": _NUMBERS.get(name, f"SYS_{name}"), "ERROR": error, "LAUNCHER": f'"{launcher}"'}
    words |= dict(zip(("ARGUMENT", "MASK", "VALUE"), argument, strict=True))
    macros = [f"-D{key}={value}" for key, value in words.items()]
    subprocess.run(["cc", "-O1", *macros, str(_SOURCE), "-o", str(program)], check=True)
    return program
