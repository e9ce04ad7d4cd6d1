"""What a commit does to an entry that others may replace meanwhile: to the one that it looked at, and never through a link."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandbox_native
from sandbox_native.commit import copying, handles
from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import Descent

PACKAGE = Path(sandbox_native.__file__).parent
SOURCES = [*sorted((PACKAGE / "commit").glob("*.py")), PACKAGE / "quarantine.py", PACKAGE / "quarantine_places.py"]


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "outside").mkdir(mode=0o500)
    fd = os.open(tmp_path, os.O_RDONLY)
    yield fd
    os.close(fd)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.name)
def test_modes_and_times_are_never_set_by_a_name_in_a_directory(source: Path) -> None:
    for call in ast.walk(ast.parse(source.read_text())):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in ("chmod", "utime", "chown"):
            assert not {word.arg for word in call.keywords} & {"dir_fd", "follow_symlinks"}, f"{source.name}:{call.lineno}"


def test_a_link_in_place_of_a_directory_opens_nothing_up(top: int, tmp_path: Path) -> None:
    (tmp_path / "dir").symlink_to("outside")
    assert handles.open_up("dir", top) == -1 and mode(tmp_path / "outside") == 0o500


def test_a_link_in_place_of_a_directory_is_not_emptied(top: int, tmp_path: Path) -> None:
    (tmp_path / "dir").symlink_to("outside")
    remove_tree(top, "dir")
    assert mode(tmp_path / "outside") == 0o500


def test_a_directory_that_becomes_a_link_while_it_is_removed_changes_nothing_else(
    top: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The moment between the look at a directory and the change of its mode."""
    (tmp_path / "dir").mkdir(mode=0o500)
    looks = {name: getattr(os, name) for name in ("stat", "fstat")}

    def swap() -> None:
        if not (tmp_path / "dir").is_symlink():
            os.rename(tmp_path / "dir", tmp_path / "away")
            (tmp_path / "dir").symlink_to("outside")

    def looking(name: str) -> None:
        def look(*arguments: object, **words: object) -> object:
            found = looks[name](*arguments, **words)
            monkeypatch.undo()
            swap()
            return found

        monkeypatch.setattr(os, name, look)

    for name in looks:
        looking(name)
    remove_tree(top, "dir")
    assert (tmp_path / "dir").is_symlink() and mode(tmp_path / "outside") == 0o500


def test_a_mode_is_given_back_to_the_directory_that_the_walk_was_in(top: int, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    with Descent(top) as place:
        place.down("dir")
        os.rename(tmp_path / "dir", tmp_path / "away")
        (tmp_path / "dir").symlink_to("outside")
        handles.leave(place, 0o710)
        assert place.fd == top
    assert mode(tmp_path / "away") == 0o710 and mode(tmp_path / "outside") == 0o500


def test_a_file_that_was_replaced_is_not_made_readable(top: int, tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o200)
    status = (tmp_path / "file").stat()
    (tmp_path / "other").touch(0o200)
    os.rename(tmp_path / "other", tmp_path / "file")
    readable = handles.Readable("file", top, status)
    if os.geteuid() == 0:
        with readable:  # nothing is to be done
            pass
    else:
        with pytest.raises(OSError, match="Stale"), readable:
            pass
    assert mode(tmp_path / "file") == 0o200


def test_the_way_to_a_name_goes_through_no_link(top: int, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("outside")
    with pytest.raises(OSError, match="Not a directory|Too many levels"):
        handles.open_above(top, ["link", "x"])
    fd = handles.open_above(top, ["outside", "x"])
    assert os.path.samestat(os.fstat(fd), (tmp_path / "outside").stat())
    os.close(fd)


def test_a_link_gets_its_time_itself(top: int, tmp_path: Path) -> None:
    before = (tmp_path / "outside").stat().st_mtime_ns
    owner = os.geteuid(), os.getegid()
    copying.copy_link("outside", os.stat("/"), "link", top, owner)
    assert (tmp_path / "outside").stat().st_mtime_ns == before
    assert (tmp_path / "link").lstat().st_mtime_ns == os.stat("/").st_mtime_ns
