"""``sandbox-native explain``: one box whose refused calls are watched; what was refused, why, and what would permit it.

Called by :mod:`sandbox_native.cli` with checked values. What the guest writes, to either stream, goes to our standard error: our
standard output is the explanation. The exit status is that of ``run``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TextIO

from sandbox_native import Denial, Policy, PolicyError, Result, Sandbox
from sandbox_native.clirun import VERSION, Job, exit_status, notice, pass_on
from sandbox_native.paths import contains
from sandbox_native.tables import print_table, printable

_HEADERS = ("refused", "arguments", "count", "why", "permitted by")
_WIDEST = 60


def explain_job(job: Job) -> int:
    """Runs it, prints what was refused, and gives the exit status. As clirun.run_job in all else."""
    policy = replace(job.policy, explain=True)
    with Sandbox(policy, job.limits) as sandbox:
        if job.as_json:
            result = sandbox.run(
                job.argv, stdin=job.stdin, env=job.env, secrets=job.secrets, workspace=job.workspace, files=job.files
            )
        else:
            result, _ = pass_on(sandbox, job, (2, 2))
    change = smallest_change(job.policy, result.denials)
    if job.as_json:
        print(json.dumps({"version": VERSION, "result": result.to_dict(), "change": change, "toml": toml(change)}))
    else:
        note = notice(result, job.limits)
        if note:
            print(f"sandbox-native: {printable(note)}", file=sys.stderr)
        print_explanation(result, change, sys.stdout)
    sys.stdout.flush()
    return exit_status(result)


# ---- pure


def smallest_change(policy: Policy, denials: Iterable[Denial]) -> dict[str, Any]:
    """What to add to the policy, by field, so that nothing of this is refused again: as far as it accepts that."""
    change: dict[str, Any] = {}
    for denial in denials:
        field, _, text = (denial.allow or "").partition("=")
        if field:
            _add(policy, change, field, json.loads(text))
    return {field: _outermost(value) if isinstance(value, list) else value for field, value in change.items()}


def _add(policy: Policy, change: dict[str, Any], field: str, value: Any) -> None:
    wanted = value
    if isinstance(value, list):
        known = change.get(field, [])
        wanted = known + [one for one in value if one not in known]
    try:
        _changed(policy, {**change, field: wanted})
    except PolicyError:  # this one would be refused, for a reason that the denial cannot know
        return
    change[field] = wanted


def _changed(policy: Policy, change: Mapping[str, Any]) -> Policy:
    return replace(policy, **{name: _joined(getattr(policy, name), value) for name, value in change.items()})


def _joined(old: Any, value: Any) -> Any:
    """A field's value with what is to be added to it, or in its place."""
    if isinstance(value, list):
        return (*old, *(tuple(one) if isinstance(one, list) else one for one in value))
    return type(old)(value)


def _outermost(values: Sequence[Any]) -> list[Any]:
    """Without what lies beneath another that is in the list."""
    paths = [one for one in values if isinstance(one, str) and one.startswith("/")]
    return [one for one in values if not any(one != path and isinstance(one, str) and contains(path, one) for path in paths)]


def toml(change: Mapping[str, Any]) -> str:
    """One line for each field, which a terminal can be shown."""
    return "".join(f"{field} = {_written(json.dumps(value, ensure_ascii=False))}\n" for field, value in change.items())


def _written(text: str) -> str:
    """Behind json.dumps, which writes only some control characters as TOML wants them."""
    return "".join(one if one.isprintable() else f"\\U{ord(one):08x}" for one in text)


def print_explanation(result: Result, change: Mapping[str, Any], stream: TextIO) -> None:
    """A table of what was refused, and the change as TOML."""
    if not result.denials:
        print("nothing was refused", file=stream)
        return
    by_use = sorted(result.denials, key=lambda one: one.allow is None)  # what can be permitted comes first
    rows = [(one.name, _cut(one.arguments), str(one.count), one.reason, one.allow or "") for one in by_use]
    print_table(_HEADERS, rows, stream)
    print(file=stream)
    if change:
        print("# To be added to the policy:", file=stream)
        print(toml(change), end="", file=stream)
    else:
        print("# No field of a policy permits any of it.", file=stream)


def _cut(text: str) -> str:
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
