"""Runs a program that nobody trusts, fully isolated, at the price of a plain `subprocess.run`.

`run(argv)` runs one program in a box of its own and gives a `Result`; `Sandbox` keeps what such runs share. What the
program may see is a `Policy`, what it may consume are `Limits`; `Result.enforcement` says what really held. An
exception (`SandboxError`) means that we failed; whatever the program did is a `Result`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sandbox_native.denials import Denial
from sandbox_native.errors import ExecError, PolicyError, SandboxError, SetupError, UnsupportedError
from sandbox_native.lazy import loader
from sandbox_native.limits import Limits, Overflow
from sandbox_native.policy import Deletion, Policy, ReadPolicy, Rung, Writes
from sandbox_native.result import Enforcement, Layer, Result, Status, Usage

if TYPE_CHECKING:
    from sandbox_native.aio import AsyncProcess
    from sandbox_native.backends.base import Stats
    from sandbox_native.budget import Budget
    from sandbox_native.command_guard import CommandGuard
    from sandbox_native.commit.changes import Changes
    from sandbox_native.commit.listing import Change
    from sandbox_native.commit.recovery import recover
    from sandbox_native.executables import ExecutableResolver
    from sandbox_native.executor import SandboxExecutor
    from sandbox_native.options import Job
    from sandbox_native.pipe_end import PipeEnd
    from sandbox_native.process import Process
    from sandbox_native.runner import run
    from sandbox_native.sandbox import Sandbox
    from sandbox_native.warm.python import WarmPython

__version__ = "0.1.0"

__all__ = [
    "run",
    "Sandbox",
    "Process",
    "AsyncProcess",
    "SandboxExecutor",
    "Budget",
    "Job",
    "PipeEnd",
    "Stats",
    "Policy",
    "Limits",
    "Overflow",
    "Rung",
    "ReadPolicy",
    "Deletion",
    "Writes",
    "Result",
    "Status",
    "Usage",
    "Denial",
    "Changes",
    "Change",
    "recover",
    "CommandGuard",
    "ExecutableResolver",
    "WarmPython",
    "Enforcement",
    "Layer",
    "SandboxError",
    "PolicyError",
    "UnsupportedError",
    "SetupError",
    "ExecError",
    "__version__",
]

# Loaded at their first use: they bring the native part in, which a process that only makes policies or
# reads results (and every system but Linux) does without.
_RUNNING = {
    "run": "runner",
    "Sandbox": "sandbox",
    "Process": "process",
    "AsyncProcess": "aio",
    "SandboxExecutor": "executor",
    "Budget": "budget",
    "Job": "options",
    "PipeEnd": "pipe_end",
    "Stats": "backends.base",
    "Changes": "commit.changes",
    "Change": "commit.listing",
    "recover": "commit.recovery",
    "CommandGuard": "command_guard",
    "ExecutableResolver": "executables",
    "WarmPython": "warm.python",
}

__getattr__ = loader(__name__, _RUNNING)


def __dir__() -> list[str]:
    return sorted(__all__)
