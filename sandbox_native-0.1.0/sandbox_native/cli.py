"""The command line: ``python -m sandbox_native run``, ``explain``, ``doctor`` and ``policy show``; also ``sandbox-native``.

This module reads the arguments and chooses the exit status; :mod:`sandbox_native.clirun` runs and prints,
:mod:`sandbox_native.doctor` examines. Exit status of ``run``: the guest's; 128+n when a signal ended it; 124 wall or CPU
limit; 122 memory; 123 output; 121 forbidden system call; 125 refused, failed set-up or wrong usage; 126, 127 as shells do.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NoReturn

from sandbox_native import Limits, Overflow, PolicyError, SandboxError, __version__
from sandbox_native.clirun import Job, error_object, exit_status_of_error, run_job
from sandbox_native.features import without_native
from sandbox_native.policy_toml import named
from sandbox_native.tables import printable
from sandbox_native.units import parse_bytes, parse_seconds

PROGRAM = "sandbox-native"
INTERRUPTED = 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as for any program whose reader went away


class UsageError(SandboxError):
    """The command line makes no sense; ``usage`` is the line that says what would."""

    def __init__(self, message: str, usage: str) -> None:
        super().__init__(message, usage)
        self.message, self.usage = message, usage

    def __str__(self) -> str:
        return self.message


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage().strip())


def _unit(parse: Callable[[str], float]) -> Callable[[str], float]:
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
    host = _from_here(host)
    return (host, inside) if colon else host


def _from_here(path: str) -> str:
    """A path of the host as the API takes it. The first ``..`` lead up from where we are, which is no link; others stay."""
    if not path or path.startswith(("/", "~")):  # the API says what is wrong with ~, which a shell would have replaced
        return path
    place, rest = os.getcwd(), path
    while rest == ".." or rest.startswith(("../", "./")):
        first, _, rest = rest.partition("/")
        rest = rest.lstrip("/")
        place = os.path.dirname(place) if first == ".." else place
    return os.path.join(place, rest) if rest not in ("", ".") else place


def _bytes_of(name: str, path: str) -> bytes:
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


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"{text!r} has no '=' behind a name")
    return name, value


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Runs a program that nobody trusts, fully isolated.", allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)
    doctor = commands.add_parser("doctor", help="what this machine lets us enforce, found by doing it", allow_abbrev=False)
    doctor.add_argument("--json", action="store_true", help="one object instead of a table")
    policy = commands.add_parser("policy", help="what a policy comes to", allow_abbrev=False)
    policy_commands = policy.add_subparsers(dest="policy_command", required=True, metavar="COMMAND", parser_class=_Parser)
    show = policy_commands.add_parser("show", help="the tree, environment, calls and limits of a guest", allow_abbrev=False)
    show.add_argument("policy", metavar="NAME|FILE", help="strict, light, or a TOML file")
    show.add_argument("--json", action="store_true", help="one object instead of tables")
    _add_run(commands.add_parser("run", help="run one program in a box", usage=_USAGE, allow_abbrev=False))
    explain = commands.add_parser(
        "explain", help="what one is refused, and what would permit it", usage=_EXPLAIN, allow_abbrev=False
    )
    _add_run(explain)
    return parser


_USAGE = f"{PROGRAM} run [OPTION …] -- ARGV …"
_EXPLAIN = f"{PROGRAM} explain [OPTION …] -- ARGV …"


def _add_run(run: argparse.ArgumentParser) -> None:
    seconds, size = _unit(parse_seconds), _unit(parse_bytes)
    run.add_argument("--policy", metavar="NAME|FILE", default="strict", help="strict (default), light, or a TOML file")
    limits = run.add_argument_group("limits, of the whole tree")
    limits.add_argument("--wall", type=seconds, metavar="TIME", help="from its start, 2s or 100ms (default 10s)")
    limits.add_argument("--cpu", type=seconds, metavar="TIME", help="CPU time (default: none)")
    limits.add_argument("--memory", type=size, metavar="SIZE", help="resident memory, 256M (default 512M)")
    limits.add_argument("--processes", type=int, metavar="N", help="processes and threads at once (default 64)")
    limits.add_argument("--cpus", type=float, metavar="X", help="share of cores, 0.5 is half of one (default: none)")
    limits.add_argument("--output", type=size, metavar="SIZE", help="of each stream that is passed on (with --json: 4M)")
    limits.add_argument("--output-kill", action="store_true", help="end the program when it writes more (default 4M)")
    view = run.add_argument_group("what it sees")
    view.add_argument("--readable", type=_shown, action="append", default=[], metavar="P[:Q]", help="host path P, at Q")
    view.add_argument("--writable", type=_shown, action="append", default=[], metavar="P[:Q]", help="the same, writable")
    view.add_argument("--workspace", metavar="DIR", help="host directory as its /workspace, writable")
    view.add_argument("--file", type=_named, action="append", default=[], metavar="NAME=PATH", help="PATH's bytes as NAME")
    view.add_argument("--env", type=_named, action="append", default=[], metavar="K=V", help="one more variable")
    view.add_argument("--secret", action="append", default=[], metavar="NAME", help="a variable of ours that nothing shows")
    view.add_argument("--inherit", action="append", default=[], metavar="NAME", help="a variable of ours, LC_* for several")
    view.add_argument("--stdin", metavar="FILE", help="its standard input, - is ours (default: empty)")
    told = run.add_argument_group("what is told")
    told.add_argument("--json", action="store_true", help="the Result as one object, instead of the output")
    told.add_argument("--receipt", action="store_true", help="verdict, cost and what was enforced, on standard error")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="ARGV", help="the program and its arguments")


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Ours, and the guest's behind the first ``--``: argparse would read options in them."""
    ours = list(arguments)
    if "--" not in ours:
        return ours, None
    at = ours.index("--")
    return ours[:at], ours[at + 1 :]


def _job(options: argparse.Namespace, argv: list[str]) -> Job:
    """The values of the API for these options. Raises PolicyError."""
    bounded = options.output is not None or options.output_kill
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
    return Job(
        argv=argv,
        policy=replace(
            loaded.policy,
            readable=(*readable, *options.readable),
            writable=(*writable, *options.writable),
            inherit=(*inherit, *options.inherit),
        ),
        limits=replace(loaded.limits or Limits(), **{name: value for name, value in asked.items() if value is not None}),
        stdin=0 if options.stdin == "-" else options.stdin,
        env=dict(options.env),
        secrets={name: _secret(name) for name in options.secret} or None,
        workspace=None if options.workspace is None else _from_here(options.workspace),
        files={name: _bytes_of(name, path) for name, path in options.file} or None,
        bounded=bounded,
        as_json=options.json,
        receipt=options.receipt,
    )


def _run(options: argparse.Namespace, behind: list[str] | None) -> int:
    argv = list(options.argv)
    if behind is not None:
        argv += ["--", *behind] if argv else behind  # the program's own --
    explains = options.command == "explain"
    if not argv:
        raise UsageError("there is no program: name it behind --", _EXPLAIN if explains else _USAGE)
    if not explains:
        return run_job(_job(options, argv))
    from sandbox_native.cliexplain import explain_job

    return explain_job(_job(options, argv))


def _doctor(options: argparse.Namespace) -> int:
    from sandbox_native.doctor import examine, print_report

    report = examine()
    if options.json:
        print(json.dumps(report.to_dict()))
    else:
        print_report(report, sys.stdout)
    sys.stdout.flush()
    return 0 if report.ok else 1


def _show(options: argparse.Namespace) -> int:
    try:
        from sandbox_native.policy_show import effective, print_effective
    except ImportError as error:
        raise without_native(error) from error

    loaded = named(options.policy)
    shown = effective(loaded.policy, loaded.limits or Limits())
    if options.json:
        print(json.dumps(shown.to_dict()))
    else:
        print_effective(shown, sys.stdout)
    sys.stdout.flush()
    return 0


def _complain(error: Exception, as_json: bool) -> int:
    if as_json:
        print(json.dumps(error_object(error)), flush=True)
    else:
        print(f"{PROGRAM}: {printable(str(error))}", file=sys.stderr)
        if isinstance(error, UsageError):
            print(error.usage, file=sys.stderr)
    return exit_status_of_error(error)


def _dispatch(arguments: Sequence[str]) -> int:
    ours, behind = _split(arguments)
    as_json = "--json" in ours
    try:
        options = _parser().parse_args(ours)
        as_json = options.json
        if options.command == "doctor":
            return _doctor(options)
        if options.command == "policy":
            return _show(options)
        return _run(options, behind)
    except BrokenPipeError:
        raise
    except (SandboxError, OSError) as error:
        return _complain(error, as_json)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status; never an exception for what a user or a guest did."""
    try:
        return _dispatch(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads us any more; what Python still holds for them must not fail once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return BROKEN_PIPE
