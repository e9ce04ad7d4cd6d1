"""Other tools that confine a program, where they are installed and may run: how each is called here, and what it leaves open.

Each is called as its own manual says for the nearest to our box, through `subprocess.run`, as a user would. The notes are about
that call, not about all that the tool can do.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

_SHOWN: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/etc")
_SECONDS: Final = 20.0  # for a tool that waits for a daemon which is not there
_BWRAP: Final = (
    "limits on memory, CPU, processes or time; a filter of system calls (--seccomp takes a compiled one); Landlock; "
    "figures of the run"
)
_NSJAIL: Final = (
    "a control group unless it is asked for (--use_cgroupv2, --cgroup_mem_max); a filter of system calls unless one is written "
    "(Kafel); Landlock; limits finer than whole seconds; figures of the run"
)
_ISOLATE: Final = (
    "a box and a directory of its own to each run (--init makes them once, which is not timed); a filter of system calls; "
    "Landlock; a limit on memory without --cg; a user namespace"
)
_DOCKER: Final = (
    "a guest that is not the container's root, with fourteen capabilities; a user namespace unless the daemon remaps; limits "
    "unless they are given; the host's own programs (the image has its own)"
)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool that may run here: the words that come before the program's own."""

    name: str
    prefix: Sequence[str]
    lacks: str
    """What this call does not isolate or tell, next to a strict box."""


@contextmanager
def installed(folder: str | None) -> Iterator[tuple[list[Tool], list[str]]]:
    """The tools that work here, and why the others do not. `folder` is shown by each at its own place (not by docker)."""
    paths = [path for path in (*_SHOWN, folder) if path is not None and os.path.exists(path)]
    found, notes = [], []
    for tool in (_bubblewrap(paths), _nsjail(paths), _isolate(paths)):
        why = _refused(tool)
        if why is None:
            found.append(tool)
        else:
            notes.append(f"{tool.name} left out: {why}")
    try:
        yield found, notes
    finally:
        if any(tool.name == "isolate" for tool in found):
            subprocess.run(["isolate", "--box-id=0", "--cleanup"], capture_output=True, check=False)


def _refused(tool: Tool) -> str | None:
    """Why the tool cannot run /bin/true here, or None."""
    if shutil.which(tool.prefix[0]) is None:
        return "not installed"
    if tool.name == "isolate":
        made = subprocess.run(["isolate", "--box-id=0", "--init"], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            return _last_line(made.stderr)
    tried = subprocess.run([*tool.prefix, "/bin/true"], capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else _last_line(tried.stderr)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it may not run here"])[-1]


def _bubblewrap(paths: Sequence[str]) -> Tool:
    prefix = ["bwrap", "--unshare-all", "--die-with-parent", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for path in paths:
        prefix += ["--ro-bind", path, path]
    return Tool(name="bwrap", prefix=prefix, lacks=_BWRAP)


def _nsjail(paths: Sequence[str]) -> Tool:
    prefix = ["nsjail", "-Mo", "--really_quiet", "--user", "99999", "--group", "99999", "--tmpfsmount", "/tmp"]
    prefix += ["--time_limit", "60", "--rlimit_as", "max"]
    for path in paths:
        prefix += ["--bindmount_ro", path]
    return Tool(name="nsjail", prefix=[*prefix, "--"], lacks=_NSJAIL)


def _isolate(paths: Sequence[str]) -> Tool:
    prefix = ["isolate", "--box-id=0", "--silent", "--processes=512", "--wall-time=60"]
    own = {"/bin", "/usr", "/lib", "/lib64"}  # that it shows by itself
    prefix += [f"--dir={path}" for path in paths if path not in own]
    return Tool(name="isolate", prefix=[*prefix, "--run", "--"], lacks=_ISOLATE)


def docker() -> tuple[Tool | None, str]:
    """With an image that is here already; or None and why not."""
    program = shutil.which("docker")
    if program is None:
        return None, "not installed"
    try:
        command = [program, "image", "ls", "--quiet"]
        listed = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None, "its daemon does not answer"
    images = listed.stdout.split()
    if listed.returncode != 0:
        return None, "no daemon answers"
    if not images:
        return None, "no image is here (docker pull debian:stable-slim)"
    prefix = [program, "run", "--rm", "--network", "none", images[0]]
    return Tool(name="docker", prefix=prefix, lacks=_DOCKER), ""
