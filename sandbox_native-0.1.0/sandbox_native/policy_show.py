"""What a policy comes to on this machine, for people: the tree that a guest sees, its environment, calls and limits.

Called by the command line. Each part comes from the code that makes the plan: see effective.py for the tree.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Final, TextIO

from sandbox_native import hosttree, mandatory, syscalls
from sandbox_native.effective import Entry, entries
from sandbox_native.environment import Environment
from sandbox_native.limits import Limits
from sandbox_native.paths import contains
from sandbox_native.policy import Policy, Writes
from sandbox_native.policy_toml import table
from sandbox_native.tables import print_table, printable
from sandbox_native.units import format_bytes

VERSION: Final = 1
_FROM_HOST: Final = "<the host's>"


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """A group of system calls: permitted, permitted by `Policy.syscalls`, or refused. `opens`: what an optional one costs."""

    group: str
    state: str
    names: tuple[str, ...]
    opens: str = ""


def never_written(policy: Policy) -> tuple[str, ...]:
    """Names that no guest may write, relative to every writable root and workspace, and to git repositories in them. Pure."""
    return (*mandatory.NAMES, *policy.deny_write)


def calls(policy: Policy) -> list[Calls]:
    """Every group of system calls and what the policy makes of it; nothing where the preset has no filter. Pure."""
    if policy.preset == "light":
        return []
    found = [Calls(group=name, state="permitted", names=names) for name, names in syscalls.GROUPS.items()]
    found.append(Calls(group="by their arguments", state="permitted", names=tuple(syscalls.CHECKED)))
    for name, group in syscalls.OPTIONAL.items():
        state = "permitted by Policy.syscalls" if name in policy.syscalls else "refused, optional"
        found.append(
            Calls(group=name, state=state, names=tuple(dict.fromkeys((*group.calls, *group.checked))), opens=group.opens)
        )
    return found


def environment(policy: Policy) -> dict[str, str]:
    """What a guest has without `env=`. Of what it takes from the host the names only: values are the host's own. Pure."""
    made = Environment(
        path=policy.path, inherit=policy.inherit, inherit_unsafe=policy.inherit_unsafe, deterministic=policy.deterministic
    )
    return {**made.of(None), **dict.fromkeys(policy.inherit, _FROM_HOST)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Effective:
    """A policy on this machine."""

    policy: Policy
    limits: Limits
    view: Sequence[Entry]
    calls: Sequence[Calls]
    environment: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "policy": table(self.policy),
            "never_written": list(never_written(self.policy)),
            "view": [{"path": one.path, "access": one.access, "detail": one.detail} for one in self.view],
            "environment": dict(self.environment),
            "syscalls": [
                {"group": one.group, "state": one.state, "names": list(one.names), "opens": one.opens or None}
                for one in self.calls
            ],
            "limits": {field.name: _plain(getattr(self.limits, field.name)) for field in fields(self.limits)},
        }


def effective(policy: Policy, limits: Limits) -> Effective:
    """Looks at the host's files. `PolicyError`: a path of the policy is not there, or may not be shown."""
    tree = hosttree.read_tree(policy)
    return Effective(
        policy=policy,
        limits=limits,
        view=entries(policy, tree, os.geteuid() == 0),
        calls=calls(policy),
        environment=environment(policy),
    )


def _plain(value: object) -> object:
    return value.value if isinstance(value, Enum) else value


def print_effective(shown: Effective, stream: TextIO) -> None:
    """Five parts: the choices, the tree, the environment, the calls, the limits."""
    paths = {"readable", "writable", "protected", "hidden", "symlinks"}  # the tree has them
    choices = [(name, _words(value)) for name, value in table(shown.policy).items() if name not in paths]
    _part("policy", ("field", "value"), choices, stream)
    _part("view", ("path", "access", "what it is"), list(_tree(shown.view)), stream)
    absent = "made anyway, they are moved to quarantine" if shown.policy.writes is Writes.DIRECT else "the commit refuses them"
    names = " ".join(map(printable, never_written(shown.policy)))
    print(f"never written in a root or workspace, nor in repositories there (absent ones: {absent}):\n  {names}\n", file=stream)
    variables = [(name, printable(value)) for name, value in shown.environment.items()]
    _part("environment", ("variable", "value"), variables, stream)
    groups = [
        (one.group, one.state, " ".join(sorted(one.names)) + (f" ({one.opens})" if one.opens else "")) for one in shown.calls
    ]
    _part("system calls", ("group", "state", "calls"), groups or [("all", "permitted", "the preset has no filter")], stream)
    bounds = [(field.name, _bound(field.name, getattr(shown.limits, field.name))) for field in fields(shown.limits)]
    _part("limits", ("limit", "value"), bounds, stream, last=True)


def _part(title: str, headers: Sequence[str], rows: Sequence[Sequence[str]], stream: TextIO, *, last: bool = False) -> None:
    print(f"# {title}", file=stream)
    print_table(headers, rows, stream)
    if not last:
        print(file=stream)


def _tree(view_of_guest: Sequence[Entry]) -> Iterator[tuple[str, str, str]]:
    """A row for each place, indented beneath the one around it and named from there."""
    around: list[str] = []
    for one in view_of_guest:
        while around and not contains(around[-1], one.path):
            around.pop()
        name = one.path if not around else one.path.removeprefix(around[-1]).lstrip("/")
        yield "  " * len(around) + printable(name), one.access, printable(one.detail)
        around.append(one.path)


def _words(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(printable(str(one)) for one in value) or "none"
    return ("yes" if value else "no") if isinstance(value, bool) else printable(str(value))


def _bound(name: str, value: object) -> str:
    if value is None:
        return "no limit"
    if isinstance(value, Enum):
        return str(value.value)
    return format_bytes(int(value)) if name.endswith("_bytes") and isinstance(value, int) else f"{value:,}"
