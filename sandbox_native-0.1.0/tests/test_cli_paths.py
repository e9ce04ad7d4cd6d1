"""Paths on the command line: those of the host start where we are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox_native.cli import main

pytestmark = pytest.mark.needs("userns")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "here"
    place.mkdir()
    for directory in (tmp_path, place):
        directory.chmod(0o755)
    (place / "seen").write_text("seen\n")
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize(
    "options",
    [
        ["--readable", ".:/data"],
        ["--readable", "./:/data"],
        ["--readable", "../here:/data"],
        ["--readable", ".././here/.:/data"],
        ["--writable", ".:/data"],
    ],
    ids=" ".join,
)
def test_a_relative_path_is_shown_elsewhere(here: Path, options: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *options, "--", "/bin/cat", "/data/seen"]) == 0
    assert capfd.readouterr().out == "seen\n"


def test_a_relative_path_is_shown_in_its_place(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--readable", "seen", "--", "/bin/cat", str(here / "seen")]) == 0
    assert capfd.readouterr().out == "seen\n"


def test_a_relative_workspace(here: Path) -> None:
    assert main(["run", "--workspace", ".", "--", "/bin/sh", "-c", "echo made > new"]) == 0
    assert (here / "new").read_text() == "made\n"
    assert main(["run", "--workspace", "..", "--", "/bin/sh", "-c", "cat here/new > above"]) == 0
    assert (here.parent / "above").read_text() == "made\n"


def test_a_way_up_behind_a_name_is_refused(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkdir(here / "sub")
    assert main(["run", "--readable", "sub/..:/data", "--", "/bin/true"]) == 125
    assert "holds '..'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--file", "x=nope"], "--file x='nope': No such file or directory; name a file"),
        (["--file", "a=."], "--file a='.': Is a directory; name a file"),
        (["--readable", "nope"], "/here/nope': No such file or directory on the host; "),
        (["--workspace", "/"], "workspace='/': is the whole host; "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_not_there_is_told_with_a_remedy(
    here: Path, options: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *options, "--", "/bin/true"]) == 125
    assert said in capfd.readouterr().err
