"""The few operations on cgroup directories that everything here uses. Host process, its own credentials.

A cgroup file takes one write of the whole value; a directory goes with rmdir although it shows files. Errors carry
the path. EINTR is retried by Python itself.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import time
from collections.abc import Iterator

from sandbox_native.cgroup.values import Owner, parse_start_time
from sandbox_native.errors import SetupError, setup_error

_STAGE = 10  # SN_STAGE_CGROUP
_PAUSE_FIRST, _PAUSE_LONGEST = 0.0005, 0.02


def failure(error: OSError, item: str, hint: str = "") -> SetupError:
    code = error.errno or errno.EIO
    return SetupError("cgroup", code, item, hint) if hint else setup_error(_STAGE, code, item)


def read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def write(path: str, value: str) -> None:
    """One write of the whole value; the OSError names the path."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(fd)


def pids(directory: str) -> list[int]:
    """The processes of one group, without its children. 0 stands for one outside our pid namespace."""
    return [int(line) for line in read(os.path.join(directory, "cgroup.procs")).split()]


def start_time(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None when there is none, or only a zombie."""
    try:
        state, ticks = parse_start_time(read(f"/proc/{pid}/stat"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else ticks


def this_process() -> Owner:
    return Owner(pid=os.getpid(), start_time=start_time(os.getpid()) or 0)


def subgroups(directory: str) -> list[str]:
    """Child groups, by path; none when the directory is gone, or when there is no descriptor left to look with: rmdir needs
    none, and says whether there are any."""
    try:
        with os.scandir(directory) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.EMFILE, errno.ENFILE):
            raise
        return []


def tree(directory: str) -> Iterator[str]:
    """A group and everything beneath it, children first."""
    for child in subgroups(directory):
        yield from tree(child)
    yield directory


def lock(directory: str, kind: int) -> int:
    """A descriptor of the directory with flock ``kind`` on it.

    A host holds a shared lock on its base for as long as it lives, a sweeper needs an exclusive one. So a live host
    is safe from a sweeper that cannot see it, for instance one in another pid namespace.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, kind)
    except OSError:
        os.close(fd)
        raise
    return fd


def pauses(seconds: float) -> Iterator[None]:
    """Yields at once and then again after growing pauses, until the time is over."""
    end, pause = time.monotonic() + seconds, _PAUSE_FIRST
    yield
    while time.monotonic() < end:
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE_LONGEST)
        yield


def remove_tree(directory: str, seconds: float) -> bool:
    """Removes a group and its children; True when it is gone, whoever removed it.

    A group answers EBUSY while its last processes are still being torn down, so that is tried again for a while.
    """
    for _ in pauses(seconds):
        try:
            for group in tree(directory):
                try:
                    os.rmdir(group)
                except FileNotFoundError:
                    pass
            return True
        except OSError as error:
            # ENOTEMPTY: somebody made a child since we looked. ENODEV: it goes away beneath us.
            if error.errno not in (errno.EBUSY, errno.ENOTEMPTY, errno.ENODEV):
                raise failure(error, directory) from error
    return False


def kill_tree(directory: str) -> set[int]:
    """SIGKILL to every process of a group and its children; their pids. Kills nothing outside the group.

    v2 has one file for it (5.14), which also gets those that fork meanwhile. Elsewhere each pid goes through a pidfd:
    opened first, and the pid looked up in the group again, so that a pid that was given to somebody else in between
    is not signalled. What forked meanwhile is left to the next round.
    """
    found = [(pid, group) for group in tree(directory) for pid in _members(group)]
    try:
        write(os.path.join(directory, "cgroup.kill"), "1")
    except FileNotFoundError:
        for pid, group in found:
            _kill_member(pid, group)
    except OSError as error:
        if error.errno != errno.ENODEV:
            raise failure(error, directory) from error
    return {pid for pid, _ in found}


def _members(group: str) -> list[int]:
    try:
        return [pid for pid in pids(group) if pid not in (0, os.getpid())]
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENODEV):
            return []
        raise failure(error, group) from error


def _kill_member(pid: int, group: str) -> None:
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if pid in _members(group):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        pass
    finally:
        os.close(pidfd)
