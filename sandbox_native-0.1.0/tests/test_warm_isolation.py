"""A clone is confined as any guest is: seen from inside and compared with a guest that was executed; its limits; and init, with
which it once shared memory, is out of reach."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator

import boxes
import pytest
from boxes import SHOWN, Guests
from running import PYTHON, nap, sleepers
from warm import told

from sandbox_native import Limits, Sandbox, Status
from sandbox_native.warm.python import WarmPython

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
EXECUTE = f"import os, sys\nos.execv('{SHOWN}/' + sys.argv[1], sys.argv[1:])"


@pytest.fixture
def warm(guest: Guests) -> Iterator[WarmPython]:
    with WarmPython(["ctypes"], boxes.strict(guest), python=PYTHON) as made:
        yield made


@pytest.fixture
def cold(warm: WarmPython) -> Iterator[Sandbox]:
    with Sandbox(warm.policy) as made:
        yield made


def test_the_kernel_says_the_same_of_a_clone_and_of_a_guest_that_was_executed(warm: WarmPython, cold: Sandbox) -> None:
    script = "print(open('/proc/self/status').read())"
    rows = [told(result) for result in (warm.run(script), cold.run([PYTHON, "-I", "-c", script]))]
    one, other = (dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line) for text in rows)
    same = {name for name in other if not name.startswith(("Vm", "Rss", "Huge", "voluntary", "nonvoluntary", "Cpus", "Mems"))}
    assert {name: one[name] for name in same} == {name: other[name] for name in same}
    assert (one["CapEff"], one["CapBnd"], one["NoNewPrivs"], one["Seccomp"], one["Threads"]) == (
        "0" * 16,
        "0" * 16,
        "1",
        "2",
        "1",
    )


def test_what_a_clone_executes_is_told_the_same(warm: WarmPython, cold: Sandbox) -> None:
    one = boxes.facts(warm.run(EXECUTE, ["inside"]))
    other = boxes.facts(cold.run([f"{SHOWN}/inside"]))
    # Python ignores SIGPIPE and SIGXFSZ, whether it was cloned or not.
    signals = {"SigIgn", "ignored", "handled", "ShdPnd"}
    moving = {name for name in other if name.startswith(("Vm", "Rss", "time", "aslr", "fd", "argv0"))}
    assert {name: one.get(name) for name in other.keys() - signals - moving} == {
        name: other[name] for name in other.keys() - signals - moving
    }


def test_every_namespace_is_another_than_the_hosts_and_the_last_runs(warm: WarmPython) -> None:
    script = "import os\nfor n in sorted(os.listdir('/proc/self/ns')): print(n, os.readlink('/proc/self/ns/' + n))"
    first, second = (dict(line.split() for line in told(warm.run(script)).splitlines()) for _ in range(2))
    assert [name for name in NAMESPACES if first[name] == os.readlink(f"/proc/self/ns/{name}")] == []
    with warm.spawn("import time; time.sleep(9)") as running:
        third = dict(line.split() for line in told(warm.run(script)).splitlines())
        running.kill()
    assert set(first) == set(second) == set(third)


def test_only_the_standard_descriptors_are_open(warm: WarmPython) -> None:
    script = """
import os
for n in range(4096):
    try:
        print(n, os.readlink(f'/proc/self/fd/{n}').split(':')[0])
    except OSError:
        pass
"""
    assert told(warm.run(script)).splitlines() == ["0 /dev/null", "1 pipe", "2 pipe"]


def test_no_memory_is_shared_with_init(warm: WarmPython) -> None:
    """Which reads the limits of the run, and pointers, out of what it once shared with the guest."""
    script = "print([line for line in open('/proc/self/maps') if line.split()[1][1::2] == 'ws' or 'zero' in line])"
    assert told(warm.run(script)) == "[]"


def test_init_cannot_be_reached(warm: WarmPython) -> None:
    script = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def word(work):
    try:
        return work()
    except OSError as error:
        return error.errno
import builtins, functools
print = functools.partial(builtins.print, flush=True)
print(*(word(work) for work in (
    lambda: open('/proc/1/mem', 'rb'), lambda: os.listdir('/proc/1/fd'), lambda: os.readlink('/proc/1/ns/mnt')
)))
print(word(lambda: open('/proc/1/maps').read()), word(lambda: open('/proc/1/environ').read()))
print(word(lambda: os.kill(1, signal.SIGKILL)), word(lambda: os.kill(1, signal.SIGSTOP)))
print(libc.ptrace(16, 1, 0, 0), word(lambda: os.listdir('/proc/1/map_files')))
"""
    result = warm.run(script)
    lines = result.text.splitlines()
    assert lines[0].split() == [str(errno.EACCES)] * 3
    assert lines[1].split() == [str(errno.EACCES)] * 2
    assert result.status is Status.FORBIDDEN_SYSCALL or lines[3].split() == ["-1", str(errno.EACCES)]
    assert lines[2] in ("None None", f"{errno.EPERM} {errno.EPERM}")  # init hears of neither, or Landlock keeps them away


def test_the_filter_ends_what_it_ends_for_any_guest(warm: WarmPython, cold: Sandbox) -> None:
    code = "import ctypes; ctypes.CDLL(None).syscall(165, 0, 0, 0, 0, 0)"  # mount
    one, other = warm.run(code), cold.run([PYTHON, "-I", "-c", code])
    assert (one.status, one.hint, one.exit_code) == (other.status, other.hint, other.exit_code)


def test_memory_is_limited(warm: WarmPython) -> None:
    result = warm.run("x = bytearray(200 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1", limits=Limits(memory_bytes=64 << 20))
    assert result.status is Status.MEMORY_LIMIT
    assert told(warm.run("print(1)")) == "1"


def test_cpu_and_wall_time_are_limited(warm: WarmPython) -> None:
    assert warm.run("while True: pass", limits=Limits(cpu_seconds=0.3, wall_seconds=20)).status is Status.CPU_LIMIT
    assert warm.run("import time; time.sleep(99)", limits=Limits(wall_seconds=0.3)).status is Status.WALL_LIMIT


@pytest.mark.needs("process_limit")
def test_processes_are_limited(warm: WarmPython) -> None:
    script = "import os\nfor n in range(50):\n    if os.fork() == 0:\n        import time; time.sleep(99)\n"
    result = warm.run(script, limits=Limits(processes=10))
    assert result.exit_code == 1 and b"BlockingIOError" in result.stderr
    assert result.killed_processes in (9, 10)


def test_output_open_files_and_address_space_are_limited(warm: WarmPython) -> None:
    result = warm.run("print('x' * 10_000)", limits=Limits(stdout_bytes=1000))
    assert (len(result.stdout), result.stdout_total) == (1000, 10001)
    assert b"Too many open files" in warm.run("x = [open('/dev/null') for _ in range(50)]", limits=Limits(open_files=20)).stderr
    limits = Limits(address_space_bytes=256 << 20)
    assert b"MemoryError" in warm.run("x = bytearray(300 << 20)", limits=limits).stderr


def test_the_whole_tree_is_killed(warm: WarmPython) -> None:
    script = f"import subprocess, os\nsubprocess.Popen(['/bin/sleep', '{nap(77)}'], start_new_session=True)\n"
    result = warm.run(script + "os.kill(os.getpid(), 9)")
    assert (result.status, result.signal, result.killed_processes) == (Status.SIGNALED, signal.SIGKILL, 1)
    assert sleepers(77) == []


def test_usage_is_the_runs_own(warm: WarmPython) -> None:
    busy = warm.run("import time\nwhile time.process_time() < 0.5: pass\nx = b'x' * (30 << 20)")
    idle = warm.run("pass")
    assert busy.usage.cpu_seconds >= 0.5 > idle.usage.cpu_seconds
    assert busy.usage.peak_memory_bytes > idle.usage.peak_memory_bytes + (20 << 20)
