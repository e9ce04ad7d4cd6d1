"""What the commands take in common: option groups, how their values are read, and the policy and limits that they come to.

Called by :mod:`sandbox_native.cli`. Raises PolicyError, or argparse's own error for a word that is no value.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import replace

from sandbox_native import Limits, Overflow, Policy, PolicyError, SandboxError
from sandbox_native.policy_toml import named
from sandbox_native.units import parse_bytes, parse_seconds


class UsageError(SandboxError):
    """The command line makes no sense; ``usage`` is the line that says what would."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message, usage)
        self.message, self.usage = message, usage

    def __str__(self) -> str:
        return self.message


def unit(parse: Callable[[str], float]) -> Callable[[str], float]:
    """argparse keeps the message of an ArgumentTypeError and throws that of a ValueError away."""

    def read(text: str) -> float:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _shown(text: str) -> str | tuple[str, str]:
    """P, or P:Q for the host's P shown at Q."""
    host, colon, inside = text.partition(":")
    host = from_here(host)
    return (host, inside) if colon else host


def from_here(path: str) -> str:
    """A path of the host as the API takes it. The first ``..`` lead up from where we are, which is no link; others stay."""
    if not path or path.startswith(("/", "~")):  # the API says what is wrong with ~, which a shell would have replaced
        return path
    place, rest = os.getcwd(), path
    while rest == ".." or rest.startswith(("../", "./")):
        first, _, rest = rest.partition("/")
        rest = rest.lstrip("/")
        place = os.path.dirname(place) if first == ".." else place
    return os.path.join(place, rest) if rest not in ("", ".") else place


def bytes_of(name: str, path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = os.strerror(error.errno or 0) if isinstance(error, OSError) else str(error)
        raise PolicyError(reason, field=f"--file {name}", value=path, remedy="name a file that the host can read") from error


def _secret(name: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise PolicyError("is not set", field="--secret", value=name, remedy="export it first")
    return value


def name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} has no '=' behind a name")
    return name, value


def add_policy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--policy", metavar="NAME|FILE", default="strict", help="strict (default), light, or a TOML file")


def add_limits(parser: argparse.ArgumentParser, output_help: str) -> None:
    seconds, size = unit(parse_seconds), unit(parse_bytes)
    limits = parser.add_argument_group("limits, of the whole tree")
    limits.add_argument("--wall", type=seconds, metavar="TIME", help="from its start, 2s or 100ms (default 10s)")
    limits.add_argument("--cpu", type=seconds, metavar="TIME", help="CPU time (default: none)")
    limits.add_argument("--memory", type=size, metavar="SIZE", help="resident memory, 256M (default 512M)")
    limits.add_argument("--processes", type=int, metavar="N", help="processes and threads at once (default 64)")
    limits.add_argument("--cpus", type=float, metavar="X", help="share of cores, 0.5 is half of one (default: none)")
    limits.add_argument("--output", type=size, metavar="SIZE", help=output_help)
    limits.add_argument("--output-kill", action="store_true", help="end the program when it writes more (default 4M)")


def add_view(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """What belongs to the policy, or to every run."""
    view = parser.add_argument_group("what it sees")
    view.add_argument("--readable", type=_shown, action="append", default=[], metavar="P[:Q]", help="host path P, at Q")
    view.add_argument("--writable", type=_shown, action="append", default=[], metavar="P[:Q]", help="the same, writable")
    view.add_argument("--env", type=name_and_value, action="append", default=[], metavar="K=V", help="one more variable")
    view.add_argument("--secret", action="append", default=[], metavar="NAME", help="a variable of ours that nothing shows")
    view.add_argument("--inherit", action="append", default=[], metavar="NAME", help="a variable of ours, LC_* for several")
    return view


def chosen(options: argparse.Namespace) -> tuple[Policy, Limits]:
    """The policy and the limits of these options."""
    asked = {
        "wall_seconds": options.wall,
        "cpu_seconds": options.cpu,
        "memory_bytes": options.memory,
        "processes": options.processes,
        "cpus": options.cpus,
        "stdout_bytes": options.output,
        "stderr_bytes": options.output,
        "on_overflow": Overflow.KILL if options.output_kill else None,
    }
    loaded = named(options.policy)
    readable, writable, inherit = loaded.policy.readable, loaded.policy.writable, loaded.policy.inherit
    policy = replace(
        loaded.policy,
        readable=(*readable, *options.readable),
        writable=(*writable, *options.writable),
        inherit=(*inherit, *options.inherit),
    )
    limits = replace(loaded.limits or Limits(), **{name: value for name, value in asked.items() if value is not None})
    return policy, limits


def secrets_of(options: argparse.Namespace) -> dict[str, str] | None:
    return {name: _secret(name) for name in options.secret} or None
