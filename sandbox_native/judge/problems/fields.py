"""Typed reading of a mapping of a YAML file, with messages that name file, field, value, reason and remedy.

Used by the modules of problems/ that know what a file may say. A `Fields` gives each value once by the method of its type and
`done()` refuses the keys that nobody asked for. Texts that stand for numbers and truth values are those of YAML 1.2.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NoReturn, TypeVar

from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.yaml_file import Plain

_Choice = TypeVar("_Choice", bound=StrEnum)

_FLOAT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}\Z")
_TRUTH: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_INFINITIES: Final = {"inf": math.inf, "+inf": math.inf, "-inf": -math.inf}


def float_of(text: str, *, infinite: bool = False) -> float | None:
    """The number that `text` is in the format's notation, None for none; `inf`, `+inf` and `-inf` where they are allowed."""
    if infinite and text.lower() in _INFINITIES:
        return _INFINITIES[text.lower()]
    value = float(text) if len(text) <= 400 and _FLOAT.match(text) else math.nan
    return value if math.isfinite(value) else None


class Fields:
    """The mapping `values` of `file`; `prefix` is the name of the mapping itself, for messages."""

    def __init__(self, values: Plain, file: str, prefix: str = "") -> None:
        self.file = file
        self.prefix = prefix
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise ProblemError(
                f"a mapping is asked for, and this is a {_kind(values)}",
                file=file,
                field=prefix or "content",
                value=values,
                remedy="write `key: value` lines",
            )
        self.values: dict[str, Plain] = values
        self._known: list[str] = []

    def refuse(self, key: str, reason: str, remedy: str) -> NoReturn:
        """Raises the ProblemError for that field."""
        raise ProblemError(reason, file=self.file, field=self._name(key), value=self.values.get(key), remedy=remedy)

    def _name(self, key: str) -> str:
        return f"{self.prefix}.{key}" if self.prefix else key

    def get(self, key: str) -> Plain:
        """The value as it stands, None when it is absent or empty."""
        self._known.append(key)
        return self.values.get(key)

    def has(self, key: str) -> bool:
        """Whether the key stands there with a value."""
        return self.values.get(key) is not None

    def ignore(self, *keys: str) -> None:
        """These keys may stand there; they do not matter for judging."""
        self._known.extend(keys)

    def done(self) -> None:
        """Refuses every key that was not asked for."""
        for key in self.values:
            if key not in self._known:
                near = difflib.get_close_matches(key, self._known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"keys are {', '.join(sorted(set(self._known)))}"
                self.refuse(key, "there is no such key here", hint)

    def text(self, key: str, default: str = "") -> str:
        """A text."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.refuse(key, f"a text is asked for, and this is a {_kind(value)}", "write one text")
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.get(key)
        if value is None:
            return default
        truth = _TRUTH.get(value.lower()) if isinstance(value, str) else None
        if truth is None:
            self.refuse(key, "a truth value is asked for", "write true or false")
        return truth

    def number(self, key: str, default: float, *, least: float, strict: bool = False, most: float = 1e12) -> float:
        """A finite number, at least `least` (more, if `strict`)."""
        value = self.get(key)
        if value is None:
            return default
        number = float_of(value) if isinstance(value, str) else None
        if number is None:
            self.refuse(key, "a number is asked for", "write it without a unit")
        if number < least or (strict and number == least) or number > most:
            self.refuse(key, f"it must be {'more than' if strict else 'at least'} {least:g} and at most {most:g}", "change it")
        return number

    def whole(self, key: str, default: int, *, least: int = 1, most: int = 1 << 40) -> int:
        """A whole number from `least` to `most`."""
        value = self.get(key)
        if value is None:
            return default
        if not isinstance(value, str) or not _WHOLE.match(value):
            self.refuse(key, "a whole number is asked for", "write it without a unit")
        if not least <= int(value) <= most:
            self.refuse(key, f"it must be from {least} to {most}", "change it")
        return int(value)

    def choice(self, key: str, kind: type[_Choice], default: _Choice, only: Sequence[_Choice] | None = None) -> _Choice:
        """One of an enumeration's values."""
        value = self.get(key)
        if value is None:
            return default
        allowed = list(kind) if only is None else list(only)
        if not isinstance(value, str) or value not in allowed:
            self.refuse(key, "there is no such choice", f"write one of {', '.join(allowed)}")
        return kind(value)

    def words(self, key: str) -> tuple[str, ...]:
        """Words: a text with spaces between them, or a list of texts."""
        value = self.get(key)
        if isinstance(value, str):
            return tuple(value.split())
        return self._texts(key, value)

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one."""
        value = self.get(key)
        return (value,) if isinstance(value, str) else self._texts(key, value)

    def _texts(self, key: str, value: Plain) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            self.refuse(key, f"a list of texts is asked for, and this is a {_kind(value)}", "write [one, two], say")
        texts = tuple(item for item in value if isinstance(item, str))
        if len(texts) != len(value):
            self.refuse(key, "a list of texts is asked for, and something else is in it", "put it into quotation marks")
        return texts

    def inner(self, key: str) -> Fields:
        """The mapping below a key; empty when it is absent."""
        return Fields(self.get(key), self.file, self._name(key))


def _kind(value: Plain) -> str:
    match value:
        case list():
            return "list"
        case dict():
            return "mapping"
        case _:
            return "text"
