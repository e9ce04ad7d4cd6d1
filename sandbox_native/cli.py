"""The command line: ``python -m sandbox_native COMMAND``, also ``sandbox-native``: run, batch, judge, explain, doctor, policy
show.

This module reads the arguments and chooses the exit status; :mod:`sandbox_native.clirun` runs and prints,
:mod:`sandbox_native.clibatch` runs many, :mod:`sandbox_native.judge.cli` judges, :mod:`sandbox_native.doctor` examines.
Exit status of ``run``: the guest's; 128+n when a signal ended it; 124 wall or CPU limit; 122 memory; 123 output; 121 forbidden
system call; 125 refused, failed set-up or wrong usage; 126, 127 as shells do.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import NoReturn

from sandbox_native import Limits, SandboxError, __version__, cliout
from sandbox_native.clioptions import (
    UsageError,
    add_limits,
    add_policy,
    add_view,
    bytes_of,
    chosen,
    from_here,
    name_and_value,
    secrets_of,
    unit,
)
from sandbox_native.clirun import Job, error_object, exit_status_of_error, run_job
from sandbox_native.features import without_native
from sandbox_native.policy_toml import named
from sandbox_native.tables import printable
from sandbox_native.units import parse_bytes, parse_seconds

PROGRAM = "sandbox-native"
INTERRUPTED = 130
BROKEN_PIPE = 141  # 128 + SIGPIPE, as for any program whose reader went away


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, self.format_usage().strip())


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
    _add_batch(commands.add_parser("batch", help="run a file of jobs, many at once; resumable", allow_abbrev=False))
    _add_judge(commands.add_parser("judge", help="judge submissions to a problem; resumable", usage=_JUDGE, allow_abbrev=False))
    return parser


_USAGE = f"{PROGRAM} run [OPTION …] -- ARGV …"
_EXPLAIN = f"{PROGRAM} explain [OPTION …] -- ARGV …"
_JUDGE = f"{PROGRAM} judge PACKAGE (--submission F … | --all) [OPTION …], or {PROGRAM} judge languages|calibrate [--json]"


def _add_run(run: argparse.ArgumentParser) -> None:
    add_policy(run)
    add_limits(run, "of each stream that is passed on (with --json: 4M)")
    view = add_view(run)
    view.add_argument("--workspace", metavar="DIR", help="host directory as its /workspace, writable")
    view.add_argument(
        "--file", type=name_and_value, action="append", default=[], metavar="NAME=PATH", help="PATH's bytes as NAME"
    )
    view.add_argument("--stdin", metavar="FILE", help="its standard input, - is ours (default: empty)")
    told = run.add_argument_group("what is told")
    told.add_argument("--json", action="store_true", help="the Result as one object, instead of the output")
    told.add_argument("--receipt", action="store_true", help="verdict, cost and what was enforced, on standard error")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="ARGV", help="the program and its arguments")


def _add_batch(batch: argparse.ArgumentParser) -> None:
    batch.add_argument("jobs", metavar="JOBS", help='a file, {"id": …, "argv": […], …} in each line; - is our standard input')
    batch.add_argument("-o", "--results", required=True, metavar="FILE", help="a Result in each line; ids in it are finished")
    batch.add_argument("--concurrency", type=int, metavar="N", help="how many run at once (default: one for each core)")
    batch.add_argument("--ordered", action="store_true", help="results in the order of the jobs, not as they come")
    batch.add_argument("--budget", type=unit(parse_bytes), metavar="SIZE", help="memory of all that run at once; others wait")
    batch.add_argument("--pinned", action="store_true", help="each run gets one core")
    batch.add_argument("--quiet", action="store_true", help="neither progress nor a summary on standard error")
    batch.set_defaults(json=False)
    add_policy(batch)
    add_limits(batch, "of each stream that is kept (default 4M)")
    add_view(batch)


def _add_judge(judge: argparse.ArgumentParser) -> None:
    judge.add_argument("package", metavar="PACKAGE", help="a problem package (also a .zip of one), or a folder of 1.in 1.ans")
    judge.add_argument(
        "--submission", nargs="+", action="extend", default=[], metavar="F", help="source files or directories of them"
    )
    judge.add_argument("--all", action="store_true", help="the package's own submissions, and whether each gets what it should")
    judge.add_argument("--json", action="store_true", help="a judgement a line as they come, instead of a table")
    judge.add_argument("--html", metavar="REPORT", help="write a page with all submissions and cases")
    judge.add_argument("--resume", metavar="JOURNAL", help="keep judgements there, and go on from those that are there")
    judge.add_argument("--cpu", type=unit(parse_seconds), metavar="TIME", help="limit of CPU time in place of the problem's")
    judge.add_argument("--memory", type=unit(parse_bytes), metavar="SIZE", help="limit of memory in place of the problem's")
    judge.add_argument(
        "--checker", metavar="FLAGS", help="how outputs of a folder's cases are compared: 'float_tolerance 1e-6', exact …"
    )
    judge.add_argument("--workers", type=int, metavar="N", help="submissions at once (default: one for each core)")
    judge.add_argument("--all-cases", action="store_true", help="go on behind the first case that is not accepted")
    judge.add_argument(
        "--language", metavar="NAME", help="of the submissions that are named (default: by the names of their files)"
    )
    judge.add_argument("--languages", metavar="FILE", help="TOML with more languages, or changes to those that there are")
    judge.add_argument("--quiet", action="store_true", help="neither progress nor a summary on standard error")


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str] | None]:
    """Ours, and the guest's behind the first ``--``: argparse would read options in them."""
    ours = list(arguments)
    if "--" not in ours:
        return ours, None
    at = ours.index("--")
    return ours[:at], ours[at + 1 :]


def _job(options: argparse.Namespace, argv: list[str]) -> Job:
    """The values of the API for these options. Raises PolicyError."""
    policy, limits = chosen(options)
    return Job(
        argv=argv,
        policy=policy,
        limits=limits,
        stdin=0 if options.stdin == "-" else options.stdin,
        env=dict(options.env),
        secrets=secrets_of(options),
        workspace=None if options.workspace is None else from_here(options.workspace),
        files={name: bytes_of(name, path) for name, path in options.file} or None,
        bounded=options.output is not None or options.output_kill,
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


def _batch(options: argparse.Namespace, behind: list[str] | None) -> int:
    if behind is not None:
        raise UsageError("a batch takes its programs from the file of jobs", f"{PROGRAM} batch JOBS -o FILE [OPTION …]")
    from sandbox_native.clibatch import Batch, run_batch

    policy, limits = chosen(options)
    return run_batch(
        Batch(
            jobs=options.jobs,
            results=options.results,
            policy=policy,
            limits=limits,
            env=dict(options.env),
            secrets=secrets_of(options),
            concurrency=options.concurrency,
            ordered=options.ordered,
            pinned=options.pinned,
            memory_bytes=options.budget,
            quiet=options.quiet,
        )
    )


def _judge(options: argparse.Namespace, behind: list[str] | None) -> int:
    from sandbox_native.judge.asked import Asked
    from sandbox_native.judge.cli import list_languages, run_judge, show_calibration

    if behind is None and not (options.submission or options.all):
        if options.package == "languages":
            return list_languages(options.languages, options.json)
        if options.package == "calibrate":
            return show_calibration(options.json)
    if behind is not None or not (options.submission or options.all):
        raise UsageError("there is nothing to judge: name submissions, or give --all", _JUDGE)
    return run_judge(
        Asked(
            package=options.package,
            submissions=options.submission,
            verify=options.all,
            as_json=options.json,
            html=options.html,
            journal=options.resume,
            languages=options.languages,
            language=options.language,
            checker=options.checker,
            cpu_seconds=options.cpu,
            memory_bytes=options.memory,
            workers=options.workers,
            run_all=options.all_cases,
            quiet=options.quiet,
        )
    )


def _doctor(options: argparse.Namespace) -> int:
    from sandbox_native.doctor import examine, print_report

    report = examine()
    with cliout.printing():
        if options.json:
            print(json.dumps(report.to_dict()))
        else:
            print_report(report, sys.stdout)
    return 0 if report.ok else 1


def _show(options: argparse.Namespace) -> int:
    try:
        from sandbox_native.policy_show import effective, print_effective
    except ImportError as error:
        raise without_native(error) from error

    loaded = named(options.policy)
    shown = effective(loaded.policy, loaded.limits or Limits())
    with cliout.printing():
        if options.json:
            print(json.dumps(shown.to_dict()))
        else:
            print_effective(shown, sys.stdout)
    return 0


def _complain(error: Exception, as_json: bool) -> int:
    if as_json and not isinstance(error, cliout.Unwritable):
        with cliout.printing():
            print(json.dumps(error_object(error)))
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
        if options.command == "batch":
            return _batch(options, behind)
        if options.command == "judge":
            return _judge(options, behind)
        return _run(options, behind)
    except BrokenPipeError:
        raise
    except (SandboxError, OSError) as error:
        try:
            return _complain(error, as_json)
        except cliout.Unwritable as unwritable:
            return _complain(unwritable, False)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status; never an exception for what a user or a guest did."""
    try:
        return _dispatch(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # nobody reads us any more
        cliout.forget()
        return BROKEN_PIPE
