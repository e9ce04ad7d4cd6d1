"""Boxes with the guests of tests/probes in them, what those guests print, and hosts of their own for what would harm pytest."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import running
import scope

from sandbox_native import Layer, Limits, Policy, Result, Rung, Sandbox, Status
from sandbox_native.features import launcher_path

MIB = 1 << 20
SHOWN = f"/guest-{os.getpid()}"  # so that the guests of another test run on this machine are told from ours
PLAIN_USER = 23456  # nobody's
PATIENCE = 60.0  # seconds for what is sure to come: on the slowest machine too, and only a failure waits as long
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, PR_SET_DUMPABLE = 0x20000, 0x1000, 0x4000, 0x40000, 4
Guests = Mapping[str, Path]


def shown(guests: Guests) -> list[tuple[str, str]]:
    """`Policy.readable`: every guest as SHOWN/NAME."""
    return [(str(guests[name]), f"{SHOWN}/{name}") for name in ("verbs", "inside", "attempts")]


def strict(guests: Guests, minimum_rung: Rung = Rung.NAMESPACES) -> Policy:
    return Policy.strict(readable=shown(guests), minimum_rung=minimum_rung)


def verbs(words: str) -> list[str]:
    """`verbs("eat 4 , exit 3")`"""
    return [f"{SHOWN}/verbs", *words.split()]


def attempts(box: Sandbox, words: str, limits: Limits | None = None) -> dict[str, int]:
    """What each attempt was answered: verb -> errno, 0 where it worked. A verb that is tried twice counts once, the worst."""
    result = box.run([f"{SHOWN}/attempts", *words.split()], limits=limits)
    assert result.status is Status.OK, (result.status, result.signal, result.hint, result.stderr, result.stdout)
    told: dict[str, int] = {}
    for line in result.text.splitlines():
        verb, fields = line.split(" ", 1)
        error = int(fields.rsplit("errno=", 1)[1])
        told[verb] = min(error, told.get(verb, error))
    return told


def facts(result: Result) -> dict[str, list[str]]:
    """What `inside` printed, by name."""
    assert result.status is Status.OK, (result.status, result.hint, result.stderr)
    found: dict[str, list[str]] = {}
    for line in result.text.splitlines():
        name, _, value = line.partition("=")
        found.setdefault(name, []).append(value)
    return found


def layer(result: Result, name: str) -> Layer:
    (found,) = [one for one in result.enforcement.layers if one.name == name]
    return found


def tree_is_gone(word: str) -> bool:
    """Whether no process of the machine has this word in its command line, seen from outside."""
    return not any(word.encode() in command_line(int(pid)).split(b"\0") for pid in filter(str.isdigit, os.listdir("/proc")))


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def ours() -> set[int]:
    """Launchers and what they forked, of any host with the same launcher as ours (as a plain user: of any host)."""
    found = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if command_line(int(pid)).startswith(b"sandbox-native") and os.readlink(f"/proc/{pid}/exe") == launcher_path():
                found.add(int(pid))
        except PermissionError:
            found.add(int(pid))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def spent_at_the_limit(box: Sandbox, argv: list[str], cpu_seconds: float) -> list[float]:
    """CPU seconds of three runs that spin until the limit ends them. Noise of the machine only adds: the least counts."""
    results = [box.run(argv, limits=Limits(cpu_seconds=cpu_seconds, wall_seconds=60)) for _ in range(3)]
    assert {(result.status, result.exit_code, result.signal) for result in results} == {(Status.CPU_LIMIT, None, None)}
    return [result.usage.cpu_seconds for result in results]


def eaten_together(box: Sandbox, *meals: str) -> Result:
    """Processes of verbs that have all eaten before the first ends, and init has looked at them meanwhile."""
    commands = " ".join(f"{SHOWN}/verbs {words} , read 1 <&3 &" for words in meals)
    with box.spawn(["/bin/sh", "-c", f"exec 3<&0; {commands} wait"], limits=Limits(wall_seconds=60)) as process:
        for _ in meals:
            assert process.stdout.readline()
        init = running.init_pid(process)
        seen = running.looks_of(init)
        until(lambda: running.looks_of(init) > seen + 5, PATIENCE, "init's looks")
        assert process.stdin is not None
        process.stdin.close()
        return process.wait()


def init_kept_the_limit(result: Result) -> bool:
    """Whether init ended the run and reported: of one that the host had to end there is nothing to tell."""
    return result.status is Status.WALL_LIMIT and result.usage.peak_processes > 0


def until(condition: Callable[[], bool], seconds: float, what: str) -> None:
    """Waits for what a process of somebody else's is about to do."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.001)


# ---- hosts of their own ----


@functools.cache
def set_aside(pid: int) -> None:
    """The first Sandbox moves this process out of its cgroup (v2), so that forked hosts can use it too."""
    Sandbox().close()


def forked_host(work: Callable[[], None]) -> int:
    """A forked process that runs `work`, which may close, starve or change what it likes; its pid."""
    set_aside(os.getpid())
    sys.stdout.flush()
    return scope.child(work)


def in_a_host(work: Callable[[], None]) -> None:
    """`work` in a forked process, which must not raise."""
    _, status = os.waitpid(forked_host(work), 0)
    assert status == 0, f"wait status {status}"


# ---- what such a host can do to itself ----


def checked(result: int) -> None:
    assert result == 0, os.strerror(ctypes.get_errno())


def own_mounts() -> ctypes.CDLL:
    """A mount namespace for this process; libc to mount with."""
    libc = ctypes.CDLL(None, use_errno=True)
    checked(libc.unshare(CLONE_NEWNS))
    checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    return libc


def hide_groups() -> None:
    """No control group file system is mounted any more."""
    checked(own_mounts().mount(b"none", b"/sys/fs/cgroup", b"tmpfs", 0, None))


def become_plain() -> None:
    """Somebody who may not write a control group of root's."""
    if os.geteuid() == 0:
        os.environ["SANDBOX_NATIVE_STATE"] += "-plain"  # that of root's is root's alone
        os.setgroups([])
        os.setresgid(PLAIN_USER, PLAIN_USER, PLAIN_USER)
        os.setresuid(PLAIN_USER, PLAIN_USER, PLAIN_USER)
        checked(ctypes.CDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))


@contextmanager
def public(guests: Guests, *more: str) -> Iterator[Guests]:
    """The guests, and as "launcher" the launcher, where any user may read them."""
    directory = Path(tempfile.mkdtemp(prefix="boxes-"))
    directory.chmod(0o755)
    found = {name: Path(shutil.copy(guests[name], directory)) for name in ("verbs", "inside", "attempts", "removals", *more)}
    found["launcher"] = Path(shutil.copy(launcher_path(), directory / "launcher"))
    for path in found.values():
        path.chmod(0o755)
    try:
        yield found
    finally:
        shutil.rmtree(directory)


def painted_on(terminal: int) -> bytes:
    """All that was written to a terminal whose other end is closed: one read gives what the kernel has passed on by then."""
    painted = bytearray()
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # the end
                return bytes(painted)
            raise
        painted += piece
