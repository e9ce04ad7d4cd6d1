"""Where a Python interpreter has its libraries: found from the files, and the same as the interpreter says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from interpreters import LIBRARY, NAME, PYTHON, prefix, venv

from sandbox_native import PolicyError
from sandbox_native.installation import find_python, is_python

pytestmark = pytest.mark.needs("/usr/bin/python3")


def told(program: Path | str, expression: str) -> list[str]:
    command = [str(program), "-I", "-c", f"import sys, sysconfig; print(*({expression}), sep='\\n')"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def covers(directories: tuple[str, ...], path: str) -> bool:
    return any(path == directory or path.startswith(directory + "/") for directory in directories)


def test_the_systems_interpreter_has_its_libraries_and_not_all_of_usr() -> None:
    found = find_python(PYTHON)
    assert str(LIBRARY) in found.directories and "/usr" not in found.directories and "/usr/lib" not in found.directories
    there = [path for path in told(PYTHON, "sys.path") if Path(path).is_dir()]
    assert there and all(covers(found.directories, path) for path in there)


def test_a_virtual_environment_brings_its_own_directory_and_the_interpreters_library(tmp_path: Path) -> None:
    program = venv(tmp_path / "v")
    found = find_python(str(program))
    assert {str(tmp_path / "v"), str(LIBRARY)} <= set(found.directories)
    assert all(covers(found.directories, path) for path in told(program, "sys.path") if Path(path).is_dir())
    linked = tmp_path / "python"
    linked.symlink_to(program)
    assert find_python(str(linked)) == found


def test_a_prefix_of_its_own_is_shown_whole(tmp_path: Path) -> None:
    program = prefix(tmp_path / "p")
    found = find_python(str(program))
    assert found.directories == (str(tmp_path / "p"),) == tuple(told(program, "(sys.prefix,)"))
    assert found.libraries == (str(tmp_path / "p" / "lib" / NAME),)
    modules = list(found.modules())
    assert modules and all(name.endswith(".so") for name in modules)
    of_venv = find_python(str(venv(tmp_path / "v", str(program))))
    assert set(of_venv.directories) == {str(tmp_path / "p"), str(tmp_path / "v")}


def test_a_users_own_directory_is_never_shown_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    library = tmp_path / ".local" / "lib" / NAME
    library.mkdir(parents=True)
    (library / "os.py").write_text("")
    program = tmp_path / ".local" / "bin" / NAME
    program.parent.mkdir()
    program.write_bytes(Path(PYTHON).read_bytes())
    assert find_python(str(program)).directories == (str(library),)
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / NAME).symlink_to(PYTHON)
    with pytest.raises(PolicyError) as caught:
        find_python(str(tmp_path / "bin" / NAME))
    assert caught.value.field == "python" and "no directory of its own" in caught.value.reason


def test_an_interpreter_without_a_library_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "python3.0"
    program.write_text("")
    with pytest.raises(PolicyError) as caught:
        find_python(str(program))
    assert "no standard library" in caught.value.reason and "sys.executable" in caught.value.remedy


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("python", True),
        ("python3", True),
        ("python3.11", True),
        ("python3.13t", True),
        ("python3-config", False),
        ("ipython", False),
    ],
)
def test_an_interpreter_is_known_by_its_name(name: str, is_one: bool) -> None:
    assert is_python(f"/x/{name}") is is_one
