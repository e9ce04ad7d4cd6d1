"""What this machine lets us enforce, found by doing it, never assumed.

Called by the backends before a plan is made, and by doctor. The launcher performs each step in a child of its own
and answers with its errno (``sn_probes``); the control group is looked up by :mod:`sandbox_native.cgroup`. What was
found holds for the process that asked: after a fork, a change of user or of launcher it is probed again.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, Final

from sandbox_native.errors import UnsupportedError

__all__ = ["Feature", "Features", "launcher_path", "probe", "without_native"]

_TIMEOUT_MS: Final = 30_000  # emulated machines need 40 times what a real one does
_CLOSE_MS: Final = 5_000


class Feature(Enum):
    """One step that the launcher tries; the value is its index in ``sn_probes.error``."""

    USERNS = 0
    MOUNT = 1
    PROC = 2
    PROC_SUBSET = 3
    NETNS = 4
    SECCOMP = 5
    LISTENER = 6
    PIDFD = 7
    CLOSE_RANGE = 8
    OPENAT2 = 9
    MOUNT_SETATTR = 10
    IDMAP = 11
    LANDLOCK = 12
    CGROUPNS = 13
    RESOURCE = 14
    KEYRING = 15
    OVERLAY = 16
    CHANGES = 17
    NPROC = 18


@dataclass(frozen=True, kw_only=True)
class Features:
    """What was found. ``errors`` has the errno of every :class:`Feature`, 0 where it works."""

    root: bool
    """The launcher has the host's root, so that boxes are built with it and get a user of their own."""
    kernel: str
    machine: str
    errors: Mapping[Feature, int] = field(hash=False)
    landlock_abi: int = 0
    """0 where there is no Landlock."""

    def works(self, feature: Feature) -> bool:
        return self.errors[feature] == 0

    @property
    def missing(self) -> tuple[Feature, ...]:
        """What a box cannot do without and this machine refuses, in the order in which a box needs it."""
        return tuple(feature for feature in _REQUIRED if not self.works(feature) and not self.follows(feature))

    def follows(self, feature: Feature) -> bool:
        """It fails as a step before it does, and so for no reason of its own."""
        return any(not self.works(step) and self.errors[step] == self.errors[feature] for step in _BEFORE.get(feature, ()))

    @property
    def has_proc(self) -> bool:
        """A box can have a /proc of its own, at least one of processes. The outer one is no substitute: it shows the files
        of processes that have the guest's uid."""
        return self.works(Feature.PROC) or self.works(Feature.PROC_SUBSET)


# Without one of these no namespaces rung serves; every other feature has a fallback that the receipt names.
_REQUIRED: Final = (Feature.USERNS, Feature.MOUNT, Feature.NETNS, Feature.SECCOMP, Feature.PIDFD, Feature.OPENAT2)
_OF_A_BOX: Final = (Feature.NETNS, Feature.PROC, Feature.PROC_SUBSET, Feature.CGROUPNS, Feature.OVERLAY, Feature.CHANGES)
_BEFORE: Final = {Feature.MOUNT: (Feature.USERNS,), **dict.fromkeys(_OF_A_BOX, (Feature.USERNS, Feature.MOUNT))}


def launcher_path() -> str:
    """The launcher's executable: ``SANDBOX_NATIVE_LAUNCHER``, else the one in the package."""
    named = os.environ.get("SANDBOX_NATIVE_LAUNCHER")
    return named or os.path.join(os.path.dirname(os.path.abspath(__file__)), "_launcher")


def without_native(error: ImportError) -> UnsupportedError:
    """What to say where the extension module cannot be imported."""
    native, package = "sandbox_native._native", os.path.dirname(os.path.abspath(__file__))
    above = os.path.dirname(package)
    source = os.path.exists(os.path.join(above, "csrc", "ffi_build.py"))
    if source and not any(fnmatch.fnmatch(name, "_native.*.so") for name in os.listdir(package)):
        reason, remedy = f"sandbox_native is not built in {above}", "run from elsewhere, or `pip install -e .` there"
        return UnsupportedError(reason, (native,), remedy)
    reason = f"the native part cannot be loaded ({error})"
    return UnsupportedError(reason, (native,), "install the package again, on Linux")


def probe() -> Features:
    """What this machine lets this process enforce: probed at the first call, then kept for this process.

    :raises UnsupportedError: not on Linux.
    :raises SetupError: the launcher could not be started or did not answer.
    """
    try:
        from sandbox_native import _native
    except ImportError as error:
        raise without_native(error) from error
    return _probe(_native, os.getpid(), os.geteuid(), launcher_path())


@functools.lru_cache(maxsize=1)
def _probe(native: Any, pid: int, euid: int, launcher: str) -> Features:
    """The key says when an answer is stale: in a forked child, after a change of user, with another launcher."""
    from sandbox_native.backends.native import failure_of

    ffi, lib = native.ffi, native.lib
    process = ffi.new("struct sn_process *")
    why = ffi.new("struct sn_failure *")
    answers = ffi.new("struct sn_probes *")
    if lib.sn_launcher_start(os.fsencode(launcher), process, why) < 0:
        raise failure_of(why)
    try:
        plan_fd = _plan(ffi, lib, euid)
        try:
            code = lib.sn_launcher_probe(process, plan_fd, answers, _TIMEOUT_MS, why)
        finally:
            os.close(plan_fd)
        if code < 0:
            raise failure_of(why)
        return _read(list(answers.error), euid)
    finally:
        lib.sn_process_close(process, _CLOSE_MS, 0)


def _read(errors: list[int], euid: int) -> Features:
    system = os.uname()
    return Features(
        root=euid == 0,
        kernel=system.release,
        machine=system.machine,
        errors=MappingProxyType({feature: max(0, errors[feature.value]) for feature in Feature}),
        landlock_abi=max(0, -errors[Feature.LANDLOCK.value]),
    )


def _plan(ffi: Any, lib: Any, euid: int) -> int:
    """A plan that only asks for the probes, in a memfd; an idmapped mount is tried where temporary files go."""
    from sandbox_native.plan import INSIDE_UID

    header = ffi.new("struct sn_plan *")
    size = ffi.sizeof("struct sn_plan")
    directory = os.fsencode(tempfile.gettempdir()) + b"\0"
    header.version = lib.SN_WIRE_VERSION
    header.size = size + len(directory)
    header.flags = lib.SN_PLAN_PROBE | (lib.SN_PLAN_ROOT if euid == 0 else 0)
    header.box_uid = header.owner_uid = euid
    header.box_gid = header.owner_gid = os.getegid()
    header.inside_uid = header.inside_gid = INSIDE_UID
    header.workspace_at = size
    fd = os.memfd_create("sandbox-native-probe", os.MFD_CLOEXEC)
    os.write(fd, bytes(ffi.buffer(header, size)) + directory)
    return fd
