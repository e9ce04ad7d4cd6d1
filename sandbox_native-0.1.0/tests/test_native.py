"""The stubs name what the built extension has, and the tables of system calls are those of this machine."""

from __future__ import annotations

import ast
import platform
from pathlib import Path
from typing import Any

import pytest

import sandbox_native
from sandbox_native._native import ffi, lib

PACKAGE = Path(sandbox_native.__file__).parent


def stub(name: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse((PACKAGE / name).read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def members(node: ast.ClassDef) -> list[str]:
    names = []
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            names.append(item.target.id)
        elif isinstance(item, ast.FunctionDef):
            names.append(item.name)
    return names


def table(entry: Any) -> dict[str, int]:
    found = {}
    while entry.name != ffi.NULL:
        found[ffi.string(entry.name).decode()] = entry.number
        entry += 1
    return found


def test_stub_of_lib_names_every_function_and_constant() -> None:
    assert sorted(members(stub("_native.pyi")["_Lib"])) == sorted(dir(lib))


def test_stubs_of_structs_have_their_fields_in_order() -> None:
    structs = {name: node for name, node in stub("_native_types.pyi").items() if name not in ("CData", "Buffer")}
    assert {"Box", "Stream", "Report", "Process", "Failure", "Request"} <= structs.keys()
    for name, node in structs.items():
        kind = ffi.typeof(f"struct sn_{name.lower()}")
        assert kind.fields is not None
        assert members(node) == [field for field, _ in kind.fields], name


def test_native_table_has_the_numbers_of_this_machine() -> None:
    calls = table(lib.sn_syscalls())
    wanted = {"x86_64": {"read": 0, "execve": 59}, "aarch64": {"read": 63, "execve": 221}}[platform.machine()]
    assert {name: calls[name] for name in wanted} == wanted
    assert (calls["pidfd_send_signal"], calls["clone3"]) == (424, 435), "the same everywhere"


def test_tables_have_no_x32_numbers_and_no_markers_of_the_headers() -> None:
    for calls in (table(lib.sn_syscalls()), table(lib.sn_syscalls_other())):
        assert all(0 <= number < 1 << 30 for number in calls.values())
        assert not {"syscalls", "syscall_max", "arch_specific_syscall"} & calls.keys()


@pytest.mark.needs("x86_64")
def test_foreign_table_is_that_of_i386() -> None:
    calls = table(lib.sn_syscalls_other())
    assert (calls["read"], calls["execve"], calls["socketcall"]) == (3, 11, 102)
    assert (lib.sn_audit_arch(), lib.sn_audit_arch_other()) == (0xC000003E, 0x40000003)
