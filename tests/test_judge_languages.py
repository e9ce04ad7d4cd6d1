"""The table of languages: what comes with the package, files of the user's, finding a submission's, and what is installed."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import judged
import pytest

from sandbox_native import PolicyError, UnsupportedError
from sandbox_native.judge.language import Language
from sandbox_native.judge.languages import Languages, builtin, installed, version_of

COMPILED = {"c", "cpp", "java", "kotlin", "go", "rust", "haskell", "ocaml", "pascal", "csharp"}
SCRIPTS = {"python", "pypy", "javascript", "ruby", "php", "perl", "lua", "r", "bash", "generic"}


def test_the_languages_that_come_with_the_package() -> None:
    assert {*builtin()} == COMPILED | SCRIPTS
    assert {one.name for one in builtin().values() if one.keep_sources} == SCRIPTS
    tested = {one.name for one in builtin().values() if one.tested}
    assert tested == {"c", "cpp", "python", "java", "javascript", "go", "rust", "perl", "bash", "generic"}


def test_no_name_alias_or_extension_means_two_languages() -> None:
    names = [name for one in builtin().values() for name in (one.name, *one.aliases)]
    extensions = [extension for one in builtin().values() for extension in one.extensions]
    assert len(names) == len(set(names)) and len(extensions) == len(set(extensions))


@pytest.mark.parametrize(("name", "found"), [("C++", "cpp"), ("python3", "python"), ("JS", "javascript"), ("rlang", "r")])
def test_a_language_is_found_by_its_other_names(name: str, found: str) -> None:
    assert builtin().named(name).name == found


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(PolicyError, match="language='pyton': no such language; did you mean 'python'?"):
        builtin().named("pyton")


@pytest.mark.parametrize(
    ("files", "language"),
    [
        (["a.cc"], "cpp"),
        (["a.C"], "cpp"),
        (["a.c", "a.h"], "c"),
        (["a.c", "b.cpp", "c.cpp"], "cpp"),
        (["main.py", "data.txt"], "python"),
        (["x.mjs"], "javascript"),
        (["x.tar.rs"], "rust"),
    ],
)
def test_a_submissions_files_tell_its_language(files: list[str], language: str) -> None:
    assert builtin().of(judged.submission(dict.fromkeys(files, ""))).name == language


def test_the_stated_language_counts_for_more() -> None:
    assert builtin().of(judged.submission({"a.py": ""}, language="pypy")).name == "pypy"


def test_a_program_that_starts_by_itself_needs_no_extension(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes(b"#!/bin/sh\n")
    assert builtin().of(judged.submission({"run": tmp_path / "run"})).name == "generic"
    assert builtin().of(judged.submission({"run": b"\x7fELF"})).name == "generic"
    assert builtin().of(judged.submission({"a.py": b"#!/usr/bin/env python3"})).name == "python"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (["a.xyz"], r"program a.xyz='a.xyz': no language has files so named; state its language"),
        (["a.c", "b.py"], r"program a.c\+b.py='a.c, b.py': its files are of c and of python; state its language"),
    ],
)
def test_files_that_tell_no_language_are_refused(files: list[str], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        builtin().of(judged.submission(dict.fromkeys(files, "")))


def test_a_file_of_the_users_adds_and_changes_languages(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[awk]\ntitle = "AWK"\nrun = ["awk", "-f", "{entry}"]\nkeep_sources = true\n[cpp]\ncompile = ["clang++"]\n')
    languages = builtin().with_file(path)
    assert languages["awk"].title == "AWK" and len(languages) == len(builtin()) + 1
    assert languages["cpp"] == replace(builtin()["cpp"], compile=("clang++",))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[x\n", r"TOML=.*: not TOML: .*; correct it there"),
        ("x = 1\n", r"TOML: x=1: not a table; write \[x\] on a line of its own"),
        ("[x]\nrun = ['y']\nkeep_sources = true\n", "TOML: x.title=None: is missing; a language has at least title and run"),
        ("[cpp]\nfrobnicate = 1\n", "TOML: cpp.frobnicate=1: no such key; the keys are aliases, "),
        ("[cpp]\nextension = '.cc'\n", "TOML: cpp.extension='.cc': no such key; did you mean 'extensions'?"),
        ("[cpp]\ncompile = 'g++'\n", r"TOML: cpp.compile='g\+\+': not an array of strings; give an array of strings"),
        ("[cpp]\nprocesses = true\n", "TOML: cpp.processes=True: not an integer; give an integer"),
        ("[cpp]\ntime_factor = '2'\n", "TOML: cpp.time_factor='2': not a number; give a number"),
        ("[cpp]\nentry = 'main'\n", "TOML: cpp.entry='main': unknown; give 'file' or 'jvm_class'"),
        ("[cpp.environment]\nX = 1\n", "TOML: cpp.environment={'X': 1}: not a table of strings; give a table of strings"),
        ("[cpp]\nrun = ['{source}']\n", "language cpp: run='{source}': {source} stands for nothing there"),
    ],
)
def test_a_bad_table_is_refused_by_file_language_and_key(text: str, message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Languages.from_toml(text, base=builtin())


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="languages='.*none.toml': No such file or directory; name a TOML file of languages"):
        builtin().with_file(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b"# \xff")
    with pytest.raises(PolicyError, match=r"latin.toml': not UTF-8"):
        builtin().with_file(tmp_path / "latin.toml")


def tool(directory: Path, text: str) -> Language:
    """A language whose tool is a script in a directory of its own."""
    directory.chmod(0o755)  # for guests of root's, who are somebody else
    path = directory / "tool"
    path.with_name("fresh").write_text(f"#!/bin/sh\n{text}\n")
    path.with_name("fresh").chmod(0o755)
    path.with_name("fresh").replace(path)
    shown = {"readable": (str(directory),), "path": (str(directory),)}
    return Language(name="own", title="Own", run=("tool",), version=("tool", "--version"), keep_sources=True, **shown)


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_version_is_asked_for_once_as_long_as_the_tool_is_the_same(tmp_path: Path) -> None:
    first = tool(tmp_path, "date +%N; echo more")
    assert version_of(first) == version_of(first) != ""
    known = version_of(first)
    assert version_of(tool(tmp_path, "date +%N; echo more")) != known


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_tool_that_does_not_run_in_a_box_counts_as_missing(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="`tool --version` does not run in a box: no library; missing: tool"):
        version_of(tool(tmp_path, "echo no library >&2; exit 1"))


@pytest.mark.kernel
@pytest.mark.needs("userns", "perl")
def test_rows_tell_what_is_installed() -> None:
    missing = replace(builtin()["perl"], name="none", run=("no-such-program",))
    rows = {row.language.name: row for row in installed(Languages({"perl": builtin()["perl"], "none": missing}))}
    assert rows["perl"].installed and rows["perl"].version.startswith("perl v5") and rows["perl"].missing == ()
    assert not rows["none"].installed and rows["none"].missing == ("no-such-program",)


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_tool_outside_of_what_boxes_see_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "echo 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(UnsupportedError, match="Own is not installed; missing: tool"):
        version_of(replace(tool(tmp_path, "echo 1"), readable=(), path=()))


def test_a_file_of_languages_is_read_to_its_end_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "languages.toml"
    path.write_text(f"#{'x' * (1 << 20)}\n[mine]\n")
    with pytest.raises(PolicyError, match="larger than 1 MiB"):
        builtin().with_file(path)
