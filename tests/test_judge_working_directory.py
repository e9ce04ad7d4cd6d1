"""What a submission finds in its working directory: its own data, what the problem includes, the case's files; and what of it is
what where names are the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from graded import problem, verdict
from judged import submission

from sandbox_native.judge.store import Store
from sandbox_native.judge.values import Group, Problem, SourceFile

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

READ_IN_C = """#include <stdio.h>
int main() { FILE *f = fopen("data.txt", "r"); if (!f) return 3; puts(fgets((char[9]){0}, 9, f)); }
"""
READ_IN_PYTHON = 'print(open("data.txt").read(), flush=True)'


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def source_files(files: Mapping[str, str]) -> tuple[SourceFile, ...]:
    return tuple(SourceFile(name=name, content=text.encode()) for name, text in files.items())


def of(include: Mapping[str, Mapping[str, str]], case_files: Mapping[str, str] | None = None) -> Problem:
    plain = problem({"1": (b"", b"")})
    (case,) = plain.cases()
    data = Group(items=(replace(case, files=source_files(case_files or {})),))
    return replace(plain, data=data, include={code: source_files(files) for code, files in include.items()})


@pytest.mark.parametrize("main", [{"main.c": READ_IN_C}, {"main.py": READ_IN_PYTHON}])
def test_the_submission_s_own_data_is_there(store: Store, main: Mapping[str, str]) -> None:
    (case,) = verdict(store, submission({**main, "data.txt": "own"}), of({})).cases
    assert case.output == b"own\n" and case.exit_code == 0


@pytest.mark.parametrize("main", [{"main.c": READ_IN_C}, {"main.py": READ_IN_PYTHON}])
def test_included_data_is_there_in_place_of_the_submission_s_own(store: Store, main: Mapping[str, str]) -> None:
    for files in (main, {**main, "data.txt": "own"}):
        (case,) = verdict(store, submission(files), of({"default": {"data.txt": "all"}})).cases
        assert case.output == b"all\n"


def test_a_case_s_file_stands_in_place_of_included_data(store: Store) -> None:
    (case,) = verdict(
        store, submission({"main.py": READ_IN_PYTHON}), of({"default": {"data.txt": "all"}}, {"data.txt": "case"})
    ).cases
    assert case.output == b"case\n"


def test_what_is_included_for_the_language_stands_in_place_of_what_is_for_all(store: Store) -> None:
    main = {"main.py": f"import h; {READ_IN_PYTHON}; print(h.FOR)"}
    include = {
        "python3": {"h.py": "FOR = 'python'", "data.txt": "python"},
        "default": {"h.py": "FOR = 'all'", "data.txt": "all"},
        "c": {"h.py": "FOR = 'c'"},
    }
    (case,) = verdict(store, submission(main), of(include)).cases
    assert case.output == b"python\npython\n", case.message


def test_there_is_nothing_else(store: Store) -> None:
    source = submission({"main.py": "import os; print(*sorted(os.listdir('.')))", "more.py": "", "a/b.txt": ""})
    (case,) = verdict(store, source, of({})).cases
    assert case.output == b"a\n"
