"""What an ELF file asks the loader for."""

from __future__ import annotations

from pathlib import Path

import compiled
import pytest
from elves import foreign

from sandbox_native import elf


def test_a_program_tells_its_loader_libraries_and_paths(tmp_path: Path) -> None:
    compiled.library(tmp_path / "libone.so", "one")
    flags = ("-Wl,-rpath,$ORIGIN:/b", "-Wl,--disable-new-dtags")
    found = elf.read(str(compiled.program(tmp_path / "prog", calls=("one",), libraries=tmp_path, flags=flags)))
    assert found is not None
    assert "ld" in found.loader and found.needed[0] == "libone.so" and any(name.startswith("libc.") for name in found.needed)
    assert (found.rpath, found.runpath, found.skips_defaults) == (("$ORIGIN", "/b"), (), False)
    assert elf.origin(found, True) == str(tmp_path)


def test_a_library_tells_its_name_and_runpath(tmp_path: Path) -> None:
    flags = ("-Wl,-rpath,/a", "-Wl,--enable-new-dtags", "-Wl,-z,nodefaultlib")
    found = elf.read(str(compiled.library(tmp_path / "libone.so", "one", flags=flags)))
    assert found is not None
    assert (found.loader, found.soname, found.rpath, found.runpath) == ("", "libone.so", (), ("/a",))
    assert found.skips_defaults


def test_a_static_program_needs_nothing(guest: dict[str, Path]) -> None:
    found = elf.read(str(guest["verbs"]))
    assert found is not None and (found.loader, found.needed) == ("", ())


@pytest.mark.parametrize("data", [b"", b"text", b"\x7fELF", b"\x7fELF" + bytes(60), foreign()[:70]])
def test_what_is_no_elf_file_or_a_broken_one_is_none(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    assert elf.read(str(tmp_path / "file")) is None


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "libone.so"
    compiled.library(path, "one")
    first = elf.read(str(path))
    compiled.library(tmp_path / "other" / "libone.so", "one", flags=("-Wl,-rpath,/x",)).replace(path)
    second = elf.read(str(path))
    assert first is not None and second is not None and first.runpath + first.rpath != second.runpath + second.rpath
