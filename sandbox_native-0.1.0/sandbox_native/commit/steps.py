"""What is left to do once a commit is staged: steps that the journal holds and apply.py takes. Pure.

A step names an entry of the directory where the walk stands; `Down` and `Up` move it. `slot` numbers what is staged (Put) and
what is moved aside (Drop, and Put where something of another kind is in the way).
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Down:
    """Into a directory that is there."""

    name: str


@dataclass(frozen=True, slots=True)
class Up:
    """Out of it again."""


@dataclass(frozen=True, slots=True)
class Put:
    """What is staged in the slot comes to the name; what is there gives way."""

    name: str
    slot: int


@dataclass(frozen=True, slots=True)
class Drop:
    """What is at the name goes, into the slot of what is moved aside."""

    name: str
    slot: int


@dataclass(frozen=True, slots=True)
class Dress:
    """Mode, time and the guest's attributes of a directory."""

    name: str
    mode: int
    mtime_ns: int
    attributes: Mapping[str, bytes]


Step = Down | Up | Put | Drop | Dress

_KINDS: Final[Mapping[str, type[Step]]] = {"down": Down, "up": Up, "put": Put, "drop": Drop, "dress": Dress}
_MOST_SLOTS: Final = 1 << 30
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def to_json(step: Step) -> list[Any]:
    """For json.dumps; a byte of a name that is no text is a lone surrogate, which JSON in ASCII can hold."""
    values = [getattr(step, name) for name in type(step).__dataclass_fields__]
    if isinstance(step, Dress):
        values[-1] = {name: base64.b64encode(value).decode() for name, value in step.attributes.items()}
    return [_NAMES[type(step)], *values]


def from_json(line: Any) -> Step:
    """ValueError, TypeError or LookupError for what `to_json` did not make."""
    kind = _KINDS[line[0]]
    values = list(line[1:])
    if kind is Dress:
        values[-1] = {_text(name): base64.b64decode(value, validate=True) for name, value in values[-1].items()}
    step = kind(*values)
    if not isinstance(step, Up) and (_text(step.name) in ("", ".", "..") or "/" in step.name):
        raise ValueError("a name that is none")
    if isinstance(step, (Put, Drop)):
        _number(step.slot, 1, _MOST_SLOTS)
    if isinstance(step, Dress):
        _number(step.mode, 0, 0o7777)
        _number(step.mtime_ns, -(2**63), 2**63 - 1)
        if not all(name.startswith("user.") and not name.startswith("user.overlay.") for name in step.attributes):
            raise ValueError("an attribute that is none of a guest's")
    return step


def _text(value: Any) -> str:
    """What the kernel takes for a name."""
    if not isinstance(value, str) or b"\0" in os.fsencode(value):
        raise ValueError("no text")
    return value


def _number(value: Any, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise ValueError("a number that is none")


def in_order(steps: Iterable[Step]) -> bool:
    """Whether the walk never leaves the directory that it began in, and ends there."""
    depth = 0
    for step in steps:
        depth += isinstance(step, Down) - isinstance(step, Up)
        if depth < 0:
            return False
    return depth == 0
