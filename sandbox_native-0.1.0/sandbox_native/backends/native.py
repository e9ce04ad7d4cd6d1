"""Between the C structs and Python's values: failures to exceptions, reports to `verdict.ReportData`."""

from __future__ import annotations

import functools
import os
import struct
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from sandbox_native import seccomp
from sandbox_native._native import ffi, lib
from sandbox_native.errors import SetupError, setup_error
from sandbox_native.syscalls_bare import BARE
from sandbox_native.verdict import ReportData

# struct sn_report up to its failure record; a version comes first and padding last. In one call, since the caller waits
# for it. tests/test_contracts.py compares it, and ReportData's fields, with the compiled layout.
REPORT: Final = struct.Struct("=IIIi 13Q IIIIii")


def failure_of(why: Any) -> SetupError:
    """`why` is a struct sn_failure."""
    return setup_error(why.stage, why.error, text(why.item))


def raise_failure(why: Any) -> NoReturn:
    raise failure_of(why)


def text(item: Any) -> str:
    return os.fsdecode(ffi.string(item))


def report_data(report: Any) -> ReportData:
    """`report` is a struct sn_report that stays the box's."""
    values = REPORT.unpack_from(ffi.buffer(ffi.addressof(report)))
    data = ReportData(*values[1:-1])
    if data.kind != lib.SN_REPORT_FAILED:
        return data
    failure = report.failure
    return data._replace(failure_stage=failure.stage, failure_error=failure.error, failure_item=text(failure.item))


@functools.cache
def syscalls() -> Mapping[str, int]:
    """Name -> number, of this build."""
    return _table(lib.sn_syscalls())


@functools.cache
def _syscalls_other() -> Mapping[str, int]:
    return _table(lib.sn_syscalls_other())


def _table(entry: Any) -> Mapping[str, int]:
    found = {}
    while entry.name != ffi.NULL:
        found[ffi.string(entry.name).decode()] = entry.number
        entry += 1
    return found


def call_name(arch: int, number: int) -> str | None:
    """What a number means on an architecture, which may be the foreign one."""
    if arch == lib.sn_audit_arch():
        # x32 calls are the native ones with a bit set; those that it has of its own (from 512 on) have no name here.
        return seccomp.name_of(syscalls(), number & ~seccomp.X32_BIT)
    return seccomp.name_of(_syscalls_other() if arch == lib.sn_audit_arch_other() else {}, number)


@functools.cache
def strict_filter(listens: bool, groups: tuple[str, ...] = ()) -> bytes:
    """`listens`: init hears of a call that the filter ends, and says which it was. `groups` of syscalls.OPTIONAL are
    permitted."""
    action = seccomp.RET_USER_NOTIF if listens else seccomp.RET_KILL_PROCESS
    return seccomp.filter_bytes(syscalls(), lib.sn_audit_arch(), end_action=action, groups=groups)


@functools.cache
def bare_filter() -> bytes:
    """Of the rung without namespaces."""
    return seccomp.filter_bytes(syscalls(), lib.sn_audit_arch(), end_action=seccomp.RET_USER_NOTIF, instead=BARE)


@functools.cache
def explaining_filters(groups: tuple[str, ...] | None) -> tuple[bytes, bytes]:
    """The filter that asks the supervisor, and the one by which it answers. None: only calls with paths are looked at."""
    arch = lib.sn_audit_arch()
    asks = seccomp.asking_bytes(syscalls(), arch, groups=groups or (), refuses=groups is not None)
    if groups is None:
        return asks, seccomp.allowing_bytes()
    return asks, seccomp.filter_bytes(syscalls(), arch, end_action=seccomp.RET_KILL_PROCESS, groups=groups)
