"""A check of command lines before they are run, for tools that an agent is given. Linux, host process.

Nothing here confines anything: see the class.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from sandbox_native import hosttree
from sandbox_native.effective import Entry, entries, lookup
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import PolicyError
from sandbox_native.paths import absolute, items
from sandbox_native.policy import Policy

_LONGEST: Final = 1 << 17  # MAX_ARG_STRLEN
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")  # a tab is a blank
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_META: Final = re.compile(r"[;&|<>()$`*?\[\]{}~!#\\]")
_EXPANDED: Final = re.compile(r"[$`\\]")  # within double quotes
_OPTION: Final = re.compile(r"-[^/.-][^/.]*(?=[/.])")  # -I/usr/include, -xf/x, -C..
_JOINED: Final = re.compile(r"[=,:@+%]")  # --file=/x, of=/x, host:/x, @/x
_ADDRESS: Final = re.compile(r"(?!file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)

_ELSEWHERE: Final = "name a path that the policy shows, as a word of its own"


class CommandGuard:
    """Takes the command lines that it is meant to, refuses the others in words, and gives the argv.

    **A courtesy and not the boundary.** It spares an honest agent a run that could not work, and tells it why. It stops nobody
    who means harm: an allowed program may run others (`find -exec`, `git -c`, `tar`, `make`, any interpreter), read a path that
    its arguments do not look like, and follow links. What holds is the box: run the argv in a `Sandbox` with the same policy.

    - The line is read as a POSIX shell reads words and quotes, and no shell runs it. Whatever else a shell does is refused:
      operators, redirections, expansions, globs, comments, backslashes, line ends and control characters. Within quotes they
      are ordinary text, but for what a shell expands in double quotes.
    - The first word must be one of `allowed`, letter by letter: `ls` admits neither `/bin/ls` nor `LS`.
    - Arguments that look like paths, alone or behind `=`, `:`, `,`, `@` or an option's letter, must lead to what the policy
      shows, and hold no `..`; relative ones start at `cwd`. Names of files that do not exist yet pass.

    `PolicyError` names the word and what is wrong with it.
    """

    def __init__(self, allowed: Iterable[str], policy: Policy | None = None, *, cwd: str = WORKSPACE) -> None:
        self.allowed = frozenset(_names(allowed))
        self.policy = Policy.strict() if policy is None else policy
        self.cwd = absolute("cwd", cwd)

    def check(self, line: str) -> list[str]:
        """The line's argv."""
        argv = _words(line)
        if argv[0] not in self.allowed:
            permitted = ", ".join(sorted(self.allowed)) or "nothing"
            raise PolicyError("not an allowed program", field="command", value=argv[0], remedy=f"allowed: {permitted}")
        for at, word in enumerate(argv[1:], 1):
            for path in _paths(word):
                self._check_path(f"command[{at}]", word, path)
        return argv

    def _check_path(self, field: str, word: str, path: str) -> None:
        if ".." in path.split("/"):
            raise PolicyError("holds '..'", field=field, value=word, remedy="give the path that is meant, without '..'")
        place = os.path.normpath(f"{self.cwd}/{path}" if not path.startswith("/") else f"/{path.lstrip('/')}")
        entry = lookup(self._tree, place)
        if entry is None:
            raise PolicyError(f"{place} is not in the view", field=field, value=word, remedy=_ELSEWHERE)
        if entry.access == "hidden":
            raise PolicyError(f"{place} is hidden", field=field, value=word, remedy="leave it out")

    @functools.cached_property
    def _tree(self) -> Mapping[str, Entry]:
        tree = entries(self.policy, hosttree.read_tree(self.policy), os.geteuid() == 0)
        return {entry.path: entry for entry in tree}


def _names(allowed: Iterable[str]) -> Iterator[str]:
    for at, name in enumerate(items("allowed", allowed)):
        if not isinstance(name, str) or not name:
            raise PolicyError("not a name", field=f"allowed[{at}]", value=name, remedy="give the first words of commands")
        yield name


def _words(line: object) -> list[str]:
    """As `sh` splits it; nothing that `sh` would do more than that gets through."""
    if not isinstance(line, str) or not line.strip(" \t"):
        raise PolicyError("not a command line", field="command", value=line, remedy="name a program and its arguments")
    if len(line) > _LONGEST:
        raise PolicyError(f"{len(line)} characters long", field="command", value=line, remedy="pass the data by stdin= or files=")
    found = _CONTROL.search(line)
    if found is not None:
        raise PolicyError("holds a line's end or control character", field="command", value=line, remedy="give one command")
    doubled = (quoted[0] for quoted in _QUOTED.finditer(line) if quoted[0].startswith('"'))
    found = _META.search(_QUOTED.sub("''", line)) or next(filter(None, map(_EXPANDED.search, doubled)), None)
    if found is not None:
        words = "no shell runs it: give one command with text in '…', or give argv as a list"
        raise PolicyError(f"{found[0]!r} means something to a shell", field="command", value=line, remedy=words)
    try:
        argv = shlex.split(line)
    except ValueError as error:
        raise PolicyError(str(error).lower(), field="command", value=line, remedy="close the quotes") from None
    if not argv or not argv[0]:
        raise PolicyError("names no program", field="command", value=line, remedy="name a program and its arguments")
    return argv


def _paths(word: str) -> Iterator[str]:
    """What of an argument may be meant as a path."""
    for part in (word, *(() if _ADDRESS.match(word) else _JOINED.split(word)[1:])):
        part = _OPTION.sub("", part, count=1) if part.startswith("-") else part
        if part and not part.startswith("-"):
            yield part
