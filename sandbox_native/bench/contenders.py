"""The ways to run a program that are compared: bare, our two presets with boxes that wait and that do not, other tools."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from sandbox_native import Limits, Policy, Sandbox
from sandbox_native.bench.boxes import Fresh, boxed, parked
from sandbox_native.bench.measure import BARE, Action, Entry
from sandbox_native.bench.others import Tool

PARKED: Final = "strict parked"
FRESH: Final = "strict fresh"
LIGHT: Final = "light parked"
_PREPARED: Final = 16  # outlasts a burst
_LIMITS: Final = Limits(wall_seconds=60, processes=512)
_INSIDE: Final = "/mnt/bench"


class Contenders:
    """Holds the sandboxes, made once; ``entries(argv)`` gives one entry for each contender.

    :param folder: a host directory that every box shows, if there is one; a program in it is run from there.
    """

    def __init__(self, strict: Sandbox, light: Sandbox, fresh: Fresh, tools: Sequence[Tool], folder: str | None) -> None:
        self.strict = strict
        self.light = light
        self.tools = tools
        self._fresh = fresh
        self._folder = folder

    def entries(self, argv: Sequence[str], *, others: bool = False) -> dict[str, Action | Entry]:
        """By name, bare first; ``others``: the other tools too, where they are installed."""
        command = list(argv)
        inside = self._inside(command)
        found: dict[str, Action | Entry] = {
            BARE: lambda: bare(command),
            PARKED: parked(self.strict, inside),
            FRESH: self._fresh.entry(inside),
            LIGHT: parked(self.light, inside),
        }
        if others:
            found.update({tool.name: Entry(run=partial(bare, [*tool.prefix, *command])) for tool in self.tools})
        return found

    def plain(self, argv: Sequence[str]) -> dict[str, Action]:
        """Without a look at whether a box waited; from any thread."""
        command = list(argv)
        inside = self._inside(command)
        return {
            BARE: lambda: bare(command),
            "strict": lambda: boxed(self.strict, inside),
            "light": lambda: boxed(self.light, inside),
        }

    def _inside(self, command: list[str]) -> list[str]:
        if self._folder is None or not command[0].startswith(self._folder):
            return command
        return [command[0].replace(self._folder, _INSIDE, 1), *command[1:]]


@contextmanager
def contenders(folder: str | None = None, tools: Sequence[Tool] = ()) -> Iterator[Contenders]:
    """All sandboxes for the duration of a with block."""
    readable = [] if folder is None else [(folder, _INSIDE)]  # not in place: a box has a /tmp of its own
    strict, light = Policy.strict(readable=readable), Policy.light(readable=readable)
    with ExitStack() as stack:
        waiting = stack.enter_context(Sandbox(strict, _LIMITS, prepared=_PREPARED))
        lighter = stack.enter_context(Sandbox(light, _LIMITS, prepared=_PREPARED))
        held = stack.enter_context(Fresh(stack.enter_context(Sandbox(strict, _LIMITS))))
        yield Contenders(waiting, lighter, held, tools, folder)


def bare(command: Sequence[str]) -> None:
    """What everybody does without us."""
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]!r}")
