"""Runs what a snippet defines: functions and classes of tests, as pytest and unittest find them. In the examiner's box, or in one
process with the program.

What is named like a test and cannot be run is the fault of the test, whatever the program is; so is one that is always skipped.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from .ended import TEXT, Ended
from .names import is_read_by, stored
from .space import Names

_NAMES = ("check",)  # of tests that are called by the text itself, beside test…


def run_defined(space: dict[str, Any], text: str, code: types.CodeType, names: Names) -> Ended | None:
    """None when all that was found passed, also if that is nothing; what a function raises is raised."""
    found = {name: thing for name, thing in dict.items(space) if _is_of_test(thing)}
    unittest: Any = sys.modules.get("unittest")
    cases = _classes(found, lambda kind: unittest is not None and issubclass(kind, unittest.TestCase))
    classes = _classes(found, lambda kind: kind not in cases and kind.__name__.startswith("Test"))
    own = set(stored(code))  # the setup may have what other tests want
    for name, why in _not_run(found, cases, classes, names.touched):
        if name in own and not is_read_by(text, name):  # what the text reads it does with what it wants
            return Ended("bad_test", f"{why}, so it was not run: mend it, or call it")
    for name, thing in found.items():
        if name.startswith("test") and _is_function(thing) and not _needed(thing):
            _call(thing)
    for kind in classes:
        _run_class(kind)
    return _run_cases(unittest, cases, names) if cases else None


def _is_of_test(thing: Any) -> bool:
    return isinstance(thing, functools.partial) or getattr(thing, "__module__", None) == "test"


def _classes(found: dict[str, Any], wanted: Callable[[type], bool]) -> list[Any]:
    return list(dict.fromkeys(thing for thing in found.values() if isinstance(thing, type) and wanted(thing)))


def _is_function(thing: Any) -> bool:
    wrapped = not isinstance(thing, type) and callable(thing) and hasattr(thing, "__wrapped__")
    return wrapped or isinstance(thing, (types.FunctionType, functools.partial))


def _needed(function: Any) -> list[str]:
    """Arguments that it cannot go without."""
    try:
        parts = inspect.signature(function, follow_wrapped=False).parameters.values()
    except ValueError:  # it does not tell
        return []
    many = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [part.name for part in parts if part.default is part.empty and part.kind not in many]


def _not_run(found: dict[str, Any], cases: list[Any], classes: list[Any], touched: bool) -> Iterator[tuple[str, str]]:
    """Names, and what keeps them from being run. `touched`: it may be the program, where a decorator skips one."""
    for name, thing in found.items():
        if _is_function(thing) and (name.startswith("test") or name in _NAMES):
            yield from ((name, f"{name}() {why}") for why in _obstacles(thing))
            if name in _NAMES and not _needed(thing):
                yield name, f"{name}() is not called"
    for kind in cases:
        methods = _methods_of_case(kind)
        if not methods:
            yield kind.__name__, f"class {kind.__name__} has no method test…"
        for name in methods:
            method = getattr(kind, name)
            skips = [thing for thing in (kind, method) if getattr(thing, "__unittest_skip__", False)]
            if skips and not touched:
                yield kind.__name__, f"{kind.__name__}.{name}() is skipped ({getattr(skips[0], '__unittest_skip_why__', '')})"
            elif inspect.isgeneratorfunction(method):
                yield kind.__name__, f"{kind.__name__}.{name}() is a generator"
    for kind in classes:
        methods = _methods(kind)
        if methods and kind.__init__ is not object.__init__:
            yield kind.__name__, f"class {kind.__name__} has an __init__()"
        elif methods:
            told = [(name, why) for name in methods for why in _obstacles(getattr(kind(), name))]
            yield from ((kind.__name__, f"{kind.__name__}.{name}() {why}") for name, why in told)


def _obstacles(function: Any) -> Iterator[str]:
    needed = _needed(function)
    if needed:
        yield f"takes arguments ({', '.join(needed)})"
    elif inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        yield "is a generator"


def _call(function: Callable[[], Any]) -> None:
    result = function()
    if inspect.iscoroutine(result):
        import asyncio

        asyncio.run(result)


# ---- pytest's classes ----


def _methods(kind: Any) -> list[str]:
    """In the order of their definition."""
    names = dict.fromkeys(name for one in reversed(kind.__mro__) for name in vars(one))
    return [name for name in names if name.startswith("test") and callable(getattr(kind, name))]


def _run_class(kind: Any) -> None:
    methods = _methods(kind)
    if methods and kind.__init__ is object.__init__:
        _hook(kind, "setup_class")
        for name in methods:
            instance = kind()
            method = getattr(instance, name)
            if _needed(method):
                continue
            _hook(instance, "setup_method", method)
            try:
                _call(method)
            finally:
                _hook(instance, "teardown_method", method)
        _hook(kind, "teardown_class")


def _hook(owner: Any, name: str, *given: Any) -> None:
    function = getattr(owner, name, None)
    if function is not None:
        _call(functools.partial(function, *given[: len(_needed(function))]))


# ---- unittest ----


def _methods_of_case(kind: Any) -> list[str]:
    names = [name for name in dir(kind) if name.startswith("test") and callable(getattr(kind, name))]
    return names or [name for name in ("runTest",) if hasattr(kind, name)]


def _run_cases(unittest: Any, cases: list[Any], names: Names) -> Ended | None:
    for kind in cases:
        if not hasattr(kind, "asyncSetUp"):
            _make_plain(kind)
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(kind).run(result)
        for outcome, found in (("error", result.errors), ("assertion", result.failures)):
            if found:
                return Ended(outcome, f"{found[0][0].id()}: {found[0][1].strip().splitlines()[-1][:TEXT]}")
        if result.unexpectedSuccesses:
            return Ended("assertion", f"{result.unexpectedSuccesses[0].id()}: passed, and was expected to fail")
        for case, reason in result.skipped:
            text = f"{case.id()} was skipped ({reason}), and what is skipped does not pass"
            return Ended("skipped" if names.touched else "bad_test", text)
    return None


def _make_plain(kind: Any) -> None:
    """Coroutines are run, which unittest does not do in a plain TestCase."""
    for name in _methods_of_case(kind):
        method = getattr(kind, name)
        if inspect.iscoroutinefunction(method):
            setattr(kind, name, _plain(method))


def _plain(method: Callable[[Any], Any]) -> Callable[[Any], None]:
    @functools.wraps(method)
    def run(case: Any) -> None:
        _call(functools.partial(method, case))

    return run
