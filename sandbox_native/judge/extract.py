"""Finds the program in a model's answer. Pure; for whoever grades such answers.

Fences as CommonMark has them: three or more backticks or tildes at most three spaces in, closed by at least as many of the same
with nothing behind; what is not closed goes to the end of the answer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from sandbox_native.errors import PolicyError

Choice = Literal["last", "first", "longest", "all"]

_OPENS: Final = re.compile(r"( {0,3})(`{3,}|~{3,})[ \t]*([^\r\n]*)")
_NAMES: Final = {
    "python": frozenset({"python", "py", "python3", "py3", "python2", "pycon"}),
    "c": frozenset({"c"}),
    "cpp": frozenset({"cpp", "c++", "cc", "cxx"}),
    "java": frozenset({"java"}),
    "javascript": frozenset({"javascript", "js", "node"}),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Block:
    """A fenced block. `language`: the first word behind its fence, in lower case; `closed` is False where no fence ends it."""

    text: str
    language: str = ""
    closed: bool = True


def blocks(answer: str) -> list[Block]:
    """The fenced blocks of an answer, in order."""
    found: list[Block] = []
    lines = answer.splitlines(keepends=True)
    at = 0
    while at < len(lines):
        opening = _opening(lines[at])
        at += 1
        if opening is None:
            continue
        indent, fence, language = opening
        start = at
        while at < len(lines) and not _closes(lines[at], fence):
            at += 1
        text = "".join(_outdented(line, indent) for line in lines[start:at])
        found.append(Block(text=text, language=language, closed=at < len(lines)))
        at += 1
    return found


def extract_program(answer: str, *, language: str = "python", defines: str | None = None, choose: Choice = "last") -> str:
    """The program in an answer: of its fenced blocks those of the language, where there are such, else those without one, else
    all; of these those that define the function or class `defines`, where there are such; of these the one that `choose` says
    ("all": joined in their order). An empty block counts only where all are. An answer without a fence is the program itself.

    PolicyError for an unknown `choose`.
    """
    if choose not in ("last", "first", "longest", "all"):
        raise PolicyError("no such choice", field="choose", value=choose, remedy="give last, first, longest or all")
    found = blocks(answer)
    if not found:
        return answer
    found = _those(found, (block for block in found if block.text.strip()))
    names = _NAMES.get(language.lower(), frozenset({language.lower()}))
    found = _those(
        found,
        (block for block in found if block.language in names),
        (block for block in found if not block.language),
    )
    if defines is not None:
        defining = re.compile(rf"^(?:async\s+def|def|class)\s+{re.escape(defines)}\b|^{re.escape(defines)}\s*=", re.MULTILINE)
        found = _those(found, (block for block in found if defining.search(block.text)))
    if choose == "all":
        return "\n".join(block.text for block in found)
    if choose == "longest":
        return max(found, key=lambda block: len(block.text)).text
    return found[0 if choose == "first" else -1].text


def _those(found: list[Block], *choices: Iterable[Block]) -> list[Block]:
    """The first of the choices that has any."""
    return next((chosen for chosen in map(list, choices) if chosen), found)


def _opening(line: str) -> tuple[str, str, str] | None:
    match = _OPENS.match(line)
    if match is None:
        return None
    indent, fence, info = match.groups()
    if fence[0] == "`" and "`" in info:  # code within a line
        return None
    words = info.strip().lower().strip("{}").split()
    return indent, fence, words[0].lstrip(".") if words else ""


def _closes(line: str, fence: str) -> bool:
    text = line.strip()
    return len(text) >= len(fence) and set(text) == {fence[0]} and len(line) - len(line.lstrip(" ")) <= 3


def _outdented(line: str, indent: str) -> str:
    return line[len(indent) :] if line.startswith(indent) else line.lstrip(" ")
