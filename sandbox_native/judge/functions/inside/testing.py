"""Runs one test in the examiner: a snippet, with the functions and classes of tests that it defines. In the examiner's box, or in
one process with the program."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence

from .collected import run_defined
from .ended import Ended, ended_by
from .remote import Fault, NotLoaded
from .space import Names, Program, ProgramModule, Space
from .unseen import Unseen

_RUN = "its own statements, functions test…() and methods test… of classes Test… and of unittest.TestCase, without arguments"


class Tests:
    def __init__(self, program: Program, names: Sequence[str], module: str | None, setup: str) -> None:
        """`names` must be the program's, also where they are builtin; `module`: what a test may import the program as."""
        self._program, self._names, self._module, self._setup = program, names, module, setup
        self._unseen = Unseen()

    def run(self, text: str) -> Ended:
        self._program.renew()
        try:
            codes = [compile(self._setup, "setup", "exec"), compile(text, "test", "exec")]
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return Ended("bad_test", f"the test does not compile: {error}")
        ended = self._attempt(text, codes)
        fault = self._program.fault  # whatever the test made of it
        return Ended(fault.kind, fault.text) if fault is not None else ended

    def _attempt(self, text: str, codes: list[types.CodeType]) -> Ended:
        try:
            names = Names(self._program, f"{self._setup}\n{text}", codes, self._names)
            space = Space(names, self._names)
            if self._module:
                sys.modules[self._module] = ProgramModule(self._module, names)
            if self._program.apart:
                self._unseen.watch(names.read)
            for code in codes:
                exec(code, space)
            return run_defined(space, text, codes[1], names) or self._passed(names)
        except Fault as fault:
            return Ended(fault.kind, fault.text)
        except NotLoaded as error:
            return Ended("not_loaded", f"{error.kind}: {error}")
        except BaseException as error:
            return ended_by(error)

    def _passed(self, names: Names) -> Ended:
        """Unless something went wrong that the test did not see, or nothing was tested."""
        unseen = self._unseen.first(self._program.raised)
        if unseen is not None:
            kind, text = ended_by(unseen)
            return Ended(kind, f"{text}, which nothing in the test saw")
        if names.used:
            return Ended("passed")
        if names.touched:
            return Ended("unused", "the test ended without a call of the program")
        return Ended("bad_test", f"the test never called the program: what is run of a test are {_RUN}; call what else there is")
