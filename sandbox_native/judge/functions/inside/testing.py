"""Runs one test in the examiner: a snippet, with the functions and classes of tests that it defines. In the examiner's box, or in
one process with the program."""

from __future__ import annotations

import builtins
import importlib
import inspect
import sys
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from .remote import Fault, Module, NotLoaded, Unusable

_TEXT = 1000  # characters of a message
# What the examiner itself gives where the program has a module under the name and the test does not import it.
_MODULES = (
    *("bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "json"),
    *("math", "operator", "random", "re", "statistics", "string", "time", "typing"),
)


class Ended(NamedTuple):
    """How a test ended. `kind`: passed, assertion, error (in the test), raised (by the program), not_loaded, bad_test, or that of
    a Fault."""

    kind: str
    text: str = ""


class Program(Protocol):
    """What tests call: see `Remote`."""

    fault: Fault | None

    def renew(self) -> None: ...

    def bind(self, names: list[str] | None) -> dict[str, Any]: ...


class Tests:
    def __init__(self, remote: Program, names: Sequence[str], module: str | None, setup: str) -> None:
        """`names` must be the program's, also where they are builtin; `module`: what a test may import the program as."""
        self._remote, self._names, self._module, self._setup = remote, names, module, setup

    def run(self, text: str) -> Ended:
        self._remote.renew()
        try:
            setup = compile(self._setup, "setup", "exec")
            code = compile(text, "test", "exec")
        except (SyntaxError, ValueError) as error:
            return Ended("bad_test", f"the test does not compile: {error}")
        ended = self._attempt([setup, code])
        fault = self._remote.fault  # whatever the test made of it
        return Ended(fault.kind, fault.text) if fault is not None else ended

    def _attempt(self, codes: list[types.CodeType]) -> Ended:
        try:
            space = self._space(codes)
            for code in codes:
                exec(code, space)
            return _defined(space) or Ended("passed")
        except Fault as fault:
            return Ended(fault.kind, fault.text)
        except NotLoaded as error:
            return Ended("not_loaded", f"{error.kind}: {error}")
        except BaseException as error:
            return _ended_by(error)

    def _space(self, codes: Iterable[types.CodeType]) -> dict[str, Any]:
        """A test's globals."""
        space: dict[str, Any] = {"__name__": "test", "__builtins__": builtins}
        used = {name for code in codes for name in _used(code)}
        wanted = [name for name in sorted(used) if name in self._names or not hasattr(builtins, name)]
        bound = self._remote.bind([name for name in wanted if not name.startswith("__")])
        for name, thing in bound.items():
            if name not in wanted or isinstance(thing, Unusable):
                continue
            if thing is not Module:
                space[name] = thing
            elif name in _MODULES:
                space[name] = importlib.import_module(name)
        if self._module:
            self._make_module(self._module, "*" in used, space)
        return space

    def _make_module(self, name: str, everything: bool, space: dict[str, Any]) -> None:
        made = types.ModuleType(name)
        bound = self._remote.bind(None) if everything else space
        made.__dict__.update({key: thing for key, thing in bound.items() if not key.startswith("__")})
        sys.modules[name] = made


def _used(code: types.CodeType) -> Iterator[str]:
    """Global names that code may read; attributes come along."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _used(constant)
        elif constant == ("*",):
            yield "*"


# ---- what a snippet defines ----


def _defined(space: dict[str, Any]) -> Ended | None:
    """Runs functions `test…` without arguments and unittest's test cases; None when all passed."""
    for name, thing in list(space.items()):
        if name.startswith("test") and inspect.isfunction(thing) and thing.__module__ == "test" and _takes_nothing(thing):
            thing()
    unittest = sys.modules.get("unittest")
    return _cases(unittest, space) if unittest is not None else None


def _takes_nothing(function: Any) -> bool:
    return all(part.default is not part.empty for part in inspect.signature(function).parameters.values())


def _cases(unittest: Any, space: dict[str, Any]) -> Ended | None:
    seen: set[type] = set()
    for thing in list(space.values()):
        if not (isinstance(thing, type) and issubclass(thing, unittest.TestCase)) or thing.__module__ != "test" or thing in seen:
            continue
        seen.add(thing)
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(thing).run(result)
        for kind, found in (("error", result.errors), ("assertion", result.failures)):
            if found:
                return Ended(kind, f"{found[0][0].id()}: {found[0][1].strip().splitlines()[-1][:_TEXT]}")
        if result.unexpectedSuccesses:
            return Ended("assertion", f"{result.unexpectedSuccesses[0].id()}: passed, and was expected to fail")
    return None


# ---- what went wrong ----


def _ended_by(error: BaseException) -> Ended:
    text = _text_of(error)
    line = getattr(error, "of_program", None)
    if line is not None:
        where = f" (line {line} of the program)" if line else ""
        return Ended("raised", text + where)
    return Ended("assertion" if isinstance(error, AssertionError) else "error", text + _place_in_test(error))


def _text_of(error: BaseException) -> str:
    try:
        text = str(error)[:_TEXT]
    except Exception as other:  # an answer's repr may be too long to make
        text = f"({other})"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place_in_test(error: BaseException) -> str:
    found, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "test":
            found = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {found} of the test)" if found else ""
