"""Sandbox and run(): arguments, results, errors, and what survives of a host that forks, is interrupted or loses its launcher."""

from __future__ import annotations

import _thread
import errno
import os
import pickle
import resource
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import PYTHON, kill_all, launchers, processes_named, sh

from sandbox_native import (
    ExecError,
    Limits,
    Overflow,
    Policy,
    PolicyError,
    Sandbox,
    SandboxError,
    SetupError,
    Status,
    run,
    runner,
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


def test_wall_limit_keeps_what_was_written(sandbox: Sandbox, factor: float) -> None:
    before = time.monotonic()
    result = sandbox.run(sh("echo part; sleep 301 & sleep 301"), limits=Limits(wall_seconds=0.3))
    assert time.monotonic() - before < 0.3 + 0.5 * factor
    assert (result.status, result.exit_code, result.signal) == (Status.WALL_LIMIT, None, None)
    assert result.stdout == b"part\n"
    assert result.killed_processes >= 2
    assert not list(processes_named("sleep\x00301"))


def test_a_grandchild_that_holds_stdout_does_not_delay_the_result(sandbox: Sandbox, factor: float) -> None:
    before = time.monotonic()
    assert sandbox.run(sh("echo hi; (sleep 60 &); exit 0")).stdout == b"hi\n"
    assert time.monotonic() - before < 1 * factor


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
    result = sandbox.run(["/usr/bin/env"], env={"LANG": "C", "MORE": "a=b\n"})
    assert b"LANG=C\n" in result.stdout
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


# ---- a host in trouble ----


def test_no_descriptors_left_is_a_setup_error_and_passes(sandbox: Sandbox) -> None:
    sandbox.run(["/bin/true"]), sandbox.run(["/bin/true"])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    for room in range(12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1 + room, hard))
        try:
            sandbox.run(["/bin/true"])
        except SetupError as error:
            assert error.errno == errno.EMFILE
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert sandbox.run(["/bin/true"]).ok


def test_sigchld_ignored_in_the_host_changes_nothing(sandbox: Sandbox) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert sandbox.run(sh("exit 3")).exit_code == 3
        assert run(sh("exit 3")).exit_code == 3
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_the_host_gets_no_sigchld(sandbox: Sandbox) -> None:
    seen = []
    before = signal.signal(signal.SIGCHLD, lambda *_: seen.append(1))
    try:
        with Sandbox() as another:
            another.run(["/bin/true"])
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert not seen


def test_a_killed_launcher_fails_a_run_and_not_the_next(sandbox: Sandbox) -> None:
    sandbox.run(["/bin/true"])
    kill_all(launchers())
    with pytest.raises(SetupError):
        while True:  # the first run may be in time
            sandbox.run(["/bin/true"])
    assert sandbox.run(sh("echo again")).stdout == b"again\n"


def test_a_launcher_killed_during_a_run_is_a_setup_error(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("echo started; sleep 302")) as process:
        assert process.stdout.readline() == b"started\n"
        kill_all(launchers())
        with pytest.raises(SetupError):
            process.wait(30)
    assert not list(processes_named("sleep\x00302"))
    assert sandbox.run(["/bin/true"]).ok


def test_ctrl_c_ends_the_box_and_is_raised(sandbox: Sandbox, factor: float) -> None:
    before = time.monotonic()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sandbox.run(sh("sleep 303"), limits=Limits(wall_seconds=60))
    timer.join()
    assert time.monotonic() - before < 0.3 + 1 * factor
    assert not list(processes_named("sleep\x00303"))
    assert sandbox.run(["/bin/true"]).ok


def test_a_forked_host_runs_in_a_launcher_of_its_own(sandbox: Sandbox) -> None:
    assert sandbox.run(["/bin/true"]).ok
    assert run(["/bin/true"]).ok
    running = sandbox.spawn(sh("read x; echo $x"))
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if sandbox.run(sh("exit 4")).exit_code == 4 and run(sh("exit 5")).exit_code == 5:
                code = 0
            sandbox.close()
            runner.close_cached()
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
    assert running.stdin is not None
    running.stdin.write(b"still here\n")
    assert running.wait().stdout == b"still here\n"
    assert sandbox.run(["/bin/true"]).ok


def test_close_ends_what_runs_elsewhere() -> None:
    sandbox = Sandbox()
    ended: list[Status | str] = []

    def body() -> None:
        try:
            ended.append(sandbox.run(sh("sleep 304"), limits=Limits(wall_seconds=60)).status)
        except SandboxError as error:
            ended.append(str(error))

    thread = threading.Thread(target=body)
    process = sandbox.spawn(sh("echo up; sleep 304"))
    thread.start()
    assert process.stdout.readline() == b"up\n"
    while len(list(processes_named("sleep\x00304"))) < 2:
        pass
    sandbox.close()
    thread.join(10)
    assert ended == [Status.CANCELLED]
    assert process.wait().status is Status.CANCELLED
    assert not list(processes_named("sleep\x00304"))


def test_a_signal_handler_may_close_the_sandbox_that_waits(sandbox: Sandbox) -> None:
    before = signal.signal(signal.SIGALRM, lambda *_: sandbox.close())
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        result = sandbox.run(sh("sleep 305"), limits=Limits(wall_seconds=60))
    except SetupError as error:
        assert error.stage == "lost"
    else:
        assert result.status is Status.CANCELLED
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not list(processes_named("sleep\x00305"))


def test_a_sandbox_that_is_forgotten_cleans_up() -> None:
    Sandbox().run(["/bin/true"])  # the fixture of all tests looks for what it leaves


# ---- threads ----


def test_runs_of_many_threads_do_not_mix(sandbox: Sandbox) -> None:
    wrong = []

    def body(number: int) -> None:
        for turn in range(5):
            result = sandbox.run(sh(f"echo {number} {turn}"), limits=Limits(wall_seconds=60))
            if result.stdout != f"{number} {turn}\n".encode():
                wrong.append(result)

    threads = [threading.Thread(target=body, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_run_outlives_the_thread_that_started_it(sandbox: Sandbox) -> None:
    started = []
    thread = threading.Thread(target=lambda: started.append(sandbox.spawn(sh("sleep 0.3; echo done"))))
    thread.start()
    thread.join()
    assert started[0].wait().stdout == b"done\n"


def test_parallel_runs_have_memory_limits_of_their_own(sandbox: Sandbox) -> None:
    code = "b = bytearray(40 << 20)\nb[::4096] = b'x' * len(b[::4096])"
    limits = Limits(memory_bytes=64 << 20, wall_seconds=60)
    statuses = []
    threads = [
        threading.Thread(target=lambda: statuses.append(sandbox.run([PYTHON, "-c", code], limits=limits).status))
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses == [Status.OK] * 6


# ---- run() ----


def test_run_keeps_eight_sandboxes_and_closes_the_oldest() -> None:
    for number in range(10):
        assert run(["/bin/hostname"], policy=Policy.strict(hostname=f"box{number}")).text == f"box{number}\n"
    kept = [policy.hostname for policy in runner._CACHE._kept]
    assert kept == [f"box{number}" for number in range(2, 10)]


def test_run_with_limits_and_policy() -> None:
    result = run(sh("ulimit -n"), policy=Policy.light(), limits=Limits(open_files=77))
    assert result.stdout == b"77\n"


def test_close_cached_can_be_followed_by_a_run() -> None:
    assert run(["/bin/true"]).ok
    runner.close_cached()
    runner.close_cached()
    assert run(["/bin/true"]).ok
