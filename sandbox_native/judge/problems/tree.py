"""A package's directory, read as something that a stranger wrote: what is in it, and nothing outside of it.

Used by the other modules of problems/, in the host process. Symbolic links are followed inside the package and refused when
they lead out of it; what is handed out is the path without links, so that whoever opens it later opens that file. Devices,
pipes and sockets are refused. The number of entries, their depth and the size of what is read into memory are bounded.

Names in a package follow the format's rule; what begins with a dot or a dash, or has other characters, is ignored. Names in a
plain folder are anything that can be shown and does not begin with a dot. `Tree.notes` says what was ignored.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.units import format_bytes

MOST_ENTRIES: Final = 100_000
MOST_LEVELS: Final = 16
MOST_TEXT_BYTES: Final = 1 << 20
_NAME: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,254}\Z")
_MOST_NOTES: Final = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or directory. `path` has no link in it; `inside` is its name relative to the package, as it was found."""

    inside: str
    path: Path
    directory: bool
    size: int = 0
    executable: bool = False

    @property
    def name(self) -> str:
        """The last part of `inside`."""
        return self.inside.rpartition("/")[2]


@dataclass(slots=True)
class Tree:
    """The package at `root`, which has no link in it (`open_tree`). Not thread-safe: it counts what it has seen.

    `ignored`: what was left out for its name, so far as it was come by.
    """

    root: Path
    plain: bool = False
    ignored: list[str] = field(default_factory=list)
    _seen: int = 0
    _listed: dict[str, list[Entry]] = field(default_factory=dict)

    def entry(self, inside: str) -> Entry | None:
        """The entry of that name, or None when there is none. ProblemError when it is not a file or directory in the package."""
        path = self.root / inside
        try:
            real = Path(os.path.realpath(path, strict=True))
            status = os.stat(real, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            if path.is_symlink():
                raise self._bad_link(inside, "its target does not exist") from None
            return None
        except OSError as error:
            raise self._bad_link(inside, error.strerror or str(error)) from None
        if not real.is_relative_to(self.root):
            raise self._bad_link(inside, "it leads out of the package")
        return self._made(inside, real, status)

    def _made(self, inside: str, real: Path, status: os.stat_result) -> Entry:
        if stat.S_ISDIR(status.st_mode):
            return Entry(inside, real, True)
        if not stat.S_ISREG(status.st_mode):
            raise ProblemError(
                "a package has only files and directories, and this is a device, a pipe or a socket",
                file=inside,
                field="mode",
                value=stat.filemode(status.st_mode),
                remedy="remove it",
            )
        return Entry(inside, real, False, status.st_size, bool(status.st_mode & 0o111))

    def _bad_link(self, inside: str, reason: str) -> ProblemError:
        path = self.root / inside
        target = os.readlink(path) if path.is_symlink() else inside
        return ProblemError(
            f"a link in a package must have its target in the package: {reason}",
            file=inside,
            field="link",
            value=target,
            remedy="put a copy of the file there",
        )

    def children(self, inside: str) -> list[Entry]:
        """What is in a directory, ordered by name; empty when there is no such directory. Each is listed once."""
        listed = self._listed.get(inside)
        if listed is None:
            listed = self._listed[inside] = self._list(inside)
        return listed

    def _list(self, inside: str) -> list[Entry]:
        directory = self.entry(inside) if inside else Entry("", self.root, True)
        if directory is None or not directory.directory:
            return []
        if inside.count("/") >= MOST_LEVELS:
            raise ProblemError(
                f"directories are nested more than {MOST_LEVELS} deep (a link to a directory above counts again)",
                file=inside,
                field="levels",
                value=inside.count("/") + 1,
                remedy="put them side by side",
            )
        found: list[Entry] = []
        with os.scandir(directory.path) as listing:
            listed = sorted((entry for entry in listing if self._counted()), key=lambda entry: entry.name)
        for item in listed:
            where = f"{inside}/{item.name}" if inside else item.name
            if not self._is_named_well(item.name):
                self.ignored.append(_printable(where))
                continue
            if item.is_symlink():
                entry = self.entry(where)
                if entry is not None:
                    found.append(entry)
            else:
                found.append(self._made(where, directory.path / item.name, item.stat(follow_symlinks=False)))
        return found

    def _counted(self) -> bool:
        self._seen += 1
        if self._seen > MOST_ENTRIES:
            raise ProblemError(
                f"it has more than {MOST_ENTRIES:,} files and directories (links that go round in circles count again)",
                file=self.root.name,
                field="entries",
                value=self._seen,
                remedy="split the package",
            )
        return True

    def _is_named_well(self, name: str) -> bool:
        if self.plain:
            return name.isprintable() and not name.startswith(".")
        return _NAME.match(name) is not None

    @property
    def notes(self) -> tuple[str, ...]:
        """A line for each that was ignored for its name; of many the first ones, and how many more there are."""
        why = "its name begins with a dot or cannot be shown" if self.plain else "its name is not one that the format knows"
        lines = [f"{name}: {why}: ignored" for name in sorted(self.ignored)]
        more = len(lines) - _MOST_NOTES
        return (*lines[:_MOST_NOTES], *((f"{more} more names are ignored",) if more > 0 else ()))

    def files(self, inside: str) -> Iterator[Entry]:
        """All files in a directory and below it, ordered by name."""
        for entry in self.children(inside):
            if entry.directory:
                yield from self.files(entry.inside)
            else:
                yield entry

    def content(self, entry: Entry, most: int = MOST_TEXT_BYTES) -> bytes:
        """A file's bytes; ProblemError when it is larger than `most` bytes or was exchanged for something else."""
        try:
            descriptor = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise self._unread(entry, error.strerror or str(error)) from None
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise self._unread(entry, "it is not a file")
        with open(descriptor, "rb") as file:
            data = file.read(most + 1)
        if len(data) > most:
            raise ProblemError(
                f"it is larger than {format_bytes(most)}",
                file=entry.inside,
                field="size",
                value=entry.size,
                remedy="make it smaller",
            )
        return data

    @staticmethod
    def _unread(entry: Entry, reason: str) -> ProblemError:
        return ProblemError(
            f"it cannot be read: {reason}",
            file=entry.inside,
            field="path",
            value=str(entry.path),
            remedy="check its owner and mode, and read the package again",
        )

    def text(self, entry: Entry, most: int = MOST_TEXT_BYTES) -> str:
        """A file's text. ProblemError also when it is not UTF-8; a byte-order mark and `\\r\\n` are taken for what they mean."""
        try:
            text = self.content(entry, most).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ProblemError(
                f"it is not UTF-8: byte {error.object[error.start]:#04x} at {error.start}",
                file=entry.inside,
                field="bytes",
                value=error.object[error.start : error.start + 16],
                remedy="save it as UTF-8",
            ) from None
        return text.replace("\r\n", "\n")


def _printable(name: str) -> str:
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def open_tree(root: str | os.PathLike[str], *, plain: bool = False) -> Tree:
    """The package (or `plain` folder) in that directory. ProblemError when there is none."""
    try:
        real = Path(os.path.realpath(root, strict=True))
    except OSError as error:
        raise ProblemError(
            f"there is no such directory: {error.strerror}", field="package", value=str(root), remedy="check the path"
        ) from None
    if not real.is_dir():
        raise ProblemError("it is not a directory", field="package", value=str(root), remedy="name the package's directory")
    return Tree(real, plain)
