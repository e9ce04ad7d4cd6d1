"""Reading of problems: packages of the ICPC/Kattis problem package format, plain folders, cases in memory.

`load_problem` takes what it is given; a problem that cannot be judged as it is written is a `ProblemError`. Nothing is run.
"""

from __future__ import annotations

import os

from sandbox_native.judge.problems.archive import ENDINGS, unpack_package
from sandbox_native.judge.problems.errors import ProblemError
from sandbox_native.judge.problems.folder import PACKAGE_FILES, problem_of_cases, read_folder
from sandbox_native.judge.problems.package import read_package
from sandbox_native.judge.values import Problem

__all__ = ["ProblemError", "load_problem", "problem_of_cases", "read_folder", "read_package", "unpack_package"]


def load_problem(path: str | os.PathLike[str]) -> Problem:
    """The problem at `path`: a package when it has a problem.yaml (or DOMjudge's ini file), else a folder of `1.in 1.ans`.

    ProblemError when it is bad or missing, and for an archive: `unpack_package` makes a directory of it.
    """
    if os.fspath(path).endswith(ENDINGS) and os.path.isfile(path):
        raise ProblemError(
            "it is an archive, and its files must lie somewhere while they are used",
            file=os.path.basename(path),
            field="package",
            value=os.fspath(path),
            remedy="unpack it: sandbox_native.judge.problems.unpack_package(archive, directory)",
        )
    packaged = any(os.path.lexists(os.path.join(path, name)) for name in PACKAGE_FILES)
    return read_package(path) if packaged else read_folder(path)
