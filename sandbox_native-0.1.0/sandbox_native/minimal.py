"""Policies made of a program's closure: what `Policy.minimal_for` and `Policy.strict(python=…)` add to the caller's fields."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from sandbox_native import paths
from sandbox_native.closure import Closure, closure, located
from sandbox_native.environment import BASE
from sandbox_native.errors import PolicyError
from sandbox_native.installation import is_python
from sandbox_native.rules import OWN, SYSTEM

if TYPE_CHECKING:
    from sandbox_native.policy import PolicyFields

_SHOWN: Final = (*SYSTEM, "/etc")  # of what links into /etc lead to, the system's view has its own
_STANDARD: Final = tuple(BASE["PATH"].split(":"))


def minimal_fields(program: str | os.PathLike[str], extra: Iterable[str | os.PathLike[str]], given: PolicyFields) -> PolicyFields:
    """The fields of a policy whose root holds the program's closure and what the caller gives besides."""
    if given.get("system"):
        raise PolicyError("minimal_for leaves the system out", field="Policy.system", value=True, remedy="take Policy.strict")
    found = closure(program, extra=extra)
    return {**_with(found, given, ()), "system": False}


def python_fields(python: str | os.PathLike[str], given: PolicyFields) -> PolicyFields:
    """The fields with what a Python interpreter needs beside the system's directories."""
    path = located("python", python)
    if not is_python(os.path.realpath(path)) or not _is_elf(path):
        remedy = "give the interpreter itself, such as sys.executable, and not a script that starts one"
        raise PolicyError("not a Python interpreter", field="python", value=python, remedy=remedy)
    return _with(closure(path), given, _SHOWN)


def _is_elf(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _with(found: Closure, given: PolicyFields, system: tuple[str, ...]) -> PolicyFields:
    """The closure's paths before the caller's own, but for what the system's directories show."""
    readable = paths.pairs("Policy.readable", given.get("readable", ()))
    writable = paths.pairs("Policy.writable", given.get("writable", ()))
    links = list(given.get("symlinks", ()))
    taken = {inside for _, inside in (*readable, *writable)} | {os.fspath(inside) for inside, _ in links}

    def is_new(path: str) -> bool:
        return path not in taken and not any(paths.contains(shown, path) for shown in system)

    shown = [path for path in (*found.directories, *found.files) if is_new(path)]
    return {
        **given,
        "readable": (*shown, *readable),
        "symlinks": (*((path, text) for path, text in found.links if is_new(path)), *links),
        "path": _path(found, shown, paths.items("Policy.path", given.get("path", ()))),
    }


def _path(found: Closure, shown: list[str], given: list[object]) -> tuple[Any, ...]:
    """The program's directory first in PATH, unless it is there anyway or the guest could write it."""
    directory = os.path.dirname(found.program)
    private = any(paths.contains(own, directory) for own in OWN)
    if directory in (*_STANDARD, *given) or (private and not any(paths.contains(root, directory) for root in shown)):
        return tuple(given)
    return (directory, *given)
