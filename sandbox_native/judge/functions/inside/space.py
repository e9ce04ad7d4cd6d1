"""A test's globals: its own names, then Python's, then the program's, and what it made of those. In the examiner's box, or in one
process with the program."""

from __future__ import annotations

import builtins
import importlib
import types
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from . import names as text_names
from .remote import Fault, Module, Unusable

# What the examiner itself gives where the program has a module under the name and the test does not import it.
_MODULES = (
    *("bisect", "cmath", "collections", "copy", "datetime", "decimal", "fractions", "functools", "heapq", "itertools", "json"),
    *("math", "operator", "random", "re", "statistics", "string", "time", "typing"),
)
_PYTHON = vars(builtins)
_OF_BUILTINS = ("__spec__", "__loader__", "__package__")


class Program(Protocol):
    """What tests call: see `Remote`."""

    apart: bool
    fault: Fault | None
    called: bool

    @property
    def raised(self) -> Iterable[BaseException]: ...

    def renew(self) -> None: ...

    def bind(self, names: list[str] | None) -> dict[str, Any]: ...


class Names:
    """The program's names, for one test. KeyError for what it does not get.

    Names that the text sets are never the program's, even while they are not set (a helper that could not be imported, a flag):
    only where it wraps a function of the program by its own name.
    """

    def __init__(self, program: Program, text: str, codes: Sequence[types.CodeType], listed: Sequence[str]) -> None:
        """`listed`: are the program's, also where they are Python's."""
        self._program, self._text, self._listed = program, text, listed
        self.read = {name for code in codes for name in text_names.read(code)}
        self._own = {name for code in codes for name in text_names.stored(code)}
        wanted = [name for name in sorted(self.read) if name in listed or not hasattr(builtins, name)]
        self._known: dict[str, Any] = dict.fromkeys(name for name in wanted if not name.startswith("__"))
        bound = program.bind(list(self._known))
        self._bound = {name: bound[name] for name in self._known if name in bound}
        self._asked = self._read = False

    @property
    def touched(self) -> bool:
        """Whether the program may have had a say in what the test did."""
        return self._asked or self._program.called

    @property
    def used(self) -> bool:
        """Whether it called the program, or read a plain value of it. In one process calls are not seen: there to read a name is
        enough."""
        return self._read or self._program.called

    def take(self, name: str) -> Any:
        """For a global name that the test does not have. NameError where it is listed and the program does not have it."""
        listed = name in self._listed
        if name not in self._known or (name in self._own and not listed and not self._is_wrapped(name)):
            raise KeyError(name)
        self._asked = True
        if listed and name not in self._bound:
            raise NameError(f"name {name!r} is not defined by the program")
        return self._usable(name, self._bound[name])

    def fetch(self, name: str) -> Any:
        """For an attribute of the program's module, as it is now."""
        self._asked = True
        return self._usable(name, self._program.bind([name])[name])

    def add_all(self) -> None:
        """All public ones, for `import *`."""
        bound = self._program.bind(None)
        for name in bound:
            if name not in self._known and not name.startswith("_"):
                self._known[name], self._bound[name] = None, bound[name]

    def _is_wrapped(self, name: str) -> bool:
        return callable(self._bound.get(name)) and text_names.is_wrapped(self._text, name)

    def _usable(self, name: str, thing: Any) -> Any:
        if isinstance(thing, Unusable) or (thing is Module and name not in _MODULES):
            raise KeyError(name)
        if thing is Module:
            return importlib.import_module(name)
        if not isinstance(thing, types.ModuleType) and not (self._program.apart and callable(thing)):
            self._read = True
        return thing


class Space(dict):  # type: ignore[type-arg]
    """Python's names come before the program's, each when it is asked for: to hold them all costs a box a page for many."""

    def __init__(self, names: Names, listed: Sequence[str]) -> None:
        super().__init__(__name__="test", __doc__=None, __builtins__=builtins)
        self._names, self._not_pythons = names, {*_OF_BUILTINS, *listed}

    def __missing__(self, name: str) -> Any:
        pythons = name in _PYTHON and name not in self._not_pythons
        thing = self[name] = _PYTHON[name] if pythons else self._names.take(name)
        return thing

    def __contains__(self, name: object) -> bool:
        return self.get(name, self) is not self

    def get(self, name: Any, other: Any = None) -> Any:
        try:
            return self[name]
        except (KeyError, NameError):
            return other


class ProgramModule(types.ModuleType):
    """The program, for tests that import it."""

    def __init__(self, name: str, names: Names) -> None:
        super().__init__(name)
        self.__dict__["_names"] = names

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            self._names.add_all()
            return []
        try:
            if not name.startswith("__"):
                return self._names.fetch(name)
        except KeyError:
            pass
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
