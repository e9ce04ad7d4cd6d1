"""The journal of a commit: written among what is remembered of the directory (state.py), and renamed into its place when it is
whole. Host process.

From that rename on the commit has happened: whoever finds the journal takes the steps that are left. Before it nothing has.
The file holds a line of JSON for each step, and a last one that says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Final

from sandbox_native import state
from sandbox_native.commit.place import Place, Staging
from sandbox_native.commit.steps import Step, from_json, in_order, to_json
from sandbox_native.snapshots import is_name

NAME: Final = "journal"
_UNFINISHED: Final = "unfinished"
_VERSION: Final = 2
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAKE: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


def write(place: Place, staging: Staging, steps: Iterable[Step]) -> None:
    """On return the commit has happened, and a loss of power does not undo it."""
    kept, unfinished = place.kept.fd, place.kept.file(_UNFINISHED)
    with place.kept.naming(NAME):
        fd = os.open(unfinished, _MAKE, 0o600, dir_fd=kept)
        with open(fd, "w", encoding="ascii") as file:
            _line(file, [_VERSION, state.identity(place.root), staging.name, state.identity(staging.fd)])
            for step in steps:
                _line(file, to_json(step))
            _line(file, "end")
            file.flush()
            os.fsync(fd)
        os.rename(unfinished, place.kept.file(NAME), src_dir_fd=kept, dst_dir_fd=kept)
        os.fsync(kept)


def _line(file: Any, value: Any) -> None:
    file.write(json.dumps(value) + "\n")


def read(place: Place) -> tuple[str, list[int], list[Step]] | None:
    """The name and identity of what is staged, and the steps; None where there is no journal, or one of a directory that is gone,
    or with anything in it but what `write` writes."""
    with place.kept.naming(NAME):
        try:
            fd = os.open(place.kept.file(NAME), _READ, dir_fd=place.kept.fd)
        except FileNotFoundError:
            return None
    with open(fd, encoding="ascii") as file:
        try:
            lines = [json.loads(line) for line in file]
            version, root, name, staged = lines[0]
            if version != _VERSION or root != state.identity(place.root) or lines[-1] != "end":
                return None
            steps = [from_json(line) for line in lines[1:-1]]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None
    return (name, staged, steps) if is_name(name) and in_order(steps) else None


def remove_left(place: Place) -> None:
    """Of a commit that never happened, or of a directory that is gone."""
    for name in (NAME, _UNFINISHED):
        place.kept.forget(name)


def remove(place: Place) -> None:
    """The commit is over: nothing is left to do. On disk before what was moved aside goes: a step that is taken again looks for
    it."""
    place.kept.forget(NAME)
    with place.kept.naming(NAME):
        os.fsync(place.kept.fd)
