"""Libraries are found where the dynamic loader finds them: each case is also run, with the loader's own word for it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import compiled
import pytest

from sandbox_native.elf import Binary
from sandbox_native.libraries import Libraries

OLD, NEW = "-Wl,--disable-new-dtags", "-Wl,--enable-new-dtags"  # DT_RPATH, DT_RUNPATH
pytestmark = pytest.mark.needs("cc")


def chain(*paths: Path) -> list[Binary]:
    found = [Libraries().read(str(path)) for path in paths]
    return [one for one in found if one is not None]


def find(name: str, *paths: Path) -> tuple[str, ...]:
    binaries = chain(*paths)
    return Libraries().find(name, binaries, binaries[0].loader)


def loaded(program: Path) -> dict[str, str]:
    """Name -> path as the loader itself tells them, with a clean environment."""
    told = subprocess.run([program], env={"LD_TRACE_LOADED_OBJECTS": "1"}, capture_output=True, text=True, check=True).stdout
    pairs = [line.split(" => ") for line in told.splitlines() if " => " in line]
    return {name.strip(): path.split(" (")[0] for name, path in pairs}


def same(found: tuple[str, ...], path: str | Path) -> bool:
    return bool(found) and os.path.realpath(found[0]) == os.path.realpath(path)


def test_libraries_of_the_system_come_from_the_cache_or_the_standard_directories() -> None:
    shell = Path("/bin/sh")
    for name, path in loaded(shell).items():
        assert same(find(name, shell), path)


@pytest.mark.parametrize("tags", [OLD, NEW])
def test_origin_is_the_real_directory_of_the_program(tmp_path: Path, tags: str) -> None:
    library = compiled.library(tmp_path / "app" / "lib" / "libone.so", "one")
    flags = ("-Wl,-rpath,$ORIGIN/../lib", tags)
    program = compiled.program(tmp_path / "app" / "bin" / "prog", calls=("one",), libraries=library.parent, flags=flags)
    link = tmp_path / "link"
    link.symlink_to(program)
    assert same(find("libone.so", link), library) and same(find("libone.so", program), loaded(link)["libone.so"])


def test_origin_of_a_library_is_where_it_was_found(tmp_path: Path) -> None:
    one = compiled.library(tmp_path / "a" / "libone.so", "one")
    two = compiled.library(tmp_path / "a" / "libtwo.so", "two", needs=("one",), flags=("-Wl,-rpath,${ORIGIN}", NEW))
    program = compiled.program(tmp_path / "prog", calls=("two",), libraries=two.parent, flags=("-Wl,-rpath,$ORIGIN/a", NEW))
    assert same(find("libtwo.so", program), two)
    assert same(find("libone.so", program, two), one) and same(find("libone.so", program, two), loaded(program)["libone.so"])


@pytest.mark.parametrize(("tags", "inherited"), [(OLD, True), (NEW, False)])
def test_rpath_is_inherited_and_runpath_is_not(tmp_path: Path, tags: str, inherited: bool) -> None:
    one = compiled.library(tmp_path / "a" / "libone.so", "one")
    two = compiled.library(tmp_path / "a" / "libtwo.so", "two", needs=("one",))
    program = compiled.program(tmp_path / "prog", calls=("two",), libraries=two.parent, flags=("-Wl,-rpath,$ORIGIN/a", tags))
    assert bool(find("libone.so", program, two)) is inherited
    assert loaded(program)["libone.so"] == (str(one) if inherited else "not found")


def test_runpath_of_a_library_keeps_the_rpath_of_others_away(tmp_path: Path) -> None:
    one = compiled.library(tmp_path / "a" / "libone.so", "one")
    two = compiled.library(tmp_path / "a" / "libtwo.so", "two", needs=("one",), flags=("-Wl,-rpath,/nowhere", NEW))
    program = compiled.program(tmp_path / "prog", calls=("two",), libraries=one.parent, flags=("-Wl,-rpath,$ORIGIN/a", OLD))
    assert find("libone.so", program, two) == () and loaded(program)["libone.so"] == "not found"


def test_a_library_for_another_machine_is_passed_over(tmp_path: Path) -> None:
    library = compiled.library(tmp_path / "good" / "libone.so", "one")
    flags = ("-Wl,-rpath,$ORIGIN/bad:$ORIGIN/none:$ORIGIN/good",)
    program = compiled.program(tmp_path / "prog", calls=("one",), libraries=library.parent, flags=flags)
    (tmp_path / "bad").mkdir()
    data = bytearray(library.read_bytes())
    data[18] ^= 0xFF  # e_machine
    (tmp_path / "bad" / "libone.so").write_bytes(data)
    assert same(find("libone.so", program), library) and same(find("libone.so", program), loaded(program)["libone.so"])


def test_variants_for_some_processors_are_all_found(tmp_path: Path) -> None:
    plain = compiled.library(tmp_path / "lib" / "libone.so", "one")
    fast = compiled.library(tmp_path / "lib" / "glibc-hwcaps" / "x86-64-v2" / "libone.so", "one")
    flags = ("-Wl,-rpath,$ORIGIN/lib",)
    program = compiled.program(tmp_path / "prog", calls=("one",), libraries=plain.parent, flags=flags)
    assert find("libone.so", program) == (str(plain), str(fast))
    assert loaded(program)["libone.so"] in (str(plain), str(fast))


def test_the_standard_directories_can_be_left_out(tmp_path: Path) -> None:
    program = compiled.program(tmp_path / "prog", flags=("-Wl,-z,nodefaultlib", "-Wl,-rpath,/nowhere"))
    (binary,) = chain(program)
    libc = next(name for name in binary.needed if name.startswith("libc."))
    assert binary.skips_defaults
    assert Libraries().find(libc, [binary], binary.loader) == () and loaded(program)[libc] == "not found"


def test_a_name_with_a_slash_is_a_path(tmp_path: Path) -> None:
    library = compiled.library(tmp_path / "libone.so", "one")
    program = compiled.program(tmp_path / "prog")
    assert find(str(library), program) == (str(library),)
    assert find("no/such.so", program) == () == find("libnobody-has-this.so", program)


def test_lib_and_platform_are_replaced_by_what_they_may_mean(tmp_path: Path) -> None:
    library = compiled.library(tmp_path / "lib64" / os.uname().machine / "libone.so", "one")
    flags = ("-Wl,-rpath,$ORIGIN/$LIB/$PLATFORM",)
    program = compiled.program(tmp_path / "prog", calls=("one",), libraries=library.parent, flags=flags)
    assert same(find("libone.so", program), library)


@pytest.mark.needs("musl-gcc")
def test_musls_loader_is_its_libc(tmp_path: Path) -> None:
    program = compiled.program(tmp_path / "prog", cc="musl-gcc")
    (binary,) = chain(program)
    assert "ld-musl" in binary.loader
    assert Libraries().find("libc.so", [binary], binary.loader) == (binary.loader,)
    assert subprocess.run([program]).returncode == 0
