"""The program, as the examiner has it: names that stand for functions, exceptions and values on the other side of the line.

What the program answers is data. A failure of the line, or a value that does not cross, fails the test whether or not the test
catches what is raised here: see `Remote.fault`.
"""

from __future__ import annotations

import builtins
import os
from collections.abc import Callable, Sequence
from typing import Any

from .changes import apply_changes, take_changes
from .codec import Decoder, Encoder, Malformed, NotPlain, unpacked
from .wire import NONCE_BYTES, Broken, Line

_CLASSES = 32  # of an exception, with its bases
_NAME = 200  # characters
# Raised out of a call the first three would end a loop of the test's as if it were complete; groups are made of exceptions.
_NOT_RAISED = ("StopIteration", "StopAsyncIteration", "GeneratorExit", "BaseExceptionGroup", "ExceptionGroup")
_BUILTIN = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, BaseException) and name not in _NOT_RAISED
}


class Fault(BaseException):
    """The test cannot go on. `kind`: "lost" (the program is gone), "forged" (it wrote what is no answer), "answer" (a result that
    does not cross), "argument" (an argument that does not)."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind, text)
        self.kind, self.text = kind, text


class NotLoaded(Exception):
    """The program could not be loaded; the text says why, `kind` is the exception's name."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class Remote:
    def __init__(self, line: Line, most: int) -> None:
        self._line, self._most = line, most
        self._classes: dict[str, type] = {}
        self.fault: Fault | None = None
        """The first of this test; `renew` forgets those after which the line still serves."""

    def renew(self) -> None:
        if self.fault is not None and self.fault.kind in ("answer", "argument"):
            self.fault = None

    # ---- asking ----

    def bind(self, names: list[str] | None) -> dict[str, Any]:
        """What stands for the program's names, of those asked for; None: for all its public ones."""
        decoder = self._ask(_question("bind", names))
        tag = decoder.part(1)
        try:
            if tag == b"L":
                kinds, text = _exception_names(decoder), _described(decoder)
                raise NotLoaded(kinds[0], text)
            if tag != b"n":
                raise Malformed("no answer to this")
            parts = [(decoder.text(), decoder.text(), unpacked(decoder.take())) for _ in range(decoder.number())]
            parts.sort(key=lambda part: len(part[2]) if part[1] == "exception" else 0)  # bases before what is derived
            return {name: self._stand_in(name, kind, detail) for name, kind, detail in parts}
        except (Malformed, TypeError) as error:
            raise self._failed("forged", f"it wrote what is no answer: {error}") from None

    def _stand_in(self, name: str, kind: str, detail: Any) -> Any:
        if kind == "value":
            return detail
        if kind == "exception":
            return self._class_of(_checked_names(detail))
        if kind == "module":
            return Module
        return self._function(name) if kind == "callable" else Unusable(str(detail))

    def _function(self, name: str) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            return self._call(name, args, kwargs)

        function.__name__ = function.__qualname__ = name
        function.__module__ = "program"
        return function

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            question = _question("call", name, args, kwargs, most=self._most)
        except NotPlain as error:
            raise self._failed("argument", f"an argument of {name}() does not cross: {error}") from None
        decoder = self._ask(question)
        try:
            return self._answer(name, decoder, question.objects)
        except Malformed as error:
            raise self._failed("forged", f"it wrote what is no answer: {error}") from None

    def _answer(self, name: str, decoder: Decoder, given: Sequence[Any]) -> Any:
        """All of it is read before anything is changed by it."""
        decoder.objects = list(given)
        tag, result, raised = decoder.part(1), None, None
        if tag == b"u":
            raise self._failed("answer", f"{name}() gave {decoder.text()[:_NAME]}")
        if tag == b"v":
            result = decoder.take()
        elif tag == b"x":
            raised = self._exception(_exception_names(decoder), decoder.text(), decoder.take())
        else:
            raise Malformed("no answer to this")
        changes = take_changes(decoder, given)
        if not decoder.done:
            raise Malformed("more than an answer")
        apply_changes(changes)
        if raised is not None:
            raise raised
        return result

    def _ask(self, question: Encoder) -> Decoder:
        if self.fault is not None and self.fault.kind in ("lost", "forged"):
            raise self.fault
        nonce = os.urandom(NONCE_BYTES)
        try:
            self._line.send(nonce + bytes(question.data))
            answer = self._line.receive()
        except Broken as error:
            gone = str(error) == "gone"
            raise self._failed("lost" if gone else "forged", "the program ended" if gone else f"it wrote {error}") from None
        if answer[:NONCE_BYTES] != nonce:
            raise self._failed("forged", "it wrote an answer to another question")
        return Decoder(answer, NONCE_BYTES)

    def _failed(self, kind: str, text: str) -> Fault:
        if self.fault is None or kind in ("lost", "forged"):
            self.fault = Fault(kind, text)
        return self.fault

    # ---- exceptions ----

    def _exception(self, names: tuple[str, ...], text: str, line: Any) -> BaseException:
        kind = self._class_of(names)
        raised = _made(kind, text)
        raised.of_program = line if type(line) is int else 0  # type: ignore[attr-defined]
        return raised

    def _class_of(self, names: tuple[str, ...]) -> type:
        """The builtin class of that name, or a class of ours by that name, below those of its bases."""
        if names[0] in _BUILTIN:
            return _BUILTIN[names[0]]
        if names[0] not in self._classes:
            known = next((_BUILTIN[name] for name in names if name in _BUILTIN), RuntimeError)
            above = self._class_of(names[1:]) if len(names) > 1 else known
            bases = (above,) if issubclass(above, known) else (above, known)
            try:
                self._classes[names[0]] = type(names[0], bases, {"__module__": "program"})
            except TypeError as error:  # bases that no class can have together
                raise Malformed(str(error)) from None
        return self._classes[names[0]]


def _question(word: str, *values: Any, most: int = 1 << 24) -> Encoder:
    encoder = Encoder(most)
    encoder.put(word)
    for value in values:
        encoder.put(value)
    return encoder


def _checked_names(names: Any) -> tuple[str, ...]:
    if type(names) is not tuple or not 0 < len(names) <= _CLASSES:
        raise Malformed("no names of classes")
    if not all(type(name) is str and name.isidentifier() and len(name) <= _NAME for name in names):
        raise Malformed("no names of classes")
    return names


def _exception_names(decoder: Decoder) -> tuple[str, ...]:
    return _checked_names(decoder.take())


def _described(decoder: Decoder) -> str:
    text, line = decoder.text(), decoder.take()
    return f"{text} (line {line})" if type(line) is int and line else text


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


class Module:
    """Stands for what the program has as a module."""


class Unusable:
    """Stands for what the program has under a name and does not cross; `text` says what."""

    def __init__(self, text: str) -> None:
        self.text = text
