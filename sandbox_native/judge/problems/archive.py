"""Packages as archives (`.zip`, `.kpp`): unpacked without trusting them, into a directory of the caller's.

`unpack_package` is called by users and by the command line. What counts is what comes out of the archive, not what it says of
itself: bytes are counted while they are written. Names that lead elsewhere, links that do, encrypted members and names that
stand there twice are refused; links are made last, so that nothing is written through one.
"""

from __future__ import annotations

import lzma
import os
import posixpath
import stat
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import IO, Final

from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.metadata import FILE
from sandbox_native.judge.problems.tree import MOST_ENTRIES, MOST_LEVELS
from sandbox_native.units import format_bytes

ENDINGS: Final = (".zip", ".kpp")
MOST_BYTES: Final = 2 << 30
_MOST_TARGET_BYTES: Final = 1024
_CHUNK: Final = 1 << 16
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def unpack_package(archive: str | os.PathLike[str], into: str | os.PathLike[str], *, most_bytes: int = MOST_BYTES) -> Path:
    """Unpacks a package into a new directory in `into`, and gives the package's own directory for `load_problem`.

    ProblemError when it is no archive, a member is refused, or it holds more than `most_bytes` bytes; then what was unpacked so
    far is still there. The new directory has the archive's name without ending; FileExistsError when there is one.
    """
    file = os.path.basename(os.fspath(archive))
    root = Path(into) / Path(file).stem
    try:
        with zipfile.ZipFile(archive) as opened:
            members = opened.infolist()
            if len(members) > MOST_ENTRIES:
                raise _refused(file, "entries", len(members), f"it has more than {MOST_ENTRIES:,} members", "split the package")
            root.mkdir()
            _unpack(opened, members, root, file, most_bytes)
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, EOFError, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # without one it is bz2's: damaged
            raise
        raise _refused(
            file, "archive", file, f"it is not an archive that can be read: {error}", "pack it again with zip"
        ) from None
    inner = list(root.iterdir())
    if len(inner) == 1 and inner[0].is_dir() and not inner[0].is_symlink() and inner[0].name != FILE:
        return inner[0]
    return root


def _refused(file: str, field: str, value: object, reason: str, remedy: str) -> ProblemError:
    return ProblemError(reason, file=file, field=field, value=value, remedy=remedy)


def _unpack(opened: zipfile.ZipFile, members: list[zipfile.ZipInfo], root: Path, file: str, most_bytes: int) -> None:
    left = most_bytes
    links: dict[str, str] = {}
    for name, member in _by_name(members, file).items():
        path = root / name
        if member.is_dir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with opened.open(member) as packed:
            if _is_link(member):
                links[name] = _target(name, packed, file)
            else:
                left -= _written(packed, path, left, member.external_attr >> 16, file)
    for name, target in links.items():
        (root / name).symlink_to(target)


def _by_name(members: list[zipfile.ZipInfo], file: str) -> dict[str, zipfile.ZipInfo]:
    """The members by path; ProblemError when one has the path of another, or of a directory that another lies in."""
    found: dict[str, zipfile.ZipInfo] = {}
    directories: set[str] = {"."}
    for member in members:
        name = _name(member, file)
        above = [str(parent) for parent in PurePosixPath(name).parents]
        if member.is_dir():
            directories.add(name)
        elif name in found or name in directories:
            raise _refused(file, "member", name, "the name stands there twice", "pack it again without the other")
        directories.update(above)
        found[name] = member
    for name in found.keys() & directories:
        if not found[name].is_dir():
            raise _refused(file, "member", name, "it is a file and a directory", "pack it again without the file")
    return found


def _is_link(member: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(member.external_attr >> 16)


def _name(member: zipfile.ZipInfo, file: str) -> str:
    """The member's path below the package; ProblemError for one that leads elsewhere or cannot be read."""
    name = posixpath.normpath(member.filename)
    parts = name.split("/")
    mode = member.external_attr >> 16
    if name.startswith("/") or ".." in parts or "\\" in name or len(parts) > MOST_LEVELS or max(map(len, parts)) > 255:
        raise _refused(
            file, "member", member.filename, "its name leads out of the archive, or is too long", "give it a plain name"
        )
    if member.flag_bits & 0x1:
        raise _refused(file, "member", member.filename, "it is encrypted", "pack it again without a password")
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise _refused(file, "member", member.filename, "it is a device, a pipe or a socket", "remove it")
    return name


def _target(name: str, packed: IO[bytes], file: str) -> str:
    target = os.fsdecode(packed.read(_MOST_TARGET_BYTES + 1))
    leads = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
    if len(target) > _MOST_TARGET_BYTES or "\0" in target or target.startswith("/") or leads.split("/")[0] == "..":
        raise _refused(
            file, "link", f"{name} -> {target}", "a link must have its target in the package", "put a copy of the file there"
        )
    return target


def _written(packed: IO[bytes], path: Path, left: int, mode: int, file: str) -> int:
    """Copies a member, at most `left` bytes of it; how many it were."""
    total = 0
    with open(os.open(path, _NEW, 0o755 if mode & 0o111 else 0o644), "wb") as unpacked:
        while chunk := packed.read(_CHUNK):
            total += len(chunk)
            if total > left:
                raise _refused(
                    file, "size", path.name, f"it unpacks to more than {format_bytes(left)} that are left", "make it smaller"
                )
            unpacked.write(chunk)
    return total
