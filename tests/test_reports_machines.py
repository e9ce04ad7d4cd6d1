"""What users of other sandboxes reported about kernels, containers and terminals, each as a test of ours."""

from __future__ import annotations

import errno
import json
import os
import pty
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import boxes
import bpf
import pytest
from boxes import Guests

import sandbox_native
from sandbox_native import Rung, Sandbox, SetupError, UnsupportedError, cgroup, run

pytestmark = pytest.mark.needs("userns")
PY = "/usr/bin/python3"
NUMBERS = bpf.built_numbers()


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    with boxes.public(guest) as found:
        yield found


def refuse(error: int, *names: str) -> None:
    """For this process and what it starts: these calls answer with an error, as a container's profile makes them."""
    load, allow, answer = (0x20, 0, 0, 0), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x50000 | error)
    tests = [(0x15, 0, 1, NUMBERS[name]) for name in names]
    program = [load, *(line for test in tests for line in (test, answer)), allow]
    bpf.install(b"".join(struct.pack("=HBBI", *line) for line in program))


# ---- B and C ----


@pytest.mark.kernel
@pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM])
def test_a_host_whose_profile_refuses_clone3_starts_boxes(error: int) -> None:
    """R18: from a thread, which glibc itself cannot start when told EPERM. Cgroup v2 needs the call to put a guest into its
    group: the message names it then."""

    def one_run() -> None:
        try:
            told.append(run(["/bin/echo", "ok"]).text)
        except SetupError as failure:
            assert "clone3" in failure.item and boxes_need_clone3(), str(failure)
            told.append("ok\n")

    def work() -> None:
        refuse(error, "clone3")
        if error == errno.ENOSYS:
            thread = threading.Thread(target=one_run)
            thread.start()
            thread.join()
        else:
            one_run()
        assert told == ["ok\n"]

    told: list[str] = []
    boxes.in_a_host(work)


def boxes_need_clone3() -> bool:
    return cgroup.discover().version == 2


def test_a_terminal_is_as_it_was_after_a_run() -> None:
    """R24: neither its foreground group nor what was typed goes to the guest."""
    child, terminal = pty.fork()
    if child == 0:
        status = 1
        try:
            before = os.tcgetpgrp(0)
            with Sandbox() as box:
                inside = box.run(["/bin/sh", "-ic", "echo in; tty; read x; echo $x"])
            assert inside.text.splitlines()[0] == "in" and "after" not in inside.text
            assert os.tcgetpgrp(0) == before == os.getpgrp()
            assert os.read(0, 100) == b"after\n"
            status = 0
        finally:
            os._exit(status)
    try:
        os.write(terminal, b"after\n")
        _, status = os.waitpid(child, 0)
        shown = boxes.painted_on(terminal)
    finally:
        os.close(terminal)
    assert status == 0, shown.decode()


# ---- E. Kernels and containers ----


@pytest.mark.needs("root")
def test_every_layout_of_control_groups_has_a_name_and_none_fails() -> None:
    """R35: as it is here, and with none to be seen."""

    def asked() -> dict[str, object]:
        command = [sys.executable, "-m", "sandbox_native", "doctor", "--json"]
        done = subprocess.run(command, capture_output=True, cwd=Path(sandbox_native.__file__).parents[1])
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))

    def without() -> None:
        boxes.hide_groups()
        told = asked()
        assert told["rung"] == "namespaces"
        result = run(["/bin/echo", "ok"])
        assert result.text == "ok\n" and result.enforcement.rung is Rung.NAMESPACES
        assert boxes.layer(result, "control_group").detail

    assert asked()["ok"] is True
    boxes.in_a_host(without)


@pytest.mark.kernel
@pytest.mark.parametrize("names", [("mount",), ("unshare",), ("seccomp",)], ids=lambda names: names[0])
def test_a_user_namespace_without_capabilities_is_refused_before_anything_runs(names: tuple[str, ...]) -> None:
    """R37: AppArmor lets it be made and then refuses what it is for."""

    def work() -> None:
        refuse(errno.EPERM, *names)
        with pytest.raises(UnsupportedError) as refusal:
            Sandbox()
        assert refusal.value.missing and refusal.value.remedy

    boxes.in_a_host(work)


def mask_proc() -> None:
    libc = boxes.own_mounts()
    for path in (b"/proc/kcore", b"/proc/timer_list", b"/proc/keys"):
        if os.path.exists(path):
            boxes.checked(libc.mount(b"/dev/null", path, None, boxes.MS_BIND, None))


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_a_masked_proc_of_the_hosts_costs_a_box_nothing_where_the_host_is_root() -> None:
    """R38"""

    def work() -> None:
        mask_proc()
        result = run(["/bin/cat", "/proc/self/comm", "/proc/meminfo"])
        assert result.ok and result.stdout.startswith(b"cat\n") and boxes.layer(result, "proc").held

    boxes.in_a_host(work)


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_a_masked_proc_of_the_hosts_leaves_a_plain_user_one_of_processes_or_none_and_says_so(public: Guests) -> None:
    """R38: the kernel refuses a full /proc to who does not see one. The outer one is no substitute: it leads to the files of
    every process of the same user."""

    def work() -> None:
        mask_proc()
        boxes.become_plain()
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        try:
            box = Sandbox(boxes.strict(public))
        except UnsupportedError as refusal:
            assert "/proc" in str(refusal.missing) and "systempaths=unconfined" in refusal.remedy
            return
        with box:
            result = box.run(["/bin/cat", "/proc/self/comm"])
            assert result.text == "cat\n" and "processes only" in boxes.layer(result, "proc").detail
            assert boxes.attempts(box, "read /proc/meminfo , read /proc/kcore") == {"read": errno.ENOENT}

    boxes.in_a_host(work)


@pytest.mark.kernel
def test_threads_start_where_clone3_is_absent() -> None:
    """R39: told EPERM instead of ENOSYS, glibc would not fall back."""
    code = "import threading; t=threading.Thread(target=print,args=('t',)); t.start(); t.join()"
    assert run([PY, "-c", code]).stdout == b"t\n"


@pytest.mark.kernel
def test_calls_that_we_do_not_know_are_absent_and_new_ones_that_libc_makes_work(guest: Guests) -> None:
    """R40"""
    with Sandbox(boxes.strict(guest)) as box:
        told = boxes.attempts(box, "syscall 9999 , clone3")
        assert told == {"syscall": errno.ENOSYS, "clone3": errno.ENOSYS}
        refused = {}
        for name in ("rseq", "faccessat2", "close_range", "epoll_pwait2", "futex_waitv", "pidfd_open"):
            if name in NUMBERS:
                refused[name] = boxes.attempts(box, f"syscall {NUMBERS[name]} -1 -1 -1 -1")["syscall"]
        assert not [name for name, error in refused.items() if error == errno.EPERM], refused
