"""The program, as the examiner has it: names that stand for functions, exceptions and values on the other side of the line.

What the program answers is data. A failure of the line, or a value that does not cross, fails the test whether or not the test
catches what is raised here: see `Remote.fault`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from .changes import apply_changes, take_changes
from .codec import Decoder, Encoder, Malformed, NotPlain, unpacked
from .raised import Exceptions, checked_names
from .wire import NONCE_BYTES, Broken, Line

_NAME = 200  # characters
_RAISED = 100  # exceptions kept
_TOO_DEEP = "the test called it where the stack was nearly full"


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
    apart = True  # from the tests

    def __init__(self, line: Line, most: int) -> None:
        self._line, self._most = line, most
        self._exceptions = Exceptions()
        self.fault: Fault | None = None
        """The first of this test; `renew` forgets those after which the line still serves."""
        self.raised: deque[BaseException] = deque(maxlen=_RAISED)
        """By the program in this test, the last of them."""
        self.renew()

    def renew(self) -> None:
        if self.fault is not None and self.fault.kind in ("answer", "argument"):
            self.fault = None
        self.called, self._gave = False, False
        self._exceptions.aliased = False
        self.raised.clear()

    # ---- asking ----

    def bind(self, names: list[str] | None) -> dict[str, Any]:
        """What stands for the program's names, of those asked for; None: for all its public ones."""
        decoder = self._ask(_question("bind", names))
        try:
            tag = decoder.part(1)
            if tag == b"L":
                kinds, text = checked_names(decoder.take()), _described(decoder)
                raise NotLoaded(kinds[0], text)
            if tag != b"n":
                raise Malformed("no answer to this")
            parts = [(decoder.text(), decoder.text(), unpacked(decoder.take())) for _ in range(decoder.number())]
            parts.sort(key=lambda part: len(part[2]) if part[1] == "exception" else 0)  # bases before what is derived
            return {name: self._stand_in(name, kind, detail) for name, kind, detail in parts}
        except (Malformed, TypeError) as error:
            raise self._failed("forged", f"it wrote what is no answer: {error}") from None
        except RecursionError:
            raise self._failed("answer", _TOO_DEEP) from None

    def _stand_in(self, name: str, kind: str, detail: Any) -> Any:
        if kind == "value":
            self._gave = True
            return detail
        if kind == "exception":
            return self._exceptions.bound(detail)
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
        self.called = True
        try:
            question = _question("call", name, args, kwargs, most=self._most)
            decoder = self._ask(question)
            result, raised = self._answer(name, decoder, question.objects)
        except NotPlain as error:
            raise self._not_crossing(name, error) from None
        except Malformed as error:
            raise self._failed("forged", f"it wrote what is no answer: {error}") from None
        except RecursionError:
            raise self._failed("answer", _TOO_DEEP) from None
        self._gave = True
        if raised is not None:
            self.raised.append(raised)
            raise raised
        return result

    def _not_crossing(self, name: str, error: NotPlain) -> Fault:
        """The test's fault where it made the value, or nothing of the program can have made it so large."""
        theirs = self._gave if error.value is None else getattr(error.value, "__module__", None) == "program"
        if not theirs:
            return self._failed("argument", f"an argument of {name}() does not cross: {error}")
        return self._failed("answer", f"{name}() was called with what the program gave, and that does not cross: {error}")

    def _answer(self, name: str, decoder: Decoder, given: Sequence[Any]) -> tuple[Any, BaseException | None]:
        """The result, or what was raised. All of it is read before anything is changed by it."""
        decoder.objects = list(given)
        tag, result, raised = decoder.part(1), None, None
        if tag == b"u":
            raise self._failed("answer", f"{name}() gave {decoder.text()[:_NAME]}")
        if tag == b"v":
            result = decoder.take()
        elif tag == b"x":
            raised = self._exceptions.made(decoder.take(), decoder.text(), decoder.take())
        else:
            raise Malformed("no answer to this")
        changes = take_changes(decoder, given)
        if not decoder.done:
            raise Malformed("more than an answer")
        apply_changes(changes)
        return result, raised

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


def _question(word: str, *values: Any, most: int = 1 << 24) -> Encoder:
    encoder = Encoder(most)
    encoder.put(word)
    for value in values:
        encoder.put(value)
    return encoder


def _described(decoder: Decoder) -> str:
    text, line = decoder.text(), decoder.take()
    return f"{text} (line {line})" if type(line) is int and line else text


class Module:
    """Stands for what the program has as a module."""


class Unusable:
    """Stands for what the program has under a name and does not cross; `text` says what."""

    def __init__(self, text: str) -> None:
        self.text = text
