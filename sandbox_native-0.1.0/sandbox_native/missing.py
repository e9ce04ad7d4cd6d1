"""Why a program cannot be started: what ENOENT, ENOEXEC and EACCES mean for it in a box. Host process.

Called by executables.py with what it found before a run, and by backends/box.py with what the kernel answered. The host's files
are asked through the box's view: a path is in the box only where the policy shows it and what it leads to.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sandbox_native import headers
from sandbox_native.environment import WORKSPACE, candidates
from sandbox_native.errors import ExecError, SetupError
from sandbox_native.inside import Inside, Place, Spot, first_bytes
from sandbox_native.policy import Policy

_NOT_FOUND: Final = "no such program in the box: give an absolute path that the policy shows (Policy.readable adds some)"
_BAD_INTERPRETER: Final = (
    "it exists, but its interpreter does not: the `#!` line (is there a carriage return at its end?) or the ELF loader "
    "names a file that is not in the box"
)
_RETURN: Final = (
    "its `#!` line ends with a carriage return, as files from Windows have it, so that the kernel looks for an interpreter "
    "of that name: remove them (sed -i 's/\\r$//' FILE)"
)
_BOM: Final = "it begins with a byte order mark, and its `#!` line is not seen: save it without one"
_EMPTY: Final = "it is empty"
_PYTHON: Final = re.compile(r"python(\d+(\.\d+)?)?")


@dataclass(frozen=True, kw_only=True)
class View:
    """What one run's box has before its program starts."""

    policy: Policy
    path: str
    """The guest's PATH."""
    cwd: str = ""
    workspace: str | None = None
    """The host directory that is shown as /workspace."""
    placed: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def inside(self) -> Inside:
        return Inside(self.policy).of_run(self.workspace and os.path.realpath(self.workspace), self.placed)


def explain(error: SetupError, program: str, view: View) -> SetupError:
    """The error with what is known of the program; itself where nothing more is."""
    if error.stage != "exec" or error.errno not in (errno.ENOENT, errno.ENOEXEC, errno.EACCES):
        return error
    inside, cwd = view.inside, view.cwd or WORKSPACE
    spots = [inside.look(path, cwd) for path in candidates(program, view.path)]
    found = next((spot for spot in spots if _is_file(spot)), None)
    if found is not None:
        item = program if "/" in program else found.path
        if error.errno == errno.ENOENT:
            return _without_interpreter(item, found, inside, cwd)
        known = _unreadable(first_bytes(found))
        return ExecError("exec", error.errno, item, known) if known else error
    if error.errno != errno.ENOENT:
        return error
    if any(spot.place is Place.BOX for spot in spots):
        return ExecError("exec", errno.ENOENT, program, error.hint)
    return no_program(program, None, inside, view.path)


def no_program(program: str, writable: Spot | None, inside: Inside, path: str) -> ExecError:
    """`writable`: of a name what PATH leads to, if only where the guest can write."""
    if writable is not None:
        words = f"{program!r} is in the box's PATH only as {writable.path}, where the guest can write: name it by its path"
    elif "/" not in program:
        words = f"{program!r} is not in the box's PATH ({path})"
    elif os.path.isabs(program) and os.path.exists(program):
        words = _not_shown(program, inside)
    else:
        words = _NOT_FOUND
    return ExecError("exec", errno.ENOENT, program, words)


def no_interpreter(item: str, name: str, inside: Inside) -> ExecError:
    """`name`: what a `#!` line or an ELF header asks for, and the box does not have."""
    if name.endswith("\r"):
        return ExecError("exec", errno.ENOENT, item, _RETURN)
    words = f"it exists, but its interpreter {name!r} is not in the box"
    if os.path.isabs(name) and os.path.exists(name):
        words += f": {_not_shown(name, inside)}"
    return ExecError("exec", errno.ENOENT, item, words)


def _unreadable(data: bytes) -> str:
    """Why the kernel takes a file that begins so for no program; empty where it is not plain to see."""
    elf = headers.read_elf(data)
    if elf is not None:
        return elf.refusal(os.uname().machine) or ""
    if data.startswith(b"\xef\xbb\xbf#!"):
        return _BOM
    return "" if data else _EMPTY


def _without_interpreter(item: str, spot: Spot, inside: Inside, cwd: str) -> ExecError:
    data = first_bytes(spot)
    script, elf = headers.read_script(data), headers.read_elf(data)
    name = script.interpreter if script is not None else elf.loader(data) if elf is not None else b""
    if name and inside.look(os.fsdecode(name), cwd).is_nothing:
        return no_interpreter(item, os.fsdecode(name), inside)
    return ExecError("exec", errno.ENOENT, item, _BAD_INTERPRETER)


def _is_file(spot: Spot) -> bool:
    return spot.data is not None or (spot.status is not None and stat.S_ISREG(spot.status.st_mode))


def _not_shown(path: str, inside: Inside) -> str:
    """Of a program of the host, such as a virtual environment's interpreter: what would bring it in."""
    missing = [one for one in dict.fromkeys((path, os.path.realpath(path))) if inside.look(one).is_nothing]
    wanted = list(dict.fromkeys(map(_home, missing)))
    words = (
        "it is on the host, but the box does not show it, or not what it leads to: "
        f"add it to Policy.readable (--readable), such as readable={wanted!r}"
    )
    if _PYTHON.fullmatch(os.path.basename(path)):
        words += f", or take Policy.strict(python={path!r})"
    return words


def _home(path: str) -> str:
    """Where an installation begins: /x/venv of /x/venv/bin/python. Never a user's whole home: then the program itself."""
    above, name = os.path.split(os.path.dirname(path))
    user = os.path.expanduser("~")
    return above if name == "bin" and above not in ("/", user, os.path.join(user, ".local")) else path
