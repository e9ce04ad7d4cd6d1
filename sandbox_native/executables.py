"""Which paths are tried for argv[0], by the rules of execvp, against the PATH that the guest has. Pure.

The paths are looked up inside the box, where the program is started: the host's PATH and files say nothing
about what is there.
"""

from __future__ import annotations


def candidates(program: str, path: str) -> list[str]:
    """A name with a slash is itself; any other is sought in each directory of `path` in order.

    An empty element is the working directory, as in POSIX. The names are tried until one starts.
    """
    if "/" in program:
        return [program]
    return [f"{directory}/{program}" if directory else program for directory in path.split(":")]
