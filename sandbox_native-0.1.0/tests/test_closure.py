"""What a program needs: found, and enough for it to run where there is nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import compiled
import pytest

from sandbox_native import PolicyError
from sandbox_native.closure import Closure, closure

SH = os.path.realpath("/bin/sh")


def needs(found: Closure) -> dict[str, str]:
    return {need.name: need.path for tree in found.tree for need in tree.needs}


def test_a_program_brings_its_loader_its_libraries_and_the_links_to_them() -> None:
    found = closure("sh")
    assert found.program == "/usr/bin/sh" and SH in found.files
    loader = next(path for path in needs(found) if "/ld-" in path)
    assert os.path.realpath(loader) in found.files
    assert all(os.path.realpath(path) == path for path in (*found.files, *found.directories))
    links = dict(found.links)
    assert links and all(os.readlink(path) == text for path, text in links.items())
    assert not found.missing


def test_every_name_leads_to_a_file_through_the_links_alone() -> None:
    found = closure("/bin/sh")
    links, there = dict(found.links), {*found.files, *found.directories}

    def follow(path: str) -> str:
        left, at = [part for part in reversed(path.split("/")) if part], ""
        while left:
            at = f"{at}/{left.pop()}"
            if at in links:
                left += reversed([part for part in links[at].split("/") if part])
                at = "" if links[at].startswith("/") else at.rpartition("/")[0]
        return at

    for path in ("/bin/sh", *(path for path in needs(found).values() if path)):
        assert follow(path) in there, path


def test_extra_brings_programs_with_what_they_need_and_directories_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "note").write_text("text")
    found = closure("true", extra=["sh", tmp_path / "data", str(tmp_path / "note")])
    assert SH in found.files and found.directories.count(str(tmp_path / "data")) == 1
    assert str(tmp_path / "note") in found.files


def test_what_lies_in_a_directory_that_is_taken_is_not_named_again(tmp_path: Path) -> None:
    inner = tmp_path / "data" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "data" / "link").symlink_to("inner")
    shutil.copy("/bin/true", inner)
    found = closure(tmp_path / "data" / "link" / "true", extra=[inner, tmp_path / "data"])
    assert str(tmp_path / "data") in found.directories and str(inner) not in found.directories
    assert not [path for path in (*found.files, *dict(found.links)) if path.startswith(str(tmp_path))]


@pytest.mark.needs("cc")
def test_libraries_beside_a_program_are_found_in_turn(tmp_path: Path) -> None:
    compiled.library(tmp_path / "lib" / "libone.so.1", "one")
    (tmp_path / "lib" / "libone.so").symlink_to("libone.so.1")
    compiled.library(tmp_path / "lib" / "libtwo.so", "two", needs=("one",), flags=("-Wl,-rpath,$ORIGIN",))
    program = compiled.program(
        tmp_path / "bin" / "prog", calls=("two",), libraries=tmp_path / "lib", flags=("-Wl,-rpath,$ORIGIN/../lib",)
    )
    found = closure(program)
    own = sorted(path for path in found.files if path.startswith(str(tmp_path)))
    assert own == [str(program), str(tmp_path / "lib" / "libone.so.1"), str(tmp_path / "lib" / "libtwo.so")]
    (tmp_path / "lib" / "libone.so.1").unlink()
    with pytest.raises(PolicyError) as caught:
        closure(program)
    assert "libone.so.1" in caught.value.reason and "libtwo.so" in caught.value.reason


def test_a_static_program_needs_itself_only(guest: dict[str, Path]) -> None:
    found = closure(guest["verbs"])
    assert (found.files, found.directories, found.links) == ((str(guest["verbs"]),), (), ())


@pytest.mark.parametrize("line", ["#!/bin/sh -e", "#!/usr/bin/env sh", "#!/usr/bin/env -S A=1 sh -e"])
def test_a_script_brings_its_interpreter(tmp_path: Path, line: str) -> None:
    script = tmp_path / "run"
    script.write_text(f"{line}\n")
    found = closure(script)
    assert {str(script), SH} <= set(found.files)
    assert (os.path.realpath("/usr/bin/env") in found.files) is ("env" in line)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("#!/no/such/sh\n", "its interpreter '/no/such/sh' is not there"),
        ("#!/usr/bin/env no-such-program\n", "its interpreter 'no-such-program' is not there"),
        ("#!{}\n", "too many interpreters"),
        ("text", "neither an ELF program nor a script"),
    ],
)
def test_what_cannot_run_is_refused(tmp_path: Path, text: str, said: str) -> None:
    script = tmp_path / "run"
    script.write_text(text.replace("{}", str(script)))
    with pytest.raises(PolicyError) as caught:
        closure(script)
    assert said in caught.value.reason and caught.value.field == "program" and caught.value.remedy


@pytest.mark.parametrize("program", ["", "no-such-program", "/no/such/program", "a\0b", None, b"sh"])
def test_what_is_no_program_is_refused(program: str) -> None:
    with pytest.raises(PolicyError) as caught:
        closure(program)
    assert caught.value.field == "program" and caught.value.remedy


def test_it_can_be_printed_as_a_tree() -> None:
    lines = str(closure("/bin/sh", extra=["/usr/bin/env"])).splitlines()
    assert lines[0].startswith("/bin/sh")
    assert any(line.startswith("  libc.") and " => /" in line for line in lines)
    assert any(line.startswith("/usr/bin/env") for line in lines)


@pytest.mark.needs("cc", "root")
def test_it_is_enough_to_run_in_a_root_of_nothing_else(tmp_path: Path) -> None:
    """Without us: the files copied, chroot(2), and the program's own word for it. $ORIGIN would need a /proc."""
    compiled.library(tmp_path / "app" / "libone.so", "one")
    program = compiled.program(
        tmp_path / "app" / "prog", calls=("one",), libraries=tmp_path / "app", flags=(f"-Wl,-rpath,{tmp_path}/app",)
    )
    root = tmp_path / "root"
    for path in (found := closure(program)).files:
        target = Path(f"{root}{path}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    for path, text in found.links:
        Path(f"{root}{path}").parent.mkdir(parents=True, exist_ok=True)
        os.symlink(text, f"{root}{path}")
    assert subprocess.run(["chroot", root, program]).returncode == 1
    os.unlink(f"{root}{tmp_path}/app/libone.so")
    assert subprocess.run(["chroot", root, program], capture_output=True).returncode == 127
