"""Names that another system takes for a protected one. Called by refusals.py; pure, on a tree of changes.

The host's directory may be shared with a machine (or be on a file system) that does not tell upper from lower case, drops dots
and spaces at the end of a name, knows short names, or ignores some characters of Unicode: there `.GIT/Hooks` is `.git/hooks`, and
to Windows `.git\\hooks` and `.git::$INDEX_ALLOCATION` lead there as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sandbox_native.commit.node import Node

# What HFS+ leaves out when it compares names.
_IGNORED: Final = dict.fromkeys((*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF))
_SHORT: Final = {"git~1": ".git", "gitmod~1": ".gitmodules"}
_GIT: Final = ".git"

_PARTS: Final = re.compile(r"[\\:]")

Trie = dict[str, "Trie"]


def refuse_lookalikes(tree: Node, names: Iterable[str]) -> None:
    """New names that only look like a component of one of `names`, at the top; those of git anywhere."""
    top = of_paths(names)
    anywhere = {_GIT: top[_GIT]} if _GIT in top else {}
    waiting = [(tree, [top])]
    while waiting:
        node, tries = waiting.pop()
        for child in node.children.values():
            name = plain(child.name)
            matching = [trie[name] for trie in (*tries, anywhere) if name in trie]
            if child.before is not None:
                like = ""
            elif matching:
                like = name if child.name != name else ""
            else:
                like = _part_of(child.name, (*tries, top))
            if like:
                child.refuse(f"some systems take it for {like}")
            elif child.children:
                waiting.append((child, matching))


def _part_of(name: str, tries: Iterable[Trie]) -> str:
    """To Windows a backslash parts directories, and what follows a colon is a stream of the file before it."""
    parts = [plain(part) for part in _PARTS.split(name)]
    if len(parts) == 1:
        return ""
    return next((part for part in parts if any(part in trie for trie in tries)), "")


def plain(name: str) -> str:
    """The name that such a system knows it by."""
    folded = name.translate(_IGNORED).rstrip(". ").casefold()
    return _SHORT.get(folded, folded)


def of_paths(names: Iterable[str]) -> Trie:
    top: Trie = {}
    for name in names:
        at = top
        for part in name.split("/"):
            at = at.setdefault(plain(part), {})
    return top
