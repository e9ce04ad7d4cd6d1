"""Where a Python interpreter has its libraries, found from its files alone: nothing is run. Host process.

The rules are those of CPython's Modules/getpath.py: a `pyvenv.cfg` beside the program or above it makes it a virtual
environment, whose `home` names the directory of the interpreter that it was made from; the prefix is the nearest directory above
that has `lib/pythonX.Y/os.py`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sandbox_native.errors import PolicyError

_NAME: Final = re.compile(r"python(\d+(\.\d+)?)?[tmd]*")
_VERSION: Final = re.compile(r"python(\d+\.\d+)")
_LIBRARIES: Final = ("lib", "lib64")
_CONFIG: Final = "pyvenv.cfg"


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """What must be there for an interpreter to start and import what is installed."""

    directories: tuple[str, ...]
    files: tuple[str, ...]
    """Links and files that lead from the program to its installation."""
    libraries: tuple[str, ...]
    """The directories with modules."""

    def modules(self) -> Iterator[str]:
        """Extension modules, wherever they are beneath the libraries."""
        for directory in self.libraries:
            for above, names, files in os.walk(directory):
                names[:] = sorted(name for name in names if name != "__pycache__" and not name.endswith(".libs"))
                yield from (os.path.join(above, file) for file in sorted(files) if file.endswith(".so"))


def is_python(path: str) -> bool:
    """Whether a program has the name of a Python interpreter."""
    return _NAME.fullmatch(os.path.basename(path)) is not None


def find_python(program: str) -> Installation:
    """Of an interpreter, or a link to one. `PolicyError` where no standard library is found for it."""
    real = os.path.realpath(program)
    venv = _venv(program)
    homes = [os.path.dirname(real)]
    if venv is not None:
        homes.insert(0, venv[1])
    version = _VERSION.match(os.path.basename(real))
    found = next((base for home in homes if (base := _base(home, version[1] if version else ""))), None)
    if found is None:
        raise PolicyError(
            "no standard library lies above it",
            field="python",
            value=program,
            remedy="give the interpreter itself, such as sys.executable, and not a script that starts one",
        )
    prefix, library = found
    directories = [prefix] if _is_own(prefix) else _shared(prefix, library)
    libraries = [library] if _is_own(prefix) else list(directories)
    files = []
    if venv is not None:
        root, home = venv
        if not _is_own(root):
            raise PolicyError(f"{root} is no directory of its own", field="python", value=program, remedy="move it into one")
        directories.append(root)
        libraries += _existing(f"{root}/{lib}" for lib in _LIBRARIES)
        files += _existing((os.path.join(home, os.path.basename(program)), os.path.join(home, os.path.basename(real))))
    return Installation(directories=tuple(directories), files=tuple(files), libraries=tuple(_distinct(libraries)))


def _venv(program: str) -> tuple[str, str] | None:
    """The virtual environment that a program, or what it leads to, belongs to; and the home of its interpreter."""
    for path in _steps(program):
        beside = os.path.dirname(path)
        for directory in (beside, os.path.dirname(beside)):
            home = _home_in(os.path.join(directory, _CONFIG))
            if home:
                return directory, home
    return None


def _home_in(config: str) -> str:
    try:
        with open(config, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read().splitlines()
    except OSError:
        return ""
    values = (line.partition("=") for line in lines)
    return next((value.strip() for name, _, value in values if name.strip() == "home"), "")


def _steps(program: str) -> Iterator[str]:
    """The program, and what each link in turn leads to."""
    for _ in range(40):
        yield program
        if not os.path.islink(program):
            return
        program = os.path.normpath(os.path.join(os.path.dirname(program), os.readlink(program)))


def _base(home: str, version: str) -> tuple[str, str] | None:
    """The prefix and its library, from the directory that the interpreter is in."""
    for start in dict.fromkeys((home, os.path.realpath(home))):
        prefix = start
        while True:
            for lib in _LIBRARIES:
                names = sorted(glob.glob(f"{glob.escape(os.path.join(prefix, lib))}/python{version or '3.*'}/os.py"))
                if names:
                    return prefix, os.path.dirname(names[-1])
            if prefix == "/":
                break
            prefix = os.path.dirname(prefix)
    return None


def _is_own(prefix: str) -> bool:
    """Whether a prefix holds one installation, and not all programs of a system or a user."""
    user = os.path.expanduser("~")
    return prefix not in ("/", "/usr", "/usr/local", "/opt", "/home", "/root", "/tmp", "/var", user, os.path.join(user, ".local"))


def _shared(prefix: str, library: str) -> list[str]:
    """Of an interpreter among a system's programs: its libraries, and where distributions put packages and settings."""
    name = os.path.basename(library)
    beside = [f"{prefix}/{lib}/{one}" for lib in _LIBRARIES for one in (name, "python3")]
    elsewhere = (f"/usr/local/lib/{name}", f"/usr/local/lib64/{name}", f"/etc/{name}") if prefix in ("/", "/usr") else ()
    return _existing((library, *beside, *elsewhere))


def _existing(paths: Iterator[str] | tuple[str, ...]) -> list[str]:
    return _distinct([path for path in paths if os.path.exists(path)])


def _distinct(paths: list[str]) -> list[str]:
    return list(dict.fromkeys(paths))
