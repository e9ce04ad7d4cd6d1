"""What a program needs to run: itself, the links on the way to it, its loader, libraries and interpreter. Public; host process.

`closure` looks; minimal.py makes a policy of what it finds. Only what the files themselves say is found: what a program opens or
starts by name at run time (plug-ins, data, other programs) is for the caller to add.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from sandbox_native import headers
from sandbox_native.elf import Binary
from sandbox_native.environment import BASE
from sandbox_native.errors import PolicyError
from sandbox_native.installation import Installation, find_python, is_python
from sandbox_native.libraries import Libraries
from sandbox_native.paths import contains

_LOCALES: Final = ("/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8")  # of glibc before 2.35, which has no UTF-8 of its own
_MOST_LINKS: Final = 40
_MOST_SCRIPTS: Final = 5
_ENV: Final = "env"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One step: `name`, as the file that needs it spells it, is `path`; empty where nothing was found."""

    name: str
    path: str
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Closure:
    """What `closure` found, as real paths of the host. `str()` gives it as a tree."""

    program: str
    """As it is started: absolute, its links not followed."""
    files: tuple[str, ...]
    directories: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """Path and text of each link on the way, outside of `directories`."""
    missing: tuple[str, ...]
    """What something in it asks for and this host does not have."""
    tree: tuple[Need, ...]

    def __str__(self) -> str:
        lines: list[str] = []
        for need in self.tree:
            lines += _lines(need, "")
        for title, found in (("directories", self.directories), ("links", [f"{at} -> {text}" for at, text in self.links])):
            if found:
                lines += [f"{title}:", *(f"  {one}" for one in found)]
        if self.missing:
            lines += ["missing:", *(f"  {one}" for one in self.missing)]
        return "\n".join(lines)


def _lines(need: Need, indent: str) -> Iterator[str]:
    where = "" if need.path == need.name else f" => {need.path or 'not found'}"
    yield f"{indent}{need.name}{where}"
    for one in need.needs:
        yield from _lines(one, indent + "  ")


def closure(program: str | os.PathLike[str], *, extra: Iterable[str | os.PathLike[str]] = ()) -> Closure:
    """What `program` needs, a name in the standard directories or a path; and what each of `extra` needs.

    `extra`: more programs, and files and directories that are taken as they are. A script brings its interpreter, a Python
    interpreter its installation with the libraries of its extension modules. For a large environment that takes a second; files
    that did not change are not read again by this process.

    `PolicyError`: it is not there, is no program, or a library of its own is missing.
    """
    from sandbox_native.paths import items

    builder = _Builder()
    first = builder.add(located("program", program), "program")
    for at, more in enumerate(items("extra", extra)):
        builder.add(located(f"extra[{at}]", more), f"extra[{at}]")
    return builder.done(first)


def located(field: str, program: object) -> str:
    """The path of a program that is given by name or path, its links not followed."""
    text = os.fspath(program) if isinstance(program, os.PathLike) else program
    if not isinstance(text, str) or not text or "\0" in text:
        raise PolicyError("not a program", field=field, value=program, remedy="give its name, or a path")
    if "/" in text:
        path = os.path.abspath(text)
        if not os.path.exists(path):
            raise PolicyError("not there", field=field, value=text, remedy="give the path of a program of this host")
        return path
    for directory in BASE["PATH"].split(":"):
        path = f"{directory}/{text}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise PolicyError(f"not in {BASE['PATH']}", field=field, value=text, remedy="give its path")


@dataclass
class _Builder:
    libraries: Libraries = field(default_factory=Libraries)
    files: dict[str, None] = field(default_factory=dict)
    directories: dict[str, None] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    missing: dict[str, None] = field(default_factory=dict)
    tree: list[Need] = field(default_factory=list)

    # ---- what is asked for ----

    def add(self, path: str, what: str, scripts: int = 0) -> str:
        """A file with all that it needs, or a directory as it is."""
        real = self.trace(path)
        if os.path.isdir(real):
            self.directories[real] = None
            self.tree.append(Need(name=path, path=real))
            return path
        self.files[real] = None
        binary = self.libraries.read(real)
        if binary is not None:
            needs = self._loaded(binary)
            if is_python(real):
                needs += self._installed(find_python(path), binary)
            self.tree.append(Need(name=path, path=real, needs=needs))
        else:
            self.tree.append(Need(name=path, path=real))
            self._script(path, real, what, scripts)
        return path

    def _script(self, path: str, real: str, what: str, scripts: int) -> None:
        with open(real, "rb") as file:
            script = headers.read_script(file.read(headers.SIZE))
        if script is None:
            if what == "program":
                raise PolicyError("neither an ELF program nor a script", field=what, value=path, remedy="name a program")
            return
        if scripts >= _MOST_SCRIPTS:
            raise PolicyError("too many interpreters lead to each other", field=what, value=path, remedy="name a program")
        name = os.fsdecode(script.interpreter)
        for one in (name, *_named_by_env(name, os.fsdecode(script.argument))):
            try:
                found = located(what, one)
            except PolicyError:
                reason = f"its interpreter {one!r} is not there"
                raise PolicyError(reason, field=what, value=path, remedy="install it, or name another program") from None
            self.add(found, what, scripts + 1)

    # ---- ELF ----

    def _loaded(self, program: Binary, chain: tuple[Binary, ...] = (), required: bool = True) -> tuple[Need, ...]:
        """Its loader, and breadth first its libraries, each name once."""
        needs: list[Need] = []
        loader = (chain[0] if chain else program).loader
        if program.loader:
            needs.append(Need(name=program.loader, path=self._take(program.loader, program, required)))
            for directory in _LOCALES:
                if os.path.isdir(directory):
                    self.directories[self.trace(directory)] = None
        known: dict[str, str] = {}
        waiting = [(*chain, program)]
        while waiting:
            asking = waiting.pop(0)
            for name in asking[-1].needed:
                if name in known:
                    continue
                found = self.libraries.find(name, asking, loader)
                known[name] = found[0] if found else ""
                needs.append(Need(name=name, path=found[0] if found else ""))
                for path in found or (name,):
                    self._take(path, asking[-1], required)
                    library = self.libraries.read(path)
                    if library is not None:
                        known.setdefault(library.soname, path)
                        waiting.append((*asking, library))
        return tuple(needs)

    def _take(self, path: str, of: Binary, required: bool) -> str:
        if os.path.isabs(path) and os.path.exists(path):
            real = self.trace(path)
            self.files[real] = None
            return real
        words = f"{path} (of {of.path})"
        if required:
            remedy = "install what brings it: without it the program does not start here either"
            raise PolicyError(f"needs {words}, which is not there", field="program", value=of.path, remedy=remedy)
        self.missing[words] = None
        return ""

    # ---- Python ----

    def _installed(self, python: Installation, binary: Binary) -> tuple[Need, ...]:
        for path in (*python.directories, *python.files):
            real = self.trace(path)
            (self.directories if os.path.isdir(real) else self.files)[real] = None
        needs: dict[str, Need] = {}
        for module in python.modules():
            found = self.libraries.read(module)
            if found is not None:
                for need in self._loaded(found, (binary,), required=False):
                    needs.setdefault(need.name, need)
        return (*(Need(name=one, path=one) for one in python.directories), *needs.values())

    # ---- paths ----

    def trace(self, path: str) -> str:
        """The real path, with every link on the way noted."""
        left = [part for part in reversed(path.split("/")) if part]
        at, links = "", 0
        while left:
            name = left.pop()
            if name == ".":
                continue
            if name == "..":
                at = at.rpartition("/")[0]
                continue
            here = f"{at}/{name}"
            if not stat.S_ISLNK(os.lstat(here).st_mode):
                at = here
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            text = self.links[here] = os.readlink(here)
            at = "" if text.startswith("/") else at
            left += [part for part in reversed(text.split("/")) if part]
        return at or "/"

    def done(self, program: str) -> Closure:
        outer = _outermost(self.directories)

        def is_apart(path: str) -> bool:
            return not any(contains(directory, path) for directory in outer)

        return Closure(
            program=program,
            files=tuple(sorted(filter(is_apart, self.files))),
            directories=tuple(outer),
            links=tuple(sorted((path, text) for path, text in self.links.items() if is_apart(path))),
            missing=tuple(self.missing),
            tree=tuple(self.tree),
        )


def _outermost(directories: Iterable[str]) -> list[str]:
    found: list[str] = []
    for path in sorted(directories):
        if not any(contains(other, path) for other in found):
            found.append(path)
    return found


def _named_by_env(interpreter: str, argument: str) -> list[str]:
    """The program that `#!/usr/bin/env NAME` starts, also behind -S, options and assignments."""
    if os.path.basename(interpreter) != _ENV:
        return []
    words = argument.removeprefix("-S").split() if argument.startswith("-S") else [argument]
    return [word for word in words if word and not word.startswith("-") and "=" not in word][:1]
