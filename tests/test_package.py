"""The package as it is installed and imported: its names, its metadata, and what it does where it cannot work."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sandbox_native

PUBLIC = {
    *("run", "Sandbox", "Process", "AsyncProcess", "SandboxExecutor", "Budget", "Job", "PipeEnd", "Stats", "Policy", "Limits"),
    *("Overflow", "Rung", "Result", "Status", "Usage", "Enforcement"),
    *("ReadPolicy", "Deletion", "Writes", "Denial", "Changes", "Change", "recover", "CommandGuard", "ExecutableResolver"),
    *("Layer", "SandboxError", "PolicyError", "UnsupportedError", "SetupError", "ExecError", "__version__"),
    "WarmPython",
}
OFF_LINUX = """
import asyncio, ctypes, multiprocessing, selectors, socket, subprocess, sys, tempfile  # as they are here
sys.platform = "darwin"
sys.modules["sandbox_native._native"] = None  # importing it fails, as where it was not built
import sandbox_native
try:
    sandbox_native.run(["/bin/true"])
except sandbox_native.UnsupportedError as error:
    print(error)
"""


def python(code: str, **env: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_exactly_the_public_names_are_exported() -> None:
    assert set(sandbox_native.__all__) == PUBLIC
    assert len(sandbox_native.__all__) == len(PUBLIC)
    assert [name for name in PUBLIC if getattr(sandbox_native, name, None) is None] == []


def test_the_version_is_that_of_the_distribution() -> None:
    assert sandbox_native.__version__ == importlib.metadata.version("sandbox-native")


def test_little_is_required_at_run_time() -> None:
    requirements = importlib.metadata.requires("sandbox-native") or []
    assert [line.split(">")[0] for line in requirements if "extra ==" not in line] == ["cffi", "pyelftools", "tomli-w"]


def test_the_extras_are_those_stated() -> None:
    extras = importlib.metadata.metadata("sandbox-native").get_all("Provides-Extra")
    assert sorted(extras or []) == ["bench", "cli", "judge", "test"]


def test_the_command_is_the_module_s_main() -> None:
    [script] = importlib.metadata.entry_points(group="console_scripts", name="sandbox-native")
    assert script.value == "sandbox_native.cli:main"
    assert callable(script.load())


def test_types_are_shipped() -> None:
    package = Path(sandbox_native.__file__).parent
    assert (package / "py.typed").exists()
    assert (package / "_native.pyi").exists()


def test_importing_starts_nothing_and_probes_nothing() -> None:
    assert python("import os, sandbox_native; print(os.listdir('/proc/self/task') == [str(os.getpid())])") == "True\n"
    assert python("import sys, sandbox_native; print('rich' in sys.modules, 'sandbox_native.bench' in sys.modules)") == (
        "False False\n"
    )


def test_off_linux_the_package_imports_and_run_says_what_is_missing() -> None:
    message = python(OFF_LINUX)
    assert "Linux" in message


@pytest.mark.kernel
def test_another_copy_of_the_launcher_can_be_named(tmp_path: Path) -> None:
    original = Path(sandbox_native.__file__).with_name("_launcher")
    copy = Path(shutil.copy2(original, tmp_path / "launcher"))
    code = "import sandbox_native as sn; print(sn.run(['/bin/echo', 'hi']).text, end='')"
    assert python(code, SANDBOX_NATIVE_LAUNCHER=str(copy)) == "hi\n"


def test_a_launcher_that_is_not_there_is_named_in_the_error(tmp_path: Path) -> None:
    code = "import sandbox_native as sn\ntry: sn.run(['/bin/true'])\nexcept sn.SandboxError as error: print(repr(error), error)"
    absent = str(tmp_path / "absent")
    assert absent in python(code, SANDBOX_NATIVE_LAUNCHER=absent)


def test_a_source_tree_that_is_not_built_says_so(tmp_path: Path) -> None:
    package = Path(sandbox_native.__file__).parent
    shutil.copytree(package, tmp_path / "sandbox_native", ignore=shutil.ignore_patterns("*.so", "_launcher", "__pycache__"))
    (tmp_path / "csrc").mkdir()
    (tmp_path / "csrc" / "ffi_build.py").touch()
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import sandbox_native as sn\n"
        "try:\n    sn.run(['/bin/true'])\nexcept sn.UnsupportedError as error:\n    print(error)"
    )
    said = python(code)
    assert f"sandbox_native is not built in {tmp_path}" in said and "pip install -e ." in said
    for command in (["run", "--", "true"], ["doctor"]):
        done = subprocess.run(
            [sys.executable, "-m", "sandbox_native", *command], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert "is not built in" in done.stdout + done.stderr and "Traceback" not in done.stderr
        assert done.returncode == (125 if command[0] == "run" else 1)
