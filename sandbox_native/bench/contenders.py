"""The ways to run a program that are compared: bare, our two presets, and what else this machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sandbox_native import Limits, Policy, Sandbox
from sandbox_native.bench.measure import BARE, Action

_BINDS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc")


_INSIDE = "/mnt/bench"


class Contenders:
    """Holds one Sandbox for each preset, made once; ``actions(argv)`` gives one callable for each contender.

    :param folder: a host directory that every box shows, if there is one; a program in it is run from there.
    """

    def __init__(self, strict: Sandbox, light: Sandbox, folder: str | None) -> None:
        self.strict = strict
        self.light = light
        self._folder = folder

    def actions(self, argv: Sequence[str], *, others: bool = True) -> dict[str, Action]:
        """By name, bare first; ``others``: bubblewrap too, where it is installed."""
        command = list(argv)
        inside = list(argv)
        if self._folder is not None and inside[0].startswith(self._folder):
            inside[0] = inside[0].replace(self._folder, _INSIDE, 1)
        actions: dict[str, Action] = {
            BARE: lambda: bare(command),
            "strict": lambda: boxed(self.strict, inside),
            "light": lambda: boxed(self.light, inside),
        }
        wrapper = bubblewrap(self._folder) if others else None
        if wrapper is not None:
            wrapped = [*wrapper, *command]
            actions["bwrap"] = lambda: bare(wrapped)
        return actions


@contextmanager
def contenders(folder: str | None = None) -> Iterator[Contenders]:
    """Both sandboxes for the duration of a with block."""
    limits = Limits(wall_seconds=60, processes=512)
    readable = [] if folder is None else [(folder, _INSIDE)]  # not in place: a box has a /tmp of its own
    with ExitStack() as stack:
        strict = stack.enter_context(Sandbox(Policy.strict(readable=readable), limits))
        light = stack.enter_context(Sandbox(Policy.light(readable=readable), limits))
        yield Contenders(strict, light, folder)


def bare(command: Sequence[str]) -> None:
    """What everybody does without us."""
    done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-500:]!r}")


def boxed(sandbox: Sandbox, command: Sequence[str]) -> None:
    """The same through a Sandbox."""
    result = sandbox.run(command)
    if not result.ok:
        raise RuntimeError(f"{command[0]} ended as {result.status}: {result.stderr[-500:]!r}")


def bubblewrap(folder: str | None) -> list[str] | None:
    """``bwrap --unshare-all`` with a root like ours, or None where it is missing or may not run here."""
    program = shutil.which("bwrap")
    if program is None:
        return None
    command = [program, "--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for path in (*_BINDS, folder):
        if path is not None and os.path.exists(path):
            command += ["--ro-bind", path, path]
    tried = subprocess.run([*command, "/bin/true"], capture_output=True, check=False)
    return command if tried.returncode == 0 else None


def docker() -> tuple[list[str] | None, str]:
    """A ``docker run`` prefix for an image that is here already, or None and why there is none."""
    program = shutil.which("docker")
    if program is None:
        return None, "docker is not installed"
    try:
        listed = subprocess.run([program, "image", "ls", "--quiet"], capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return None, "the docker daemon does not answer"
    images = listed.stdout.split()
    if listed.returncode != 0:
        return None, "no docker daemon answers"
    if not images:
        return None, "docker has no image (docker pull debian:stable-slim)"
    return [program, "run", "--rm", "--network", "none", images[0]], ""
