"""Bad input to Sandbox gets a clear error, and nothing is lost."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from sandbox_native import (
    ExecError,
    Limits,
    Policy,
    PolicyError,
    Sandbox,
    SetupError,
)

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# ---- bad input ----


@pytest.mark.parametrize(
    "arguments",
    [
        {"argv": []},
        {"argv": "/bin/true"},
        {"argv": [""]},
        {"argv": ["/bin/true", "a\0b"]},
        {"argv": ["/bin/true", 1]},
        {"argv": ["/bin/true", "\ud800"]},
        {"argv": ["/bin/true"], "env": {"A=B": "c"}},
        {"argv": ["/bin/true"], "env": {"": "c"}},
        {"argv": ["/bin/true"], "env": {"A": "c\0"}},
        {"argv": ["/bin/true"], "env": {"A": 1}},
        {"argv": ["/bin/true"], "cwd": "relative"},
        {"argv": ["/bin/true"], "cwd": "/a/../b"},
        {"argv": ["/bin/true"], "stdin": 987654},
        {"argv": ["/bin/true"], "stdin": -1},
        {"argv": ["/bin/true"], "stdin": "/"},
        {"argv": ["/bin/true"], "stdin": "/nowhere"},
        {"argv": ["/bin/true"], "stdin": 1.5},
        {"argv": ["/bin/true"], "files": {"/abs": b""}},
        {"argv": ["/bin/true"], "files": {"../up": b""}},
        {"argv": ["/bin/true"], "files": {"a": "text"}},
        {"argv": ["/bin/true"], "collect": ["/abs"]},
        {"argv": ["/bin/true"], "collect": "name"},
        {"argv": ["/bin/true"], "workspace": "relative"},
        {"argv": ["/bin/true"], "workspace": "/"},
        {"argv": ["/bin/true"], "workspace": "/nowhere"},
        {"argv": ["/bin/true"], "workspace": "/tmp", "files": {"a": b""}},
        {"argv": ["/bin/true"], "limits": 3},
    ],
    ids=repr,
)
def test_nonsense_is_a_policy_error(sandbox: Sandbox, arguments: dict[str, object]) -> None:
    with pytest.raises(PolicyError):
        sandbox.run(**arguments)  # type: ignore[arg-type]
    assert sandbox.run(["/bin/true"]).ok


@pytest.mark.parametrize("program", ["/no/such/program", "no-such-program", "/etc/passwd", "/tmp", "/usr/bin/env/x"])
def test_a_program_that_cannot_start_is_an_exec_error(sandbox: Sandbox, program: str) -> None:
    with pytest.raises(ExecError) as caught:
        sandbox.run([program])
    assert caught.value.stage == "exec"
    assert caught.value.errno in (errno.ENOENT, errno.EACCES, errno.ENOTDIR)
    assert program in caught.value.item


def test_a_bad_interpreter_line_is_told_from_a_missing_program(sandbox: Sandbox) -> None:
    with pytest.raises(ExecError) as caught:
        sandbox.run(["./script"], files={"script": b"#!/no/such/interpreter\n"})
    assert (caught.value.errno, "interpreter" in caught.value.hint) == (errno.ENOENT, True)
    with pytest.raises(ExecError) as caught:
        sandbox.run(["./data"], files={"data": b"\x7fELF"})
    assert caught.value.errno == errno.ENOEXEC


def test_a_huge_argv_is_e2big(sandbox: Sandbox) -> None:
    for argv in (["/bin/true", "x" * (8 << 20)], ["/bin/true", "x" * (200 << 10)], ["/bin/true", *["x" * 1000] * 4000]):
        with pytest.raises(ExecError) as caught:
            sandbox.run(argv)
        assert caught.value.errno == errno.E2BIG


def test_files_that_do_not_fit_are_a_setup_error(sandbox: Sandbox) -> None:
    with pytest.raises(SetupError) as caught:
        sandbox.run(["/bin/true"], files={"big": bytes(2 << 20)}, limits=Limits(tmp_bytes=1 << 20))
    assert (caught.value.stage, caught.value.errno, caught.value.item) == ("files", errno.ENOSPC, "big")


def test_a_closed_sandbox_says_so() -> None:
    sandbox = Sandbox()
    sandbox.close()
    sandbox.close()
    with pytest.raises(PolicyError, match="closed"):
        sandbox.run(["/bin/true"])


@pytest.mark.parametrize("field", ["readable", "writable"])
def test_a_policy_path_that_is_not_there_is_a_policy_error(field: str) -> None:
    with pytest.raises(PolicyError, match="nowhere"):
        Sandbox(Policy.strict(**{field: ["/nowhere"]}))


def test_errors_leak_nothing(sandbox: Sandbox) -> None:
    sandbox.run(["/bin/true"]), sandbox.run(["/bin/true"])
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(50):
        with pytest.raises(ExecError):
            sandbox.run(["/no/such/program"])
    assert sorted(os.listdir("/proc/self/fd")) == before
