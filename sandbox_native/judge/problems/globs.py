"""The patterns of submissions.yaml: `*` inside of a name, braces, nothing else. Pure.

Used by submission_rules.py for submissions, and by expectations.py for cases. Matching takes no more steps than pattern times
name, and the length of patterns and the number that braces make are bounded: patterns come from packages.

Source: the problem package format's version 2025-09, "Glob patterns".
"""

from __future__ import annotations

from typing import Final

MOST_PATTERNS: Final = 256
_MOST_CHARACTERS: Final = 500


def expanded(pattern: str) -> list[str] | None:
    """The patterns without braces that `pattern` stands for; None when it is too long, or braces do not pair or stand for
    too many."""
    start = pattern.find("{")
    if len(pattern) > _MOST_CHARACTERS:
        return None
    if start < 0:
        return None if "}" in pattern else [pattern]
    level, parts, part = 0, [], start + 1
    for place in range(start, len(pattern)):
        character = pattern[place]
        level += (character == "{") - (character == "}")
        if character == "," and level == 1:
            parts.append(pattern[part:place])
            part = place + 1
        if level == 0:
            parts.append(pattern[part:place])
            return _joined(pattern[:start], parts, pattern[place + 1 :])
    return None


def _joined(before: str, parts: list[str], after: str) -> list[str] | None:
    if "}" in before or len(parts) > MOST_PATTERNS:
        return None
    rest = expanded(after)
    if rest is None:
        return None
    made: list[str] = []
    for part in parts:
        middles = expanded(part)
        if middles is None or len(made) + len(middles) * len(rest) > MOST_PATTERNS:
            return None
        made.extend(before + middle + end for middle in middles for end in rest)
    return made


def matches(pattern: str, path: str) -> bool:
    """Whether `pattern` matches `path` or a directory that it lies in; an empty pattern matches everything.

    A pattern whose braces do not pair matches nothing.
    """
    names = path.split("/")
    for plain in expanded(pattern) or ():
        parts = plain.split("/") if plain else []
        if len(parts) <= len(names) and all(_name_matches(part, name) for part, name in zip(parts, names, strict=False)):
            return True
    return False


def _name_matches(pattern: str, name: str) -> bool:
    place = at = 0
    star, retry = -1, 0
    while at < len(name):
        if place < len(pattern) and pattern[place] == "*":
            star, retry = place, at
            place += 1
        elif place < len(pattern) and pattern[place] == name[at]:
            place, at = place + 1, at + 1
        elif star >= 0:
            retry += 1
            place, at = star + 1, retry
        else:
            return False
    return all(character == "*" for character in pattern[place:])
