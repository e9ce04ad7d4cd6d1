"""Exceptions of the program, as the examiner has them: by the names of their classes. In the examiner's box.

A class that a test gets under a name of the program's is always one of ours, below the builtin one where it has the name of one.
So it catches what the program raised, and never what the test raises itself, whatever the program calls by that name.
"""

from __future__ import annotations

import builtins
from typing import Any

from .codec import Malformed

_CLASSES = 32  # of an exception, with its bases
_NAME = 200  # characters
# Raised out of a call the first three would end a loop of the test's as if it were complete; groups are made of exceptions.
_NOT_RAISED = ("StopIteration", "StopAsyncIteration", "GeneratorExit", "BaseExceptionGroup", "ExceptionGroup")
_BUILTIN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and name not in _NOT_RAISED
}
_ROOT = ("RuntimeError", "Exception", "BaseException")


class Exceptions:
    def __init__(self) -> None:
        self._classes: dict[str, type] = {}
        self.aliased = False
        """Whether this test has a builtin exception under a name of the program's: what is raised is to be of that class too."""

    def bound(self, names: Any) -> type:
        """What stands for a class that the program has under a name. `names`: of it and its bases."""
        checked = checked_names(names)
        self.aliased = self.aliased or checked[0] in _BUILTIN
        return self._class_of(checked)

    def made(self, names: Any, text: str, line: Any) -> BaseException:
        """`line`: of the program, where it was raised."""
        checked = checked_names(names)
        builtin = None if self.aliased else _BUILTIN.get(checked[0])
        raised = _made(builtin or self._class_of(checked), text)
        raised.of_program = line if type(line) is int else 0  # type: ignore[attr-defined]
        return raised

    def _class_of(self, names: tuple[str, ...]) -> type:
        """A class of ours by the first name, below those by the others."""
        name = names[0]
        if name not in self._classes:
            at = next((at for at, one in enumerate(names) if one in _BUILTIN), None)
            above = [self._class_of(names[1:])] if len(names) > 1 else []
            known = _BUILTIN[name] if at == 0 else self._class_of(_ROOT if at is None else names[at:])
            bases = above if above and issubclass(above[0], known) else [*above, known]
            try:
                self._classes[name] = type(name, tuple(bases), {"__module__": "program"})
            except TypeError as error:  # bases that no class can have together
                raise Malformed(str(error)) from None
        return self._classes[name]


def checked_names(names: Any) -> tuple[str, ...]:
    if type(names) is not tuple or not 0 < len(names) <= _CLASSES:
        raise Malformed("no names of classes")
    if not all(type(name) is str and name.isidentifier() and len(name) <= _NAME for name in names):
        raise Malformed("no names of classes")
    return names


def _made(kind: type, text: str) -> BaseException:
    """With that text, whatever its class makes of its arguments."""
    try:
        made: BaseException = kind(text)
        if str(made) == text:
            return made
    except TypeError:  # UnicodeDecodeError and kin want more
        pass
    told: BaseException = type(kind.__name__, (kind,), {"__str__": lambda self: text, "__init__": lambda self, *args: None})("")
    told.args = (text,)
    return told
