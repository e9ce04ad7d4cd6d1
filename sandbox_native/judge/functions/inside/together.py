"""Program and tests in one process: fast, and gameable. What the program does to the interpreter it does to the tests.

Descriptors as examiner.py has them.
"""

from __future__ import annotations

import json
import os
from typing import Any

from .examiner import PATH, examine
from .program import Loaded, read_program
from .remote import Fault, NotLoaded
from .testing import Tests


class Near:
    """The program as `Remote` has it, but itself."""

    apart = False
    fault: Fault | None = None
    called = False  # as far as is seen from here
    raised: tuple[BaseException, ...] = ()

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def renew(self) -> None:
        pass

    def bind(self, names: list[str] | None) -> dict[str, Any]:
        failure = self._loaded.failure
        if failure is not None:
            raise NotLoaded(type(failure).__name__, str(failure))
        here = self._loaded.module.__dict__
        return {name: thing for name, thing in here.items() if names is None or name in names}


def main() -> None:
    outcomes = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    with open(PATH, encoding="ascii") as file:
        given = json.load(file)
    loaded = Loaded(read_program())
    tests = Tests(Near(loaded), given["names"], given["module"], given["setup"])
    examine(given["tests"], tests.run, outcomes)
    os._exit(0)
