"""The contracts that every part keeps, each by a run that would show a breach. Limits and isolation have files of their own."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from boxes import PATIENCE, until
from running import PYTHON, nap, sh, sleepers

import sandbox_native
from sandbox_native import Limits, Policy, Process, Result, Sandbox, Status, run
from sandbox_native._native import ffi
from sandbox_native.backends.native import REPORT
from sandbox_native.request import _FILE
from sandbox_native.verdict import ReportData

boxed = pytest.mark.usefixtures("works")


@pytest.fixture
def works(needs: object) -> None:
    needs("userns")  # type: ignore[operator]


@pytest.fixture
def sandbox(works: None) -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


# ---- what is written twice is compared ----


def test_reports_are_read_as_they_are_laid_out() -> None:
    fields = dict(ffi.typeof("struct sn_report").fields)  # type: ignore[attr-defined]
    read = ["version", *(name for name in ReportData._fields if not name.startswith("failure_")), "reserved"]
    assert list(fields) == [*read, "failure"]
    assert REPORT.size == fields["failure"].offset
    at = 0
    for code, name in zip(REPORT.format.removeprefix("=").replace(" ", "").replace("13Q", "Q" * 13), read, strict=True):
        assert fields[name].offset == at, name
        at += {"I": 4, "i": 4, "Q": 8}[code]


def test_file_records_are_written_as_they_are_laid_out() -> None:
    assert _FILE.size == ffi.sizeof("struct sn_file")
    assert [name for name, _ in ffi.typeof("struct sn_file").fields] == ["size", "name_bytes", "mode"]  # type: ignore[attr-defined]


# ---- bytes are the truth ----


def test_text_is_decoded_with_replacement(sandbox: Sandbox) -> None:
    result = sandbox.run(sh(r"printf 'a\377\303\251'"))
    assert (result.stdout, result.text) == (b"a\xff\xc3\xa9", "a\ufffd\u00e9")


# ---- the guest's surroundings ----


def test_the_environment_is_the_same_for_every_host(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = sandbox.run(["/usr/bin/env"]).stdout
    monkeypatch.setenv("SECRET_TOKEN", "x")
    monkeypatch.setenv("LD_PRELOAD", "")
    monkeypatch.setenv("PATH", "/nowhere")
    assert sandbox.run(["/usr/bin/env"]).stdout == plain
    assert sorted(line.split("=")[0] for line in plain.decode().split()) == ["HOME", "LANG", "LOGNAME", "PATH", "TMPDIR", "USER"]


def test_descriptors_of_the_host_stay_there(sandbox: Sandbox) -> None:
    read_end, write_end = os.pipe()
    os.set_inheritable(read_end, True)
    os.set_inheritable(write_end, True)
    try:
        with Sandbox() as later:
            for box in (sandbox, later):
                assert box.run(sh("exec ls /proc/self/fd")).stdout == b"0\n1\n2\n3\n"  # 3 is the listing's own
    finally:
        os.close(read_end)
        os.close(write_end)


def test_no_file_of_the_whole_host_can_be_written(sandbox: Sandbox) -> None:
    code = """
import os
for top, directories, names in os.walk("/proc"):
    directories[:] = [name for name in directories if not (top == "/proc" and name.isdigit())]
    for name in names:
        path = os.path.join(top, name)
        if os.path.islink(path) or path.startswith(("/proc/self/", "/proc/thread-self/")):
            continue
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        print(path)
"""
    result = sandbox.run([PYTHON, "-c", code], limits=Limits(wall_seconds=60))
    assert result.ok, result.stderr
    # The kernel lets everybody open these two and checks the write: the last pid of the own namespace, and a hint of its own.
    assert set(result.text.split()) <= {"/proc/sys/kernel/ns_last_pid", "/proc/sys/kernel/sched_util_clamp_min"}


@pytest.mark.parametrize("name", ["kcore", "kmsg", "keys", "key-users", "kallsyms", "timer_list", "cmdline", "slabinfo"])
def test_what_tells_of_the_whole_host_cannot_be_read(sandbox: Sandbox, name: str) -> None:
    assert sandbox.run(["/bin/cat", f"/proc/{name}"]).stdout == b""


def test_run_times_that_look_about_in_proc_and_etc_start(sandbox: Sandbox, needs: object) -> None:
    code = "import ssl, locale, getpass, time, socket; print(getpass.getuser(), socket.gethostname(), time.tzname[0])"
    result = sandbox.run([PYTHON, "-c", code])
    assert result.text.split()[:2] == ["guest", "sandbox"], result.stderr
    assert sandbox.run(sh("id -un; echo ~; hostname; cat /etc/hostname")).text == "guest\n/home/guest\nsandbox\nsandbox\n"


def test_the_root_cannot_be_written_anywhere(sandbox: Sandbox) -> None:
    script = "for d in / /etc /dev /usr /run /home /var /proc /.empty /mnt; do touch $d/x 2>/dev/null && echo $d; done; true"
    assert sandbox.run(sh(script)).stdout == b""


def test_what_the_policy_hides_is_not_there(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    result = sandbox.run(sh(f"ls {tmp_path} /root /var/lib /sys /boot /etc/shadow; cat {tmp_path}/secret"))
    assert result.stdout == b""


# ---- nothing is left behind ----

HOST = """
import sys, sandbox_native as s
sandbox = s.Sandbox()
process = sandbox.spawn(["/bin/sh", "-c", "sleep NAP & sleep NAP & echo up; wait"], limits=s.Limits(wall_seconds=600))
process.stdout.readline()
print("up", flush=True)
sandbox.run(["/bin/sh", "-c", "sleep NAP"], limits=s.Limits(wall_seconds=600))
"""


def start_host(code: str = HOST) -> subprocess.Popen[bytes]:
    host = subprocess.Popen(
        [sys.executable, "-c", code.replace("NAP", nap(311))],
        stdout=subprocess.PIPE,
        cwd=Path(sandbox_native.__file__).parents[1],
    )
    assert host.stdout is not None
    assert host.stdout.readline() == b"up\n"
    return host


@boxed
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_host_that_dies_leaves_no_process(number: signal.Signals) -> None:
    with start_host() as host:
        while len(sleepers(311)) < 3:
            pass
        host.send_signal(number)
        host.wait()
        until(lambda: not sleepers(311), PATIENCE, "the guests' end")


@boxed
def test_a_host_that_ends_without_closing_leaves_nothing() -> None:
    code = HOST.replace('sandbox.run(["/bin/sh", "-c", "sleep NAP"], limits=s.Limits(wall_seconds=600))', "")
    with start_host(code) as host:
        assert host.wait(PATIENCE) == 0
    assert not sleepers(311)


# ---- from any thread, and from an event loop ----


@boxed
def test_every_call_works_from_any_thread(tmp_path: Path) -> None:
    done: list[object] = []

    def body() -> None:
        with Sandbox(Policy.light()) as sandbox:
            done.append(sandbox.run(["/bin/true"]).ok)
            with sandbox.spawn(["/bin/cat"]) as process:
                assert process.stdin is not None
                process.stdin.write(b"x")
                process.stdin.close()
                done.append(process.wait().stdout)
        done.append(run(sh("echo 1 > f"), collect=["f"]).files)
        done.append(run(sh("echo 1 > f"), workspace=tmp_path).ok)

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert done == [True, b"x", {"f": b"1\n"}, True]


async def finished(process: Process) -> Result:
    """What a caller with an event loop does; the run goes with the await when that is cancelled."""
    loop = asyncio.get_running_loop()
    try:
        while (result := process.poll()) is None:
            ready = loop.create_future()
            loop.add_reader(process, ready.set_result, None)
            try:
                await ready
            finally:
                loop.remove_reader(process)
        return result
    finally:
        process.close()


def test_an_event_loop_runs_many_at_once(sandbox: Sandbox) -> None:
    async def main() -> list[Result]:
        return await asyncio.gather(*(finished(sandbox.spawn(sh(f"sleep 0.05; echo {number}"))) for number in range(8)))

    assert [result.text for result in asyncio.run(main())] == [f"{number}\n" for number in range(8)]


def test_a_cancelled_await_ends_the_run(sandbox: Sandbox) -> None:
    async def main() -> None:
        process = sandbox.spawn(sh(f"echo up; sleep {nap(312)}"))
        assert process.stdout.readline() == b"up\n"
        task = asyncio.create_task(finished(process))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert not sleepers(312)


def test_a_child_watcher_of_the_host_sees_none_of_ours(sandbox: Sandbox) -> None:
    stop = threading.Event()
    seen: list[int] = []

    def watch() -> None:
        while not stop.is_set():
            try:
                seen.append(os.waitpid(-1, os.WNOHANG)[0])
            except ChildProcessError:
                pass
            select.select([], [], [], 0.001)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        with Sandbox() as another:
            for box in (sandbox, another):
                assert box.run(sh("exit 3")).exit_code == 3
                assert box.run(sh("sleep 5"), limits=Limits(wall_seconds=0.1)).status is Status.WALL_LIMIT
    finally:
        stop.set()
        thread.join()
    assert not any(seen)
