"""The rung without namespaces, on the host's side: the directories that a run has there, and the request that names them.

What a box has in mounts of its own is here a directory that is made for each run, and is gone after it: `workspace`, `home` and
`tmp` in it. A host that was killed leaves one behind; the next Sandbox on this rung removes it. Called by linux.py.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import resource
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from sandbox_native import paths
from sandbox_native._native import ffi, lib
from sandbox_native.backends.base import Job
from sandbox_native.backends.given import Given
from sandbox_native.commit.removal import remove_tree
from sandbox_native.descent import DIRECTORY
from sandbox_native.environment import HOME, WORKSPACE
from sandbox_native.errors import SetupError, UnsupportedError
from sandbox_native.policy import Policy
from sandbox_native.receipt_paths import NOTHING as NO_WORKSPACE
from sandbox_native.receipt_paths import Brought
from sandbox_native.request import Body, file_mode
from sandbox_native.run_checks import RunChecks
from sandbox_native.workspace import open_workspace

_PREFIX: Final = "sandbox-native-"
_FRESH_SECONDS: Final = 1.0
_ELSEWHERE: Final = "give a workspace without it, or pass what is needed in files="
# git gives up on a file that is there and may not be read; the host's own configuration may not.
_ADDED: Final = (b"GIT_CONFIG_NOSYSTEM=1",)


@dataclass(slots=True, eq=False)
class Place(Given):
    """One run's directories. `above`, `name`: the one that is removed; `lock` is held as long as it is in use."""

    above: int = -1
    name: str = ""
    lock: int = -1
    scratch: int = -1  # of `home` and `tmp`
    of_host: bool = False  # the workspace is a directory of the host's, which stays

    GRACE_MS: ClassVar[int] = 15_000  # a storm of forks shares the cores with init, which must find them all
    TREE_OUTLIVES_INIT: ClassVar[bool] = True

    @property
    def brought(self) -> Brought:
        return Brought(shown=True) if self.of_host else NO_WORKSPACE

    def descriptors(self) -> Any:
        fd = -1 if self.workspace is None else self.workspace.fd
        return ffi.new("struct sn_given *", (fd, self.scratch, -1, 0))

    def close(self) -> None:
        try:
            Given.close(self)
        finally:
            above, self.above = self.above, -1
            if above >= 0:
                remove_tree(above, self.name)
                os.close(above)
            self._close_own()

    def abandon(self) -> None:
        Given.abandon(self)
        above, self.above = self.above, -1
        if above >= 0:
            os.close(above)
        self._close_own()

    def _close_own(self) -> None:
        for fd in (self.lock, self.scratch):
            if fd >= 0:
                os.close(fd)
        self.lock = self.scratch = -1


def give(job: Job, policy: Policy, checks: RunChecks) -> tuple[Job, Place]:
    """The run as it is there: in directories of its own, with `files` placed.

    SetupError when these cannot be made, or (ESTALE) the plan is not that of the host's directories any more. UnsupportedError
    for a workspace that holds what is protected or hidden.
    """
    place = Place(of_host=job.workspace is not None)
    try:
        _look(job, place, checks)
        return _give(job, place, policy)
    except OSError as error:
        place.close()
        if isinstance(error, SetupError):
            raise
        raise SetupError("workspace", error.errno or 0, str(error.filename or "")) from error
    except BaseException:
        place.close()
        raise


def _give(job: Job, place: Place, policy: Policy) -> tuple[Job, Place]:
    root = _make(place)
    if place.workspace is None:
        place.workspace = open_workspace(f"{root}/workspace")
    for name, data in job.files.items():
        _place_file(place.workspace.fd, name, data)
    moved = {WORKSPACE: place.workspace.path, HOME: f"{root}/scratch/home", "/tmp": f"{root}/scratch/tmp"}
    moved |= {inside: host for host, inside in (*policy.readable, *policy.writable)}
    return replace(job, body=_renamed(job.body, moved)), place


def _look(job: Job, place: Place, checks: RunChecks) -> None:
    """At the host's directories that the run may write."""
    if job.workspace is not None:
        place.workspace = open_workspace(job.workspace)
    if place.of_host or checks.needed:
        place.before = checks.begin(place.workspace)
        if place.before.stale:
            raise SetupError("guard", errno.ESTALE, "", "what is protected changes while runs begin: run again")
    if place.guards:
        name = next(guard.name for guard in place.guards if guard.read_only or guard.mask)
        what = f"a mount namespace (to protect {name} in the workspace)"
        raise UnsupportedError("Landlock cannot take back beneath a directory what it gave above", (what,), _ELSEWHERE)


def _make(place: Place) -> str:
    base = os.path.realpath(tempfile.gettempdir())
    place.above = os.open(base, DIRECTORY)
    root = _lock_new(place, base)
    for name in ("workspace", "scratch", "scratch/home", "scratch/tmp"):
        os.mkdir(name, 0o700, dir_fd=place.lock)
    place.scratch = os.open("scratch", DIRECTORY, dir_fd=place.lock)
    return root


def _lock_new(place: Place, base: str) -> str:
    """A new directory that no sweep takes for one that was left: another one where a sweep was faster than our lock."""
    while True:
        root = tempfile.mkdtemp(prefix=f"{_PREFIX}{os.geteuid()}-", dir=base)
        place.name = os.path.basename(root)
        try:
            place.lock = os.open(root, DIRECTORY)
        except FileNotFoundError:
            continue
        fcntl.flock(place.lock, fcntl.LOCK_EX)
        if os.fstat(place.lock).st_nlink:
            return root
        os.close(place.lock)
        place.lock = -1


def _place_file(root: int, name: str, data: bytes) -> None:
    *above, last = name.split("/")
    at = os.dup(root)
    try:
        for one in above:
            try:
                os.mkdir(one, 0o755, dir_fd=at)
            except FileExistsError:
                pass
            below = os.open(one, DIRECTORY, dir_fd=at)
            os.close(at)
            at = below
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(last, flags, 0o600, dir_fd=at), "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), file_mode(data))
    except OSError as error:
        raise SetupError("files", error.errno or 0, name) from error
    finally:
        os.close(at)


def _renamed(body: Body, moved: Mapping[str, str]) -> Body:
    """With the box's own places by the names that they have here: where it starts, the program and the environment."""
    strings = body.data.split(b"\0", 1 + body.candidates + body.argc + body.envc)[:-1]
    first_argument, first_entry = 1 + body.candidates, 1 + body.candidates + body.argc
    added = [
        entry
        for entry in _ADDED
        if not any(string.startswith(entry[: entry.index(b"=") + 1]) for string in strings[first_entry:])
    ]
    named = [
        *(_moved(string, moved) for string in strings[:first_argument]),
        *strings[first_argument:first_entry],
        *(_entry(string, moved) for string in strings[first_entry:]),
        *added,
    ]
    return replace(body, data=b"\0".join(named) + b"\0", envc=body.envc + len(added), files=0)


def _moved(path: bytes, moved: Mapping[str, str]) -> bytes:
    """By the longest of the names that it is beneath."""
    text = os.fsdecode(path)
    around = max((inside for inside in moved if text.startswith("/") and paths.contains(inside, text)), key=len, default=None)
    return path if around is None else os.fsencode(moved[around] + text[len(around) :])


def _entry(entry: bytes, moved: Mapping[str, str]) -> bytes:
    """HOME and TMPDIR, which only we set."""
    name, _, value = entry.partition(b"=")
    return name + b"=" + _moved(value, moved) if name in (b"HOME", b"TMPDIR") else entry


def sweep() -> None:
    """Removes what hosts of this user that were killed have left."""
    base = os.path.realpath(tempfile.gettempdir())
    prefix = f"{_PREFIX}{os.geteuid()}-"
    above = os.open(base, DIRECTORY)
    try:
        for name in os.listdir(above):
            if name.startswith(prefix):
                _sweep_one(above, name)
    finally:
        os.close(above)


def _sweep_one(above: int, name: str) -> None:
    try:
        lock = os.open(name, DIRECTORY, dir_fd=above)
    except OSError:  # somebody else's, or gone
        return
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_tree(above, name)
    except BlockingIOError:
        pass  # in use
    finally:
        os.close(lock)


def check() -> None:
    """UnsupportedError where the tree of a run could not be found."""
    if not os.path.exists(f"/proc/self/task/{os.getpid()}/children"):
        what = "/proc/PID/task/TID/children (CONFIG_PROC_CHILDREN)"
        raise UnsupportedError("without namespaces a run's processes are found there", (what,), "mount /proc, or see doctor")


def bound_tasks(request: Any, processes: int) -> None:
    """RLIMIT_NPROC of a guest, in a struct sn_request: what the user has now, and as many more. The kernel holds root to none."""
    uid = os.geteuid()
    if uid:
        limit = request.rlimits[request.rlimit_count]
        limit.resource, limit.flags = resource.RLIMIT_NPROC, lib.SN_RLIMIT_KEEP
        limit.value = _tasks(uid, int(time.monotonic() / _FRESH_SECONDS)) + processes + 1
        request.rlimit_count += 1


@functools.lru_cache(maxsize=1)
def _tasks(uid: int, second: int) -> int:
    del second
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if _owner(pid) == uid:
                total += len(os.listdir(f"/proc/{pid}/task"))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM):
                raise
    return total


def _owner(pid: str) -> int:
    """By its status: the directory of a process that cannot be looked into belongs to root."""
    with open(f"/proc/{pid}/status", "rb") as status:
        for line in status:
            if line.startswith(b"Uid:"):
                return int(line.split()[1])
    return -1
