"""Arguments that a call changes: lists, dicts and sets are compared with what they were, what changed is told with the answer,
so that the caller's own objects can follow. Pure; in both boxes."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_not
from typing import Any

from .codec import Decoder, Encoder, Malformed


def copies(objects: Sequence[Any]) -> list[Any]:
    """Each list, dict or set as it is now."""
    return [thing.copy() for thing in objects]


def put_changes(encoder: Encoder, before: Sequence[Any]) -> None:
    """After a call: which of the known objects are no longer what they were, and what is in them."""
    changed = [number for number, old in enumerate(before) if _differs(old, encoder.objects[number])]
    encoder.number(len(changed))
    for number in changed:
        encoder.number(number)
        encoder.content(encoder.objects[number])


def take_changes(decoder: Decoder, known: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The other side's word on them: pairs of an object and a plain one of its kind with the new content."""
    changes = []
    for _ in range(decoder.number()):
        number, tag = decoder.number(), decoder.part(1)
        if number >= len(known):
            raise Malformed("an object that is not there")
        new = _EMPTY.get(tag, tuple)()
        if not isinstance(known[number], type(new)):
            raise Malformed("content of another kind")
        changes.append((known[number], decoder.fill(new)))
    return changes


def apply_changes(changes: Sequence[tuple[Any, Any]]) -> None:
    for thing, new in changes:
        if isinstance(new, list):
            list.__setitem__(thing, slice(None), new)
        elif isinstance(new, dict):
            dict.clear(thing)
            dict.update(thing, new)
        else:
            set.clear(thing)
            set.update(thing, new)


_EMPTY: dict[bytes, Any] = {b"l": list, b"d": dict, b"S": set}


def _differs(old: Any, new: Any) -> bool:
    if len(old) != len(new):
        return True
    if isinstance(old, set):
        return bool(old != new)
    if isinstance(old, dict):
        return any(map(is_not, old, new)) or any(map(is_not, old.values(), new.values()))
    return any(map(is_not, old, new))
