"""Serves the functions of the program under test. In the program's own box, and in one process with it.

So nothing here is trusted: the program can do all that this module can. It can answer what it likes, which is its right, and
knows no more of the tests than the arguments of the calls so far.
"""

from __future__ import annotations

import os
import sys
import types
from typing import Any

from .changes import copies, put_changes
from .codec import Decoder, Encoder, NotPlain, packed
from .wire import NONCE_BYTES, Broken, Line

PATH = "/workspace/program.py"
NAME = "program"
_TEXT = 2000  # characters of an exception's text
_PUBLIC = 1000


def serve(most: int) -> None:
    """Loads the program and answers until nobody asks any more. Descriptors: 0 questions, 1 answers, 2 the program's output."""
    line = Line(os.dup(0), os.dup(1), 1 << 31)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    output = sys.stdout
    server = Server(most, Loaded(read_program()), output)
    try:
        while True:
            line.send(server.answer(line.receive()))
    except Broken:
        _flush(output)
        os._exit(0)


def read_program() -> bytes:
    with open(PATH, "rb") as file:
        return file.read()


class Loaded:
    """The program as a module of its own; `failure`: what its loading ended with."""

    def __init__(self, text: bytes) -> None:
        self.module = types.ModuleType(NAME)
        self.module.__file__ = PATH
        self.failure: BaseException | None = None
        sys.modules[NAME] = self.module
        if "random" in sys.modules:
            sys.modules["random"].seed(0)
        try:
            exec(compile(text, PATH, "exec"), self.module.__dict__)
        except BaseException as error:
            self.failure = error


class Server:
    def __init__(self, most: int, loaded: Loaded, output: Any) -> None:
        self._most, self._output = most, output
        self._names, self._failure = loaded.module.__dict__, loaded.failure

    def answer(self, question: bytes) -> bytes:
        nonce, decoder = question[:NONCE_BYTES], Decoder(question, NONCE_BYTES)
        word = decoder.text()
        if self._failure is not None:
            answer = self._raised(Encoder(self._most), b"L", self._failure)
        elif word == "bind":
            answer = self._bind(decoder.take())
        else:
            answer = self._call(decoder)
        _flush(self._output)
        return nonce + bytes(answer.data)

    # ---- names ----

    def _bind(self, names: list[str] | None) -> Encoder:
        """What the program has under each name; None: all its public ones."""
        here = self._names
        if names is None:
            names = [name for name in here if not name.startswith("_")][:_PUBLIC]
        found = {name: _kind(here[name]) for name in names if name in here}
        encoder = Encoder(self._most)
        encoder.data += b"n"
        encoder.number(len(found))
        for name, (kind, detail) in found.items():
            try:
                data = packed(detail, self._most)
            except NotPlain as error:
                kind, data = "other", packed(str(error), self._most)
            for part in (name, kind, data):
                encoder.put(part)
        return encoder

    # ---- calls ----

    def _call(self, decoder: Decoder) -> Encoder:
        name, args, kwargs = decoder.text(), decoder.take(), decoder.take()
        given, before = decoder.objects, copies(decoder.objects)
        encoder = Encoder(self._most, given)
        try:
            result = self._names[name](*args, **kwargs)
        except BaseException as error:
            encoder = self._raised(encoder, b"x", error)
        else:
            try:
                encoder.data += b"v"
                encoder.put(result)
            except NotPlain as error:
                return self._not_plain(error)
        try:
            put_changes(encoder, before)
        except NotPlain as error:
            return self._not_plain(error)
        return encoder

    def _not_plain(self, error: NotPlain) -> Encoder:
        encoder = Encoder(self._most)
        encoder.data += b"u"
        encoder.put(str(error))
        return encoder

    def _raised(self, encoder: Encoder, tag: bytes, error: BaseException) -> Encoder:
        """An exception by the names of its classes, its text, and the line of the program that it came from."""
        encoder.data += tag
        encoder.put(class_names(type(error)))
        encoder.put(_text_of(error))
        encoder.put(_line_of(error))
        return encoder


def _flush(output: Any) -> None:
    try:
        output.flush()
    except (OSError, ValueError):  # the program closed it
        pass


def _kind(value: Any) -> tuple[str, Any]:
    if isinstance(value, type) and issubclass(value, BaseException):
        return "exception", class_names(value)
    if isinstance(value, types.ModuleType):
        return "module", None
    if callable(value):
        return "callable", None
    return "value", value


def class_names(kind: type) -> tuple[str, ...]:
    return tuple(one.__name__ for one in kind.__mro__ if one is not object)


def _text_of(error: BaseException) -> str:
    try:
        return str.__str__(str(error))[:_TEXT]
    except BaseException as other:
        return f"(its text: {type(other).__name__})"


def _line_of(error: BaseException) -> int:
    """0: none of its own."""
    found, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == PATH:
            found = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == PATH:
        return error.lineno or found
    return found
