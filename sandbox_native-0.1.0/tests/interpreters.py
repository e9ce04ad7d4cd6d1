"""Installations of Python that tests make: virtual environments, and a prefix of its own with its own copy of the library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

PYTHON = os.path.realpath("/usr/bin/python3")
NAME = os.path.basename(PYTHON)
LIBRARY = next(path for path in (Path("/usr/lib", NAME), Path("/usr/lib64", NAME)) if (path / "os.py").exists())
_LEFT_OUT = re.compile(
    r"__pycache__|tests?|idlelib|tkinter|turtledemo|lib2to3|ensurepip|config-.*|(dist|site)-packages|pydoc_data"
)


def venv(directory: Path, python: str = PYTHON) -> Path:
    """The interpreter of a new virtual environment, with a module `mine` in it."""
    subprocess.run([python, "-m", "venv", "--without-pip", directory], check=True)
    (packages,) = directory.glob("lib/python3*/site-packages")
    (packages / "mine.py").write_text("word = 'of the venv'\n")
    return directory / "bin" / "python"


def prefix(directory: Path) -> Path:
    """A copy of the system's interpreter that finds its library, with a module `ours`, in a prefix of its own, as those of pyenv
    and conda do."""
    library = directory / "lib" / NAME
    shutil.copytree(LIBRARY, library, ignore=lambda _, names: [name for name in names if _LEFT_OUT.fullmatch(name)])
    (library / "ours.py").write_text("word = 'of the prefix'\n")
    (directory / "bin").mkdir()
    shutil.copy(PYTHON, directory / "bin" / NAME)
    (directory / "bin" / "python").symlink_to(NAME)
    return directory / "bin" / "python"
