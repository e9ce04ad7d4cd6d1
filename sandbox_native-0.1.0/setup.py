"""Builds what pyproject.toml cannot describe: the extension (through cffi), the launcher, and the library of a warm interpreter.

The two are compiled after the extension, by the same `build_ext` command, so they land beside it in
a wheel, in an editable install and with `build_ext --inplace`. `build_launcher` alone compiles another
copy of it, for example with sanitizers or for another machine. Off Linux neither is built: the wheel is
pure Python and says at run time what is missing.

Environment: CC, CFLAGS and LDFLAGS as usual; SANDBOX_NATIVE_WERROR=1 makes warnings errors;
SANDBOX_NATIVE_SANITIZE=address,undefined makes a dynamic launcher with these sanitizers.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
PACKAGE = "sandbox_native"
WARNINGS = ["-Wall", "-Wextra", "-Wshadow"]
HARDENING = ["-fstack-protector-strong", "-fstack-clash-protection", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
HARDENED_LINK = ["-Wl,-z,relro,-z,now,-z,noexecstack"]


def env_flags(name: str) -> list[str]:
    return shlex.split(os.environ.get(name, ""))


def compiler() -> list[str]:
    return env_flags("CC") or ["cc"]


def common_flags() -> list[str]:
    """What the launcher and the extension are both compiled with."""
    machine = subprocess.run([*compiler(), "-dumpmachine"], check=True, capture_output=True, text=True).stdout
    flags = ["-std=gnu11", "-O2", *WARNINGS, *HARDENING]
    if machine.startswith(("x86_64", "i686")):
        flags.append("-fcf-protection")
    if os.environ.get("SANDBOX_NATIVE_WERROR") == "1":
        flags.append("-Werror")
    return flags


def static_pie_links() -> bool:
    """Whether the toolchain has what a static position-independent executable needs (a PIC libc.a, rcrt1.o)."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "main.c")
        source.write_text("int main(void) { return 0; }\n")
        command = [*compiler(), "-fPIE", str(source), "-o", str(source.with_suffix("")), "-static-pie"]
        return subprocess.run(command, capture_output=True).returncode == 0


def compile_whole(output: Path, sources: list[Path], flags: list[str], link: list[str]) -> None:
    """One executable or library of ours; in place all at once, since one that runs cannot be written to."""
    output.parent.mkdir(parents=True, exist_ok=True)
    fresh = output.with_name(f"{output.name}.{os.getpid()}")
    command = [*compiler(), *flags, f"-I{ROOT / 'csrc'}", *env_flags("CFLAGS")]
    command += [*map(str, sorted(sources)), "-o", str(fresh), *link, *HARDENED_LINK, *env_flags("LDFLAGS")]
    try:
        subprocess.run(command, check=True)
        fresh.chmod(0o755)
        fresh.replace(output)
    finally:
        fresh.unlink(missing_ok=True)


def build_warm(output: Path) -> None:
    """What a warm interpreter loads: the launcher's files, but for what only the launcher does. The interpreter has the rest."""
    only_launcher = {"main.c", "template.c", "warm_none.c", "warm_start.c"}
    sources = [path for path in ROOT.glob("csrc/launcher/*.c") if path.name not in only_launcher]
    sources += [*ROOT.glob("csrc/warm/*.c"), *ROOT.glob("csrc/common/*.c")]
    compile_whole(output, sources, [*common_flags(), "-fPIC", "-fvisibility=hidden"], ["-shared"])


def build_launcher(output: Path) -> None:
    sources = [*ROOT.glob("csrc/launcher/*.c"), *ROOT.glob("csrc/common/*.c")]
    flags = common_flags()
    sanitizers = os.environ.get("SANDBOX_NATIVE_SANITIZE", "")
    if sanitizers:
        # Fortified calls would hide the accesses from the sanitizer.
        flags += ["-U_FORTIFY_SOURCE", "-g", "-fno-omit-frame-pointer", f"-fsanitize={sanitizers}"]
        flags += ["-fno-sanitize-recover=all"]
        sources.append(ROOT / "csrc/sanitizer_options.c")
        link = ["-pie"]
    else:
        link = ["-static-pie"] if static_pie_links() else ["-pie"]
    compile_whole(output, sources, [*flags, "-fPIE"], link)


class BuildLauncher(Command):
    description = "build the launcher alone"
    user_options = [("output=", "o", "path of the executable")]  # noqa: RUF012 (declared so by setuptools)

    def initialize_options(self) -> None:
        self.output: str = str(ROOT / PACKAGE / "_launcher")

    def finalize_options(self) -> None:
        self.output = os.path.abspath(self.output)

    def run(self) -> None:
        build_launcher(Path(self.output))


class BuildExt(build_ext):
    def build_extension(self, ext: Extension) -> None:
        ext.extra_compile_args = [*common_flags(), *ext.extra_compile_args]
        ext.extra_link_args = [*HARDENED_LINK, *ext.extra_link_args]
        super().build_extension(ext)

    def run(self) -> None:
        super().run()
        build_launcher(self._beside("_launcher"))
        build_warm(self._beside("_warm.so"))

    def get_outputs(self) -> list[str]:
        return [*super().get_outputs(), str(self._beside("_launcher")), str(self._beside("_warm.so"))]

    def _beside(self, name: str) -> Path:
        return (ROOT if self.inplace else Path(self.build_lib)) / PACKAGE / name


def native() -> dict[str, Any]:
    arguments: dict[str, Any] = {
        "cffi_modules": ["csrc/ffi_build.py:ffibuilder"],
        "cmdclass": {"build_ext": BuildExt, "build_launcher": BuildLauncher},
    }
    if not sysconfig.get_config_var("Py_GIL_DISABLED"):  # that build has no stable ABI
        arguments["options"] = {"bdist_wheel": {"py_limited_api": "cp311"}}
    return arguments


setup(**(native() if sys.platform == "linux" else {}))
