"""Tables of system call numbers as C text, from the headers of the build. Called by ffi_build.py.

The preprocessor is asked for its macros, so the numbers are those of the machine that is built for (CC and
CFLAGS may name a cross compiler). The foreign table needs a run of its own: both headers define the same names.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sysconfig

X32_BIT = 1 << 30
DEFINITION = re.compile(r"^#define (__NR(?:3264)?_[a-z0-9_]+) (\w+)$", re.MULTILINE)
NOT_CALLS = {"syscalls", "arch_specific_syscall", "syscall_max"}

NATIVE = """\
#if __has_include(<asm/unistd.h>)
#include <asm/unistd.h>
#else
#include <sys/syscall.h>
#endif
"""
FOREIGN = """\
#if defined(__x86_64__) && __has_include(<asm/unistd_32.h>)
#include <asm/unistd_32.h>
#endif
"""
ACCESSORS = """
#include <linux/audit.h>

const struct sn_syscall *sn_syscalls(void)
{
	return native_calls;
}

const struct sn_syscall *sn_syscalls_other(void)
{
	return foreign_calls;
}

uint32_t sn_audit_arch(void)
{
#if defined(__x86_64__) && !defined(__ILP32__)
	return AUDIT_ARCH_X86_64;
#elif defined(__aarch64__) && defined(__AARCH64EL__)
	return AUDIT_ARCH_AARCH64;
#else
#error "sandbox_native knows x86_64 and aarch64"
#endif
}

uint32_t sn_audit_arch_other(void)
{
	return foreign_calls[0].name ? AUDIT_ARCH_I386 : 0;
}
"""


def compiler() -> list[str]:
    return shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")


def macros(source: str) -> str:
    flags = [*shlex.split(os.environ.get("CPPFLAGS", "")), *shlex.split(os.environ.get("CFLAGS", ""))]
    command = [*compiler(), *flags, "-dM", "-E", "-x", "c", "-"]
    return subprocess.run(command, input=source, check=True, capture_output=True, text=True).stdout


def numbers(defined: str) -> dict[str, int]:
    """Name to number. Some headers name a call through another macro (__NR_fcntl is __NR3264_fcntl)."""
    values = dict(DEFINITION.findall(defined))
    found = {}
    for macro, value in values.items():
        name = macro.removeprefix("__NR_")
        if name == macro or name in NOT_CALLS:
            continue
        while value in values:
            value = values[value]
        if value.isdigit() and not int(value) & X32_BIT:
            found[name] = int(value)
    return found


def table(name: str, calls: dict[str, int]) -> str:
    rows = [f'\t{{"{call}", {number}}},\n' for call, number in sorted(calls.items(), key=lambda item: item[1])]
    return f"static const struct sn_syscall {name}[] = {{\n{''.join(rows)}\t{{0}},\n}};\n"


def c_source() -> str:
    """What ffi_build.py compiles into the extension: two tables and the four functions of decl.h that tell of them."""
    native = numbers(macros(NATIVE))
    if not {"read", "execve", "clone3", "seccomp"} <= native.keys():
        raise RuntimeError("no system call numbers found: are the kernel's headers (linux-libc-dev) installed?")
    foreign = numbers(macros(FOREIGN))
    return table("native_calls", native) + table("foreign_calls", foreign) + ACCESSORS
