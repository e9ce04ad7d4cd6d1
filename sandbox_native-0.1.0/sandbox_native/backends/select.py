"""Chooses the backend. The only place where the operating system's name is asked for."""

from __future__ import annotations

import sys

from sandbox_native.backends.base import Backend, Upkeep
from sandbox_native.errors import UnsupportedError
from sandbox_native.features import without_native
from sandbox_native.limits import Limits
from sandbox_native.policy import Policy


def open_backend(policy: Policy, limits: Limits, cgroup: str | None, upkeep: Upkeep) -> Backend:
    """The strongest backend that this machine has, ready to run; UnsupportedError names what is missing."""
    if sys.platform == "linux":
        try:
            from sandbox_native.backends.linux import LinuxBackend
        except ImportError as error:
            raise without_native(error) from error
        return LinuxBackend(policy, limits, cgroup, upkeep)
    raise UnsupportedError(
        f"sandbox_native runs programs on Linux only, not on {sys.platform}",
        missing=("Linux",),
        remedy="run the host on Linux, in a virtual machine or a container",
    )
