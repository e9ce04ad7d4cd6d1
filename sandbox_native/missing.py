"""Why a program was not found: what the kernel's ENOENT means for it in this box. Host process.

Called by backends/box.py when a program could not be started. The host's files are asked through the policy's view: a path
is in the box only where the policy shows it and what it leads to.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import ExecError, SetupError
from sandbox_native.executables import candidates
from sandbox_native.paths import contains
from sandbox_native.policy import Policy
from sandbox_native.view import SYSTEM

_BUILT: Final = ("/etc", "/dev", "/proc", "/.empty")  # what is there is not what the host has

_NOT_FOUND: Final = "no such program in the box: give an absolute path that the policy shows (Policy.readable adds some)"
_BAD_INTERPRETER: Final = (
    "it exists, but its interpreter does not: the `#!` line (is there a carriage return at its end?) or the ELF loader "
    "names a file that is not in the box"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What one run's box has before its program starts."""

    policy: Policy
    path: str
    """The guest's PATH."""
    cwd: str = ""
    workspace: str | None = None
    """The host directory that is shown as /workspace."""
    placed: Mapping[str, bytes]

    def tried(self, program: str) -> list[str]:
        """Absolute paths, in their order."""
        return [os.path.normpath(os.path.join(self.cwd or WORKSPACE, path)) for path in candidates(program, self.path)]

    def holds(self, path: str) -> bool | None:
        """Whether a file is there; None where neither the host's files nor those that were placed say."""
        known = self._source(path)
        if known is None or isinstance(known, bool):
            return known
        if not os.path.exists(known):
            # A link may lead to something that only the box has.
            return None if os.path.islink(known) else False
        real = os.path.realpath(known)
        return real == known or self._shows(real)

    def _source(self, path: str) -> str | bool | None:
        """The host's path behind one of the box, or what is known without."""
        pairs = [(inside, host) for host, inside in (*self.policy.readable, *self.policy.writable) if contains(inside, path)]
        if pairs:
            inside, host = max(pairs, key=lambda pair: len(pair[0]))
            return host + path[len(inside) :]
        if contains(WORKSPACE, path):
            if self.workspace is not None:
                return self.workspace + path[len(WORKSPACE) :]
            return path[len(WORKSPACE) + 1 :] in self.placed
        if any(contains(system, path) for system in SYSTEM):
            return path
        if any(contains(built, path) for built in _BUILT):
            return None
        return False

    def _shows(self, real: str) -> bool:
        """Whether what a link of the host leads to is in view, wherever that is."""
        hosts = [host for host, _ in (*self.policy.readable, *self.policy.writable)]
        if self.workspace is not None:
            hosts.append(os.path.realpath(self.workspace))
        return any(contains(shown, real) for shown in (*SYSTEM, "/etc", *map(os.path.realpath, hosts)))


def explain(error: SetupError, program: str, view: View) -> SetupError:
    """The error with what is known of the program; itself where it is not about one that is missing."""
    if error.stage != "exec" or error.errno != errno.ENOENT:
        return error
    tried = view.tried(program)
    there = {path: view.holds(path) for path in tried}
    found = next((path for path in tried if there[path]), None)
    if found is not None:
        return ExecError("exec", errno.ENOENT, program if "/" in program else found, _BAD_INTERPRETER)
    if any(known is None for known in there.values()):
        return ExecError("exec", errno.ENOENT, program, error.hint)
    if "/" not in program:
        return ExecError("exec", errno.ENOENT, program, f"{program!r} is not in the box's PATH ({view.path})")
    if os.path.isabs(program) and os.path.exists(program):
        return ExecError("exec", errno.ENOENT, program, _not_shown(tried[0], view))
    return ExecError("exec", errno.ENOENT, program, _NOT_FOUND)


def _not_shown(path: str, view: View) -> str:
    """A program of the host, such as a virtual environment's interpreter, and what would bring it in."""
    wanted = [_home(one) for one in dict.fromkeys((path, os.path.realpath(path))) if not view.holds(one)]
    return (
        "it is on the host, but the box does not show it, or not what it leads to: "
        f"add it to Policy.readable (--readable), such as readable={list(dict.fromkeys(wanted))!r}"
    )


def _home(path: str) -> str:
    """Where an installation begins: /x/venv of /x/venv/bin/python. Never a user's whole home: then the program itself."""
    above, name = os.path.split(os.path.dirname(path))
    user = os.path.expanduser("~")
    return above if name == "bin" and above not in ("/", user, os.path.join(user, ".local")) else path
