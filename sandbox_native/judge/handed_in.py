"""What was handed in, listed and read as something that a stranger wrote: no link is followed, nothing but a file is opened, and
how much is read is bounded. Host process, which may read answers that no submission may have.

`source_at` is called by users, by judging.py, batch.py and the command; the rest by whatever opens a program's files.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, Self

from sandbox_native.errors import PolicyError
from sandbox_native.judge.values import ProgramSource, SourceFile, Submission

MOST_FILES: Final = 4096
MOST_BYTES: Final = 64 << 20
_MOST_LEVELS: Final = 32
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe's open would wait for a writer
_NO_FILES: Final = {  # format of a mode -> what it is
    stat.S_IFLNK: "a symbolic link, which could lead to whatever the judge may read",
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class SourceError(PolicyError):
    """What its author handed in is no program: says something of the submission (CE), and nothing of the problem or of us."""

    @classmethod
    def of(cls, error: PolicyError) -> Self:
        """The same words."""
        made = cls(error.reason, field=error.field, remedy=error.remedy)
        made.value = error.value
        return made


def source_at(path: str | os.PathLike[str]) -> Submission:
    """A source file, or a directory of them, as a submission; the files are read when they are needed.

    PolicyError when it is not there. SourceError when there is no file in it, more than 4,096 files and directories, or anything
    else than those, such as a link: nothing is followed.
    """
    place = Path(path)
    try:
        mode = os.lstat(place).st_mode
    except (OSError, ValueError):  # ValueError: a NUL in the path
        raise PolicyError(
            "no source there", field="submission", value=path, remedy="name a file or a directory of files"
        ) from None
    if not stat.S_ISDIR(mode):
        _check(mode, f"submission {place.parent}", place.name)
        return Submission(name=place.name, files=(SourceFile(name=place.name, content=place.absolute()),))
    names = sorted(_names(place))
    if not names:
        raise SourceError("no source there", field="submission", value=path, remedy="put its files there")
    return Submission(name=place.name, files=tuple(SourceFile(name=name, content=place.absolute() / name) for name in names))


def _names(root: Path) -> Iterator[str]:
    """Of the files in a directory and below it, relative to it."""
    left = [""]
    seen = 0
    while left:
        inside = left.pop()
        if inside.count("/") >= _MOST_LEVELS:
            remedy = f"nest directories at most {_MOST_LEVELS} deep"
            raise SourceError("nested too deep", field=f"submission {root}", value=inside, remedy=remedy)
        for name, mode in _entries(root, inside):
            seen += 1
            if seen > MOST_FILES:
                remedy = f"hand in at most {MOST_FILES} files and directories"
                raise SourceError("too many files", field="submission", value=str(root), remedy=remedy)
            if stat.S_ISDIR(mode):
                left.append(f"{name}/")
            else:
                _check(mode, f"submission {root}", name)
                yield name


def _entries(root: Path, inside: str) -> Iterator[tuple[str, int]]:
    try:
        with os.scandir(root / inside) as listing:
            for entry in listing:
                yield inside + entry.name, entry.stat(follow_symlinks=False).st_mode
    except OSError as error:
        reason = f"cannot be listed: {os.strerror(error.errno or 0)}"
        raise SourceError(reason, field=f"submission {root}", value=inside, remedy="make it readable for the judge") from error


def opened(path: Path, where: str) -> IO[bytes]:
    """A file of a program, to be read. SourceError when it is a link or no file, PolicyError when it cannot be read."""
    try:
        _check(os.lstat(path).st_mode, where, path)  # opening a device may do something already
        descriptor = os.open(path, _OPEN)
    except OSError as error:
        if error.errno == errno.ELOOP:
            _check(stat.S_IFLNK, where, path)
        reason = f"cannot be read: {os.strerror(error.errno or 0)}"
        raise PolicyError(reason, field=where, value=str(path), remedy="name a file that the host can read") from error
    try:
        _check(os.fstat(descriptor).st_mode, where, path)
    except SourceError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def _check(mode: int, field: str, value: str | Path) -> None:
    if not stat.S_ISREG(mode):
        what = _NO_FILES.get(stat.S_IFMT(mode), "a device")
        raise SourceError(f"it is {what}", field=field, value=str(value), remedy="put a file with the source itself there")


def size_of(file: SourceFile, where: str) -> int:
    """In bytes, unread. Errors as of `opened`."""
    if isinstance(file.content, bytes):
        return len(file.content)
    with opened(file.content, where) as content:
        return os.fstat(content.fileno()).st_size


def contents(source: ProgramSource) -> dict[str, bytes]:
    """The files of a program by name. SourceError: none, too many or too large ones, one is named twice, is a link or no file;
    PolicyError: one cannot be read."""
    where = f"program {source.name}"
    if not 0 < len(source.files) <= MOST_FILES:
        raise SourceError("none, or too many", field=f"{where}: files", value=len(source.files), remedy=f"give 1 to {MOST_FILES}")
    found: dict[str, bytes] = {}
    left = MOST_BYTES
    for file in source.files:
        if file.name in found:
            raise SourceError("named twice", field=f"{where}: files", value=file.name, remedy="rename one")
        found[file.name] = data = _content(file, f"{where}: {file.name}", left)
        left -= len(data)
    return found


def _content(file: SourceFile, where: str, left: int) -> bytes:
    data = file.content
    if not isinstance(data, bytes):
        with opened(data, where) as content:
            data = content.read(left + 1)
    if len(data) > left:
        raise SourceError("too large", field=where, value=len(data), remedy=f"all files together may have {MOST_BYTES} bytes")
    return data
