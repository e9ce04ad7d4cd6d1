r"""How paths are spelled, by POSIX and by Windows: one normal spelling for each place, or a refusal. Pure, on every system.

`POSIX` and `WINDOWS` have the same methods. Nothing here looks at a disk, so links, mount points and shares that export a
local directory stay the kernel's to see; but what a string can tell is told. A spelling whose meaning depends on something else
is refused and never guessed: `..` (through a link it leads elsewhere than it says) and, by Windows, what is relative to a
drive's current directory (`C:x`), drops characters (`x.`), is a device (`NUL.txt`), a stream (`x::$DATA`) or a short name
(`PROGRA~1`). Rules of Windows: Microsoft, "Naming Files, Paths, and Namespaces" and "File path formats on Windows systems".
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from typing import Final

from sandbox_native.errors import PolicyError

_MADE_AS_NEEDED: Final = "give the file's own name: directories are made as needed"


class Spelling(ABC):
    """The rules of one system. Paths that `contains` takes are those that `absolute` gave."""

    separator: str
    _longest: int  # of a path and of a name, in `_unit`
    _longest_name: int
    _unit: str

    def absolute(self, field: str, value: object) -> str:
        """The normal spelling of an absolute path: no repeated separator, no `.`, none at the end but a root's own.

        `PolicyError`, with `field`, for everything else.
        """
        text = self._text(field, value)
        root, names = self._split(field, text)
        return root + self.separator.join(names)

    def relative(self, field: str, value: object, remedy: str = _MADE_AS_NEEDED) -> str:
        """The normal spelling of a file's name beneath a directory; `PolicyError` for one that leads out or names a directory.

        `remedy`: for one that names a directory.
        """
        text = self._text(field, value)
        plain = self._plain(text)
        if self._leads_away(plain):
            example = self.separator.join(("in", "a.txt"))
            raise PolicyError(
                "an absolute name", field=field, value=text, remedy=f"give a name relative to the workspace, such as {example!r}"
            )
        names = self._names(field, text, plain.split(self.separator))
        if not names or plain.endswith((self.separator, self.separator + ".")):
            raise PolicyError("names a directory", field=field, value=text, remedy=remedy)
        return self.separator.join(names)

    def join(self, field: str, base: str, name: object) -> str:
        """The file `name` beneath the absolute directory `base`, and never anything else."""
        above = self.absolute(field, base)
        beneath = self.relative(field, name)
        return self.absolute(field, above.removesuffix(self.separator) + self.separator + beneath)

    def contains(self, outer: str, inner: str) -> bool:
        """Whether `inner` is `outer` or lies beneath it, component by component: `/data/1` does not contain `/data/10`."""
        outer, inner = self.folded(outer), self.folded(inner)
        return inner == outer or inner.startswith(outer if outer.endswith(self.separator) else outer + self.separator)

    def folded(self, path: str) -> str:
        """Equal for normal spellings of one place."""
        return path

    def _text(self, field: str, value: object) -> str:
        path = os.fspath(value) if isinstance(value, os.PathLike) else value
        if not isinstance(path, str):
            raise PolicyError(
                "not a path", field=field, value=value, remedy="give a str or a pathlib.Path (os.fsdecode for bytes)"
            )
        if not path:
            raise PolicyError("empty", field=field, value=path, remedy="name a path")
        if "\0" in path:
            raise PolicyError("holds a NUL byte", field=field, value=path, remedy="no path can: leave it out")
        size = self._size(field, path)
        if size > self._longest:
            raise PolicyError(
                f"{size} {self._unit} long",
                field=field,
                value=path,
                remedy=f"a path has at most {self._longest} {self._unit}",
            )
        return path

    def _names(self, field: str, path: str, parts: list[str]) -> list[str]:
        """The components, without those that mean nothing."""
        names = [part for part in parts if part not in ("", ".")]
        for name in names:
            if name == "..":
                raise PolicyError("holds '..'", field=field, value=path, remedy="give the path that is meant, without '..'")
            if self._size(field, name) > self._longest_name:
                raise PolicyError(
                    f"a name in it has more than {self._longest_name} {self._unit}", field=field, value=path, remedy="shorten it"
                )
            self._check_name(field, path, name)
        return names

    def _check_name(self, field: str, path: str, name: str) -> None:
        reason, remedy = self._fault(name)
        if reason:
            raise PolicyError(reason, field=field, value=path, remedy=remedy)

    @abstractmethod
    def _size(self, field: str, text: str) -> int: ...

    @abstractmethod
    def _split(self, field: str, text: str) -> tuple[str, list[str]]:
        """Root, with its separator, and names of an absolute path."""

    def _plain(self, text: str) -> str:
        """With one kind of separator."""
        return text

    def _leads_away(self, plain: str) -> bool:
        return plain.startswith(self.separator)

    def _fault(self, name: str) -> tuple[str, str]:
        """Why a component is refused, and the remedy; empty for an ordinary name."""
        return "", ""


class _Posix(Spelling):
    separator = "/"
    _longest = 4095  # PATH_MAX without the NUL
    _longest_name = 255  # NAME_MAX
    _unit = "bytes"

    def _size(self, field: str, text: str) -> int:
        try:
            return len(text.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            raise PolicyError(
                "cannot be encoded as UTF-8", field=field, value=text, remedy="give a name that os.fsencode accepts"
            ) from None

    def _split(self, field: str, text: str) -> tuple[str, list[str]]:
        if not text.startswith("/"):
            raise PolicyError(
                "not an absolute path",
                field=field,
                value=text,
                remedy="give os.path.abspath(path)" if text[:1] != "~" else "give os.path.expanduser(path)",
            )
        return "/", self._names(field, text, text.split("/"))


_A_DRIVE: Final = r"name the drive's letter: 'C:\path'"
_VERBATIM: Final = "\\\\?\\"  # what follows goes to the file system as it is
_DEVICES: Final = ("\\\\.\\", "\\\\?\\", "\\??\\")
_DRIVE: Final = re.compile(r"[A-Za-z]:", re.ASCII)
_SERVER: Final = re.compile(r"(?!.*\.\.)[\w-]([\w.-]*[\w-])?", re.ASCII)
_NUMBER: Final = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)", re.ASCII | re.IGNORECASE)  # resolved as an address
_ADDRESS: Final = re.compile(r"((?!0[0-9])[0-9]{1,3}\.){3}(?!0[0-9])[0-9]{1,3}", re.ASCII)
_LOOPBACK: Final = re.compile(r"localhost|.*\.localhost|localhost\..*|127\..*|0\..*|.*\.ipv6-literal\.net", re.IGNORECASE)
# A drive's own share, the system's directory, pipes: other names of what a drive letter names, or no files.
_ADMINISTRATIVE: Final = re.compile(r"([A-Za-z]|admin|ipc|print)\$", re.ASCII | re.IGNORECASE)
_FORBIDDEN: Final = re.compile(r'[<>"|?*\x01-\x1f]')
_DEVICE_NAME: Final = re.compile(r"(con|prn|aux|nul|conin\$|conout\$|clock\$|(com|lpt)[0-9¹²³]) *([.:].*)?", re.IGNORECASE)
_SHORT_NAME: Final = re.compile(r"(?=[^.]{1,8}(\.|$))[^.]+~[0-9]+(\.[^.]{0,3})?", re.ASCII)


class _Windows(Spelling):
    separator = "\\"
    _longest = 32759  # UNICODE_STRING holds 32767 with \??\UNC before it
    _longest_name = 255
    _unit = "UTF-16 units"

    def folded(self, path: str) -> str:
        return path.upper() if path.isascii() else "".join(map(_upper, path))

    def _size(self, field: str, text: str) -> int:
        return len(text) if text.isascii() else len(text) + sum(character > "\uffff" for character in text)

    def _plain(self, text: str) -> str:
        return text.replace("/", "\\")

    def _leads_away(self, plain: str) -> bool:
        return plain.startswith("\\") or _DRIVE.match(plain) is not None

    def _split(self, field: str, text: str) -> tuple[str, list[str]]:
        if text.startswith(_VERBATIM):
            return self._verbatim(field, text)
        plain = self._plain(text)
        if plain.startswith(_DEVICES):
            raise PolicyError("in the name space of devices", field=field, value=text, remedy=_A_DRIVE)
        if plain.startswith("\\\\"):
            return self._share(field, text, plain[2:])
        if plain.startswith("\\"):
            raise PolicyError("relative to the current drive", field=field, value=text, remedy=f"name the drive: 'C:{plain}'")
        if _DRIVE.match(plain) is None:
            raise PolicyError("not an absolute path", field=field, value=text, remedy=_A_DRIVE)
        if plain[2:3] != "\\":
            remedy = f"write a backslash behind the drive: '{plain[:2]}\\{plain[2:]}'"
            raise PolicyError("relative to its drive's current directory", field=field, value=text, remedy=remedy)
        return plain[0].upper() + ":\\", self._names(field, text, plain[3:].split("\\"))

    def _verbatim(self, field: str, text: str) -> tuple[str, list[str]]:
        r"""`\\?\`: nothing is dropped or replaced, so what an ordinary path could not spell is refused."""
        rest = text.removeprefix(_VERBATIM)
        for part in rest.removesuffix("\\").split("\\"):
            if part in ("", ".") or "/" in part:
                raise PolicyError(r"\\?\ takes names as they are", field=field, value=text, remedy=r"leave \\?\ away")
        if rest[:4].upper() == "UNC\\":
            return self._share(field, text, rest[4:])
        if _DRIVE.match(rest) is None or rest[2:3] != "\\":
            raise PolicyError("names a volume or a device, not a place on a drive", field=field, value=text, remedy=_A_DRIVE)
        return rest[0].upper() + ":\\", self._names(field, text, rest[3:].split("\\"))

    def _share(self, field: str, text: str, rest: str) -> tuple[str, list[str]]:
        server, _, behind = rest.partition("\\")
        share, _, path = behind.partition("\\")
        numeric = _NUMBER.fullmatch(server) is not None and _ADDRESS.fullmatch(server) is None
        if _SERVER.fullmatch(server) is None or numeric:
            raise PolicyError("has no name of a server", field=field, value=text, remedy=r"write \\server\share\path")
        if _LOOPBACK.fullmatch(server) is not None:
            raise PolicyError("another name of this machine's own files", field=field, value=text, remedy=_A_DRIVE)
        if share in ("", ".", ".."):
            raise PolicyError("has no name of a share", field=field, value=text, remedy=r"write \\server\share\path")
        self._check_name(field, text, share)
        if _ADMINISTRATIVE.fullmatch(share) is not None:
            raise PolicyError("an administrative share", field=field, value=text, remedy="share the directory and name that")
        return f"\\\\{server}\\{share}\\", self._names(field, text, path.split("\\"))

    def _fault(self, name: str) -> tuple[str, str]:
        if _DEVICE_NAME.fullmatch(name) is not None:
            return f"{name} is a device in every directory", "name a file"
        if ":" in name:
            return f"{name} names a stream of a file", f"name the file: {name.partition(':')[0]!r}"
        if _FORBIDDEN.search(name) is not None:
            return f"{name!r} holds a character that no name may hold", 'leave out < > " | ? * and control characters'
        if name.endswith((".", " ")):
            return f"Windows drops the end of {name!r}", "leave out dots and blanks at the end"
        if _SHORT_NAME.fullmatch(name) is not None:
            return f"{name} may be the short name of another file", "give the long one: os.path.realpath(path)"
        return "", ""


def _upper(character: str) -> str:
    """As NTFS's table: one character for one, none outside the BMP, and only pairs (ı and ſ stay themselves)."""
    upper = character.upper()
    return upper if len(upper) == 1 and upper <= "\uffff" and upper.lower() == character else character


POSIX: Final = _Posix()
WINDOWS: Final = _Windows()
