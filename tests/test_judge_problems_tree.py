"""A package is read inside of its directory only, whatever a stranger has put there."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from problem_packages import package

from sandbox_native.judge.problems import ProblemError, load_problem, tree
from sandbox_native.judge.problems.tree import Tree, open_tree


def refused(root: Path) -> ProblemError:
    with pytest.raises(ProblemError) as error:
        load_problem(root)
    assert error.value.file and error.value.field and error.value.reason and error.value.remedy
    return error.value


@pytest.mark.parametrize("name", ["problem.yaml", "data/secret/1.in", "data/secret/1.ans", "submissions/accepted/echo.py"])
def test_a_link_out_of_the_package_is_refused(tmp_path: Path, name: str) -> None:
    root = package(tmp_path)
    (root / name).unlink()
    (tmp_path / "outside").write_text("secret\n")
    (root / name).symlink_to(tmp_path / "outside")
    error = refused(root)
    assert error.file == name and str(tmp_path / "outside") in error.value and "out of the package" in error.reason


def test_a_directory_that_is_a_link_out_of_the_package_is_refused(tmp_path: Path) -> None:
    root = package(tmp_path)
    (root / "output_validators").symlink_to("/etc")
    (root / "problem.yaml").write_text("validation: custom\n")
    assert refused(root).file == "output_validators"


def test_a_sibling_whose_name_begins_alike_is_outside(tmp_path: Path) -> None:
    root = package(tmp_path)
    (tmp_path / "small-secrets").write_text("x")
    (root / "data/secret/2.in").symlink_to("../../../small-secrets")
    assert "out of the package" in refused(root).reason


def test_a_link_inside_the_package_is_followed_and_handed_out_without_it(tmp_path: Path) -> None:
    root = package(tmp_path)
    (root / "data/secret/2.in").symlink_to("1.in")
    (root / "data/secret/2.ans").symlink_to(root / "data/secret/1.ans")
    cases = load_problem(root).cases()
    assert [case.name for case in cases] == ["secret/1", "secret/2"]
    assert cases[1].input == cases[0].input == (root / "data/secret/1.in").resolve()


@pytest.mark.parametrize("target", ["3.in", "missing"])
def test_a_link_to_nowhere_is_refused(tmp_path: Path, target: str) -> None:
    root = package(tmp_path)
    (root / "data/secret/3.in").symlink_to(target)
    assert refused(root).file == "data/secret/3.in"


def test_directories_that_contain_themselves_are_refused(tmp_path: Path) -> None:
    root = package(tmp_path)
    (root / "data/secret/again").symlink_to(".")
    assert "levels" in refused(root).field


def test_a_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    root = package(tmp_path)
    os.mkfifo(root / "data/secret/2.in")
    error = refused(root)
    assert error.file == "data/secret/2.in" and error.value == "'prw-r--r--'"


def test_a_socket_and_a_device_are_refused(tmp_path: Path) -> None:
    root = package(tmp_path)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "data/secret/2.in"))
        assert refused(root).field == "mode"
    (root / "data/secret/2.in").unlink()
    (root / "data/secret/2.in").symlink_to("/dev/zero")
    assert refused(root).file == "data/secret/2.in"


def test_a_huge_problem_yaml_is_refused_and_not_read_whole(tmp_path: Path) -> None:
    root = package(tmp_path)
    os.truncate(root / "problem.yaml", 1 << 40)
    error = refused(root)
    assert error.field == "size" and error.file == "problem.yaml"


def test_a_huge_case_is_not_read_at_all(tmp_path: Path) -> None:
    root = package(tmp_path)
    os.truncate(root / "data/secret/1.in", 1 << 40)
    assert isinstance(load_problem(root).cases()[0].input, Path)


def test_a_program_of_too_many_bytes_is_refused(tmp_path: Path) -> None:
    root = package(tmp_path)
    os.truncate(root / "submissions/accepted/echo.py", 1 << 30)
    assert refused(root).file == "submissions/accepted/echo.py"


def test_entries_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = package(tmp_path, {f"data/secret/{number}.hint": "" for number in range(60)})
    monkeypatch.setattr(tree, "MOST_ENTRIES", 50)
    assert refused(root).field == "entries"


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    error = refused(package(tmp_path, {"problem.yaml": b"name: caf\xe9\n"}))
    assert error.field == "bytes" and "UTF-8" in error.remedy


def test_a_byte_order_mark_and_windows_lines_are_understood(tmp_path: Path) -> None:
    yaml = b"\xef\xbb\xbfname: Small\r\nlimits:\r\n  memory: 64\r\n"
    limits = load_problem(package(tmp_path, {"problem.yaml": yaml, ".timelimit": b"\xef\xbb\xbf2.5\r\n"})).limits
    assert (limits.memory_bytes, limits.cpu_seconds) == (64 << 20, 2.5)


def test_odd_names_are_ignored_and_noted(tmp_path: Path) -> None:
    root = package(tmp_path, {"data/secret/a b.in": "1\n", "data/secret/.hidden.in": "1\n", "data/secret/-x.in": "1\n"})
    (root / os.fsdecode(b"data/secret/\xff.in")).write_text("1\n")
    problem = load_problem(root)
    assert [case.name for case in problem.cases()] == ["secret/1"]
    for name in ("a b.in", ".hidden.in", "-x.in", "\\xff.in"):
        assert [note for note in problem.notes if name in note]
    assert all(note.isprintable() for note in problem.notes)


def test_no_directory_is_no_package(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", package(tmp_path) / "problem.yaml"):
        with pytest.raises(ProblemError) as error:
            open_tree(path)
        assert error.value.field == "package"


def test_a_file_that_was_exchanged_for_a_link_is_not_followed(tmp_path: Path) -> None:
    opened: Tree = open_tree(package(tmp_path))
    entry = opened.entry("problem.yaml")
    assert entry is not None
    entry.path.unlink()
    entry.path.symlink_to("/etc/hostname")
    with pytest.raises(ProblemError, match="cannot be read"):
        opened.content(entry)


def test_a_directory_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for number, name in enumerate(("problem.yaml", "data/testdata.yaml", ".timelimit")):
        root = package(tmp_path / str(number), {"problem.yaml": None} if name == "problem.yaml" else {})
        (root / name).mkdir(parents=True)
        error = refused(root)
        assert error.file == name and "not a file" in error.reason
    assert len(os.listdir("/proc/self/fd")) == before
