"""What the compiler and the linker made of csrc/: the extension and the launcher as files."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.constants import P_FLAGS
from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.enums import ENUM_DT_FLAGS, ENUM_DT_FLAGS_1
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

NEWEST_GLIBC = (2, 34)  # the README states it: Debian 12, Ubuntu 22.04, RHEL 9 and whatever is newer
CANARY_LOADS = {"EM_X86_64": rb"\x64\x48[\x2b\x33\x8b][\x04\x0c\x14\x1c\x24\x2c\x34\x3c]\x25\x28\x00\x00\x00"}


def built(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def launcher_path() -> Path:
    return Path(os.environ.get("SANDBOX_NATIVE_LAUNCHER") or built("sandbox_native").with_name("_launcher"))


def warm_path() -> Path:
    return built("sandbox_native").with_name("_warm.so")


@pytest.fixture(params=["extension", "launcher", "warm"])
def elf(request: pytest.FixtureRequest) -> Iterator[ELFFile]:
    paths = {"launcher": launcher_path, "warm": warm_path, "extension": lambda: built("sandbox_native._native")}
    with paths[request.param]().open("rb") as file:
        yield ELFFile(file)


def test_the_warm_library_offers_its_own_functions_and_takes_only_libcs_and_pythons() -> None:
    with warm_path().open("rb") as file:
        names = [symbol for symbol in symbols(ELFFile(file), ".dynsym") if symbol.name]
        versions = section_of_versions(ELFFile(file))
    offered = {symbol.name for symbol in names if symbol.entry.st_shndx != "SHN_UNDEF"}
    assert offered and all(name.startswith("sn_warm_") for name in offered)
    missing = [symbol for symbol in names if symbol.entry.st_shndx == "SHN_UNDEF"]
    taken = {symbol.name for symbol in missing if symbol.entry.st_info.bind == "STB_GLOBAL"}
    assert {name for name in taken if not name.startswith("Py")} <= versions


def section_of_versions(elf: ELFFile) -> set[str]:
    """Names of symbols that a library with versions is to give."""
    table, versions = elf.get_section_by_name(".dynsym"), elf.get_section_by_name(".gnu.version")
    assert isinstance(table, SymbolTableSection)
    assert isinstance(versions, GNUVerSymSection)
    pairs = zip(table.iter_symbols(), versions.iter_symbols(), strict=True)
    return {symbol.name for symbol, version in pairs if version["ndx"] not in ("VER_NDX_LOCAL", "VER_NDX_GLOBAL")}


@pytest.fixture
def launcher() -> Iterator[ELFFile]:
    with launcher_path().open("rb") as file:
        yield ELFFile(file)


def dynamic_tags(elf: ELFFile) -> dict[str, Any]:
    section = elf.get_section_by_name(".dynamic")
    assert isinstance(section, DynamicSection)
    return {tag.entry.d_tag: tag for tag in section.iter_tags()}


def flag(tags: dict[str, Any], tag: str, bit: int) -> bool:
    return tag in tags and bool(tags[tag].entry.d_val & bit)


def symbols(elf: ELFFile, table: str) -> list[Any]:
    section = elf.get_section_by_name(table)
    return list(section.iter_symbols()) if isinstance(section, SymbolTableSection) else []


def functions_of(elf: ELFFile, sources: set[str]) -> Iterator[tuple[str, bytes]]:
    """Names and code of the static functions that the symbol table lists beneath one of these source files."""
    current = ""
    for symbol in symbols(elf, ".symtab"):
        kind = symbol.entry.st_info.type
        if kind == "STT_FILE":
            current = symbol.name
        elif kind == "STT_FUNC" and current in sources and symbol.entry.st_info.bind == "STB_LOCAL":
            section = elf.get_section(symbol.entry.st_shndx)
            start = symbol.entry.st_value - section.header.sh_addr
            yield symbol.name, section.data()[start : start + symbol.entry.st_size]


def test_the_launcher_keeps_its_run_bit() -> None:
    assert os.access(launcher_path(), os.X_OK)
    assert launcher_path().stat().st_mode & 0o111 == 0o111


def test_the_extension_is_for_the_stable_abi() -> None:
    assert built("sandbox_native._native").name == "_native.abi3.so"


def test_code_is_loaded_at_a_random_address(elf: ELFFile) -> None:
    assert elf.header.e_type == "ET_DYN"
    assert "DT_TEXTREL" not in dynamic_tags(elf)


def test_the_launcher_is_an_executable_not_a_library(launcher: ELFFile) -> None:
    assert flag(dynamic_tags(launcher), "DT_FLAGS_1", ENUM_DT_FLAGS_1["DF_1_PIE"])
    assert launcher.header.e_entry != 0


def test_relocations_are_read_only_and_all_bound_at_the_start(elf: ELFFile) -> None:
    tags = dynamic_tags(elf)
    assert any(segment.header.p_type == "PT_GNU_RELRO" for segment in elf.iter_segments())
    assert (
        flag(tags, "DT_FLAGS", ENUM_DT_FLAGS["DF_BIND_NOW"])
        or flag(tags, "DT_FLAGS_1", ENUM_DT_FLAGS_1["DF_1_NOW"])
        or "DT_BIND_NOW" in tags
    )


def test_the_stack_is_not_executable(elf: ELFFile) -> None:
    [stack] = [segment for segment in elf.iter_segments() if segment.header.p_type == "PT_GNU_STACK"]
    assert not stack.header.p_flags & P_FLAGS.PF_X


def test_no_memory_is_writable_and_executable(elf: ELFFile) -> None:
    both = P_FLAGS.PF_W | P_FLAGS.PF_X
    assert [s for s in elf.iter_segments() if s.header.p_type == "PT_LOAD" and s.header.p_flags & both == both] == []


def test_stacks_have_a_canary(elf: ELFFile) -> None:
    """A dynamic file imports the failure function. A static one holds libc's own protected code as well, so there
    the canary is looked for in the code of our own functions."""
    imported = [symbol.name for symbol in symbols(elf, ".dynsym")]
    if "DT_NEEDED" in dynamic_tags(elf):
        assert "__stack_chk_fail" in imported
        return
    assert "__stack_chk_fail" in [symbol.name for symbol in symbols(elf, ".symtab")]
    if elf.header.e_machine in CANARY_LOADS:
        ours = {path.name for path in Path(__file__).parents[1].glob("csrc/*/*.c")}
        load = re.compile(CANARY_LOADS[elf.header.e_machine], re.DOTALL)
        assert [name for name, code in functions_of(elf, ours) if load.search(code)] != []


def test_no_library_path_is_built_in(elf: ELFFile) -> None:
    assert not {"DT_RPATH", "DT_RUNPATH"} & dynamic_tags(elf).keys()


def test_no_library_newer_than_stated_is_needed(elf: ELFFile) -> None:
    needed = set()
    for section in elf.iter_sections():
        if isinstance(section, GNUVerNeedSection):
            needed |= {auxiliary.name for _, auxiliaries in section.iter_versions() for auxiliary in auxiliaries}
    glibc = {tuple(map(int, name.split("_")[1].split("."))) for name in needed if re.fullmatch(r"GLIBC_[\d.]+", name)}
    assert max(glibc, default=(0,)) <= NEWEST_GLIBC
    assert {name for name in needed if not name.startswith("GLIBC_")} == set()
