"""A clone of a warm interpreter runs a script as a cold `python -I script.py` does: same output, same errors, same end.

Every script here is run both ways, with every interpreter that SANDBOX_NATIVE_TEST_PYTHONS names (by default the system's).
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
import warm_scripts_end
import warm_scripts_life
import warm_scripts_start

from sandbox_native import Policy, Result, Sandbox
from sandbox_native.warm.python import WarmPython

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
PYTHONS = os.environ.get("SANDBOX_NATIVE_TEST_PYTHONS", "/usr/bin/python3").split(os.pathsep)
IMPORTED = ["json", "logging", "random", "threading", "multiprocessing", "tempfile", "subprocess"]
SCRIPT = "/workspace/main.py"


class Both:
    """One script run by a clone and cold, in boxes that are the same otherwise."""

    def __init__(self, warm: WarmPython, cold: Sandbox, python: str) -> None:
        self.warm, self.cold, self.python = warm, cold, python

    def run(self, code: str, args: tuple[str, ...] = (), **options: Any) -> tuple[Result, Result]:
        files = {**options.pop("files", {}), "main.py": code.encode()}
        cold = self.cold.run([self.python, "-I", SCRIPT, *args], files=files, **options)
        del files["main.py"]
        return self.warm.run(code, args, files=files, **options), cold


@pytest.fixture(params=PYTHONS)
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    with WarmPython(IMPORTED, python=request.param) as warm, Sandbox(warm.policy) as cold:
        yield Both(warm, cold, request.param)


def seen(result: Result) -> dict[str, object]:
    """Without addresses of objects."""
    found = {name: getattr(result, name) for name in ("status", "exit_code", "signal", "stdout", "stderr")}
    for name in ("stdout", "stderr"):
        found[name] = re.sub(rb"0x[0-9a-f]{6,}", b"0x", found[name])
    return found


def test_the_interpreters_are_there(both: Both) -> None:
    warm, cold = both.run("import sys; print(sys.version, sys.prefix, sys.base_prefix, sys.executable)")
    assert seen(warm) == seen(cold)
    assert warm.exit_code == 0


SCRIPTS = {**warm_scripts_start.SCRIPTS, **warm_scripts_life.SCRIPTS, **warm_scripts_end.SCRIPTS}
OPTIONS: dict[str, dict[str, Any]] = {
    "stdin": {"stdin": b"one\ntwo\nthree\xff"},
    "environment": {"env": {"A": "1", "EMPTY": "", "NON_ASCII": "\u00e9", "TZ": "Asia/Tokyo"}},
    "time zone": {"env": {"TZ": "Asia/Tokyo"}},
    "imports from the workspace": {"files": {"helper.py": b"value = 5\n"}},
    "isolation": {"env": {"PYTHONPATH": "/nowhere", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"}},
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_clone_does_what_a_cold_start_does(both: Both, name: str) -> None:
    code = textwrap.dedent(SCRIPTS[name])
    warm, cold = both.run(code, ("a", "b c", "\u00e9", "-x"), **OPTIONS.get(name, {}))
    assert seen(warm) == seen(cold)


def test_files_are_the_same_after_the_end(both: Both) -> None:
    code = "import json\nleft = open('a', 'w'); left.write('x')\njson.left = open('b', 'w'); json.left.write('y')\n"
    warm, cold = both.run(code, collect=["a", "b"])
    assert {name: bytes(data) for name, data in warm.files.items()} == {name: bytes(data) for name, data in cold.files.items()}
    assert sorted(warm.files) == ["a", "b"]


def test_merged_output_comes_in_the_same_order(both: Both) -> None:
    code = "import sys\nprint(1, flush=True); print(2, file=sys.stderr); print(3, flush=True); 1 / 0\n"
    warm, cold = both.run(code, merge_stderr=True)
    assert seen(warm) == seen(cold)


def test_the_policy_shows_the_interpreter(both: Both) -> None:
    assert isinstance(both.warm.policy, Policy)
