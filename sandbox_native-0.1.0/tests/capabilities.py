"""What this machine offers to the tests, found by trying it, and the rule about skips.

A test that needs something says so, with `@pytest.mark.needs("cgroup2")` or, inside, `needs("cgroup2")`.
Where it is missing the test skips with the reason. With SANDBOX_NATIVE_MUST_WORK=1 a skip is a failure,
unless SANDBOX_NATIVE_EXPECTED_SKIPS (names, separated by blanks) lists it for this leg.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

SYSFS = Path("/sys/fs/cgroup")


def own_groups() -> dict[str, Path]:
    """The directory of our own group in each mounted hierarchy, by controller name; "" is the v2 tree."""
    paths = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            paths[controller] = path
    found = {}
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        root, mount_point = fields.split(" ")[3:5]
        if kind not in ("cgroup", "cgroup2"):
            continue
        names = [""] if kind == "cgroup2" else [name for name in options.split(",") if name in paths]
        for name in names:
            if name in paths and root == "/":
                found[name] = Path(mount_point + paths[name].rstrip("/"))
    return found


def _answers(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False


def _root() -> str | None:
    return None if os.geteuid() == 0 else f"this is uid {os.geteuid()}"


def _plain() -> str | None:
    return None if os.geteuid() != 0 else "this is root"


def _userns() -> str | None:
    return None if _answers("unshare", "-Ur", "true") else "no user namespaces for this user"


def _writable(group: Path) -> bool:
    """Whether a group can be made in it, which is the only proof."""
    probe = group / f"sandbox-native-tests-{os.getpid()}"
    try:
        probe.mkdir()
    except OSError:
        return False
    probe.rmdir()
    return True


def _cgroup1() -> str | None:
    groups = own_groups()
    for name in ("memory", "pids", "cpu", "cpuacct"):
        if name not in groups:
            return f"no v1 hierarchy has the controller {name}"
        if not _writable(groups[name]):
            return f"{groups[name]} is not ours to write to"
    return None


def _cgroup2() -> str | None:
    group = own_groups().get("")
    if group is None:
        return "no cgroup v2 tree"
    if group.name == "host":  # where a Sandbox moved us to
        group = group.parent
    missing = {"memory", "pids", "cpu"} - set((group / "cgroup.controllers").read_text().split())
    if missing:
        return f"{group} lacks {', '.join(sorted(missing))}"
    return None if _writable(group) else f"{group} is not ours to write to"


def _cgroup() -> str | None:
    first, second = _cgroup1(), _cgroup2()
    return f"{first}; {second}" if first and second else None


def _no_cgroup() -> str | None:
    return None if _cgroup() else "a control group is writable here"


def _kernel(major: int, minor: int) -> str | None:
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    assert release, os.uname().release
    here = int(release[1]), int(release[2])
    return None if here >= (major, minor) else f"kernel {here[0]}.{here[1]} is older than {major}.{minor}"


def _idmap() -> str | None:
    return _root() or _kernel(5, 12)


def _numpy() -> str | None:
    return None if _answers("/usr/bin/python3", "-c", "import numpy") else "the system's Python has none"


def _workspace() -> str | None:
    """Host directories come back owned by the caller: root needs idmapped mounts for it."""
    return None if os.geteuid() else _kernel(5, 12)


def _overlay() -> str | None:
    """A plain user may mount one since 5.11."""
    return _kernel(5, 11)


def _changes() -> str | None:
    """An overlay over an idmapped mount since 5.19; for a plain user any."""
    return _kernel(5, 19) if os.geteuid() == 0 else _kernel(5, 11)


def _opaque() -> str | None:
    """A tmpfs has the extended attribute that marks a replaced directory since 6.6."""
    return _kernel(6, 6)


def _process_limit() -> str | None:
    """RLIMIT_NPROC counts for each user namespace since 5.14."""
    return _cgroup() and _kernel(5, 14)


def _landlock() -> str | None:
    return None if landlock_abi() >= 1 else "this kernel has no Landlock"


def _landlock_scopes() -> str | None:
    """Signals and abstract sockets stay inside from ABI 6 on."""
    return None if landlock_abi() >= 6 else f"Landlock has ABI {landlock_abi()} here"


@functools.cache
def landlock_abi() -> int:
    """As the kernel says it; 0 without Landlock."""
    create_ruleset, version = 444, 1
    return max(0, ctypes.CDLL(None).syscall(create_ruleset, None, 0, version))


def _x86_64() -> str | None:
    return None if platform.machine() == "x86_64" else f"this is {platform.machine()}"


_PROBES: dict[str, Callable[[], str | None]] = {
    "root": _root,
    "plain": _plain,
    "userns": _userns,
    "cgroup": _cgroup,
    "cgroup1": _cgroup1,
    "cgroup2": _cgroup2,
    "no_cgroup": _no_cgroup,
    "idmap": _idmap,
    "numpy": _numpy,
    "workspace": _workspace,
    "overlay": _overlay,
    "changes": _changes,
    "opaque": _opaque,
    "process_limit": _process_limit,
    "landlock": _landlock,
    "landlock_scopes": _landlock_scopes,
    "x86_64": _x86_64,
}


def not_held() -> set[str]:
    """Layers that this machine and user cannot hold whatever the rung, so that a true receipt says so."""
    lost = {"groups"} if os.geteuid() and os.getgroups() else set()  # only root can give up its own
    return lost | ({"processes"} if missing("process_limit") else set())


@functools.cache
def missing(name: str) -> str | None:
    """Why the capability is missing, or None. A name that is none of ours is a program's."""
    if name in _PROBES:
        return _PROBES[name]()
    return None if shutil.which(name) else "no such program is installed"


def reason(name: str, why: str) -> str:
    return f"needs {name}: {why}"


def must_fail(skip_reason: str) -> bool:
    """Whether this skip is one that the leg did not expect."""
    if os.environ.get("SANDBOX_NATIVE_MUST_WORK") != "1":
        return False
    expected = os.environ.get("SANDBOX_NATIVE_EXPECTED_SKIPS", "").split()
    named = re.search(r"needs ([\w.+-]+):", skip_reason)
    return named is None or named[1] not in expected
