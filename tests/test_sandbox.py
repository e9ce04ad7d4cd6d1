"""Sandbox: what runs give back, and where and with what the guest runs."""

from __future__ import annotations

import errno
import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import init_kept_the_limit
from running import PYTHON, nap, sh, sleepers

from sandbox_native import (
    Limits,
    Overflow,
    Sandbox,
    SetupError,
    Status,
)

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# ---- results ----


def test_output_and_exit_code_come_back(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("echo out; echo err >&2; exit 3"))
    assert (result.status, result.exit_code, result.signal) == (Status.NONZERO_EXIT, 3, None)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")
    assert not result.ok


@pytest.mark.parametrize("code", [0, 1, 2, 126, 127, 128, 255])
def test_exit_codes_are_the_guests_own(sandbox: Sandbox, code: int) -> None:
    assert sandbox.run(sh(f"exit {code}")).exit_code == code


@pytest.mark.parametrize("name", ["ABRT", "TERM", "KILL", "SEGV", "INT", "HUP", "PIPE", "USR1"])
def test_fatal_signals_are_the_guests_own(sandbox: Sandbox, name: str) -> None:
    result = sandbox.run(sh(f"kill -{name} $$"))
    assert (result.status, result.signal) == (Status.SIGNALED, signal.Signals[f"SIG{name}"].value)


def test_merged_stderr_keeps_the_order(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("echo 1; echo 2 >&2; echo 3"), merge_stderr=True)
    assert (result.stdout, result.stderr) == (b"1\n2\n3\n", b"")


def test_output_past_the_bound_is_counted(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("head -c 100000 /dev/zero"), limits=Limits(stdout_bytes=1000))
    assert (len(result.stdout), result.stdout_total, result.stdout_truncated) == (1000, 100000, True)
    assert result.ok


def test_output_past_the_bound_can_end_the_run(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("yes"), limits=Limits(stdout_bytes=1000, on_overflow=Overflow.KILL))
    assert result.status is Status.OUTPUT_LIMIT


def test_sixty_four_mebibytes_go_in_and_out_at_once(sandbox: Sandbox) -> None:
    data = os.urandom(1 << 20) * 64
    limits = Limits(stdout_bytes=64 << 20, wall_seconds=60)
    assert sandbox.run(["/bin/cat"], stdin=data, limits=limits).stdout == data


def test_a_guest_that_never_reads_its_stdin_is_no_error(sandbox: Sandbox) -> None:
    assert sandbox.run(sh("exit 7"), stdin=b"x" * (8 << 20)).exit_code == 7


def test_wall_limit_keeps_what_was_written(sandbox: Sandbox) -> None:
    result = sandbox.run(sh(f"echo part; sleep {nap(301)} & sleep {nap(301)}"), limits=Limits(wall_seconds=0.5))
    assert init_kept_the_limit(result) and (result.exit_code, result.signal) == (None, None)
    assert result.stdout == b"part\n"
    assert result.killed_processes >= 2
    assert not sleepers(301)


def test_a_grandchild_that_holds_stdout_does_not_delay_the_result(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("echo hi; (sleep 60 &); exit 0"), limits=Limits(wall_seconds=300))
    assert (result.stdout, result.killed_processes) == (b"hi\n", 1), "the grandchild was there to the end"


def test_cpu_limit_holds_for_the_whole_tree(sandbox: Sandbox) -> None:
    code = "import os\nfor _ in range(3): os.fork()\nwhile 1: pass"
    result = sandbox.run([PYTHON, "-c", code], limits=Limits(cpu_seconds=0.5))
    assert result.status is Status.CPU_LIMIT
    assert result.usage.cpu_seconds < 1


def test_memory_limit_is_told_from_a_sigkill(sandbox: Sandbox) -> None:
    eat = "b = bytearray(900 << 20)\nb[::4096] = b'x' * len(b[::4096])"
    limits = Limits(memory_bytes=64 << 20)
    assert sandbox.run([PYTHON, "-c", eat], limits=limits).status is Status.MEMORY_LIMIT
    assert sandbox.run(sh("kill -9 $$"), limits=limits).status is Status.SIGNALED


def test_a_result_can_be_pickled(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("echo hi"))
    assert pickle.loads(pickle.dumps(result)) == result


def test_peak_memory_does_not_grow_with_the_host(sandbox: Sandbox) -> None:
    ballast = bytearray(256 << 20)
    ballast[::4096] = b"x" * len(ballast[::4096])
    assert sandbox.run(["/bin/true"]).usage.peak_memory_bytes < 16 << 20


# ---- where and with what the guest runs ----


def test_environment_is_ours_and_what_the_caller_adds(sandbox: Sandbox) -> None:
    result = sandbox.run(["/usr/bin/env"], env={"LC_ALL": "C", "MORE": "a=b\n"})
    assert b"LC_ALL=C\n" in result.stdout and b"LANG=C.UTF-8\n" in result.stdout
    assert b"MORE=a=b\n\n" in result.stdout
    assert b"HOME=/home/guest\n" in result.stdout
    assert not any(name.encode() + b"=" in result.stdout for name in ("PYTEST_CURRENT_TEST", "PYTEST_VERSION"))


def test_python_speaks_utf_8(sandbox: Sandbox) -> None:
    result = sandbox.run([PYTHON, "-c", "import sys; print(sys.stdout.encoding, '\u20ac')"], env={})
    assert result.text == "utf-8 \u20ac\n"


def test_cwd_is_the_workspace_or_what_was_asked(sandbox: Sandbox) -> None:
    assert sandbox.run(["/bin/pwd"]).stdout == b"/workspace\n"
    assert sandbox.run(["/bin/pwd"], cwd="/usr/bin").stdout == b"/usr/bin\n"
    with pytest.raises(SetupError) as caught:
        sandbox.run(["/bin/pwd"], cwd="/nowhere")
    assert (caught.value.stage, caught.value.errno, caught.value.item) == ("cwd", errno.ENOENT, "/nowhere")


@pytest.mark.parametrize("data", [b"bytes", bytearray(b"bytes"), memoryview(b"bytes"), b""])
def test_stdin_is_bytes(sandbox: Sandbox, data: bytes) -> None:
    assert sandbox.run(["/bin/cat"], stdin=data).stdout == bytes(data)


def test_stdin_is_empty_unless_asked(sandbox: Sandbox) -> None:
    assert sandbox.run(["/bin/cat"]).stdout == b""


def test_stdin_is_a_path_or_a_descriptor(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"line\n" * 100000)
    assert sandbox.run(["/usr/bin/wc", "-l"], stdin=path).stdout == b"100000\n"
    assert sandbox.run(["/usr/bin/wc", "-l"], stdin=str(path)).stdout == b"100000\n"
    with path.open("rb") as file:
        assert sandbox.run(["/usr/bin/wc", "-l"], stdin=file.fileno()).stdout == b"100000\n"
        assert file.read(1) == b"", "the host has read it to its end"


def test_the_guest_cannot_open_the_hosts_stdin_for_writing(sandbox: Sandbox, tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(b"old")
    path.chmod(0o666)
    sandbox.run(sh("echo new >> /proc/self/fd/0; echo new > /dev/stdin; cat"), stdin=path)
    assert path.read_bytes() == b"old"
