"""``doctor``: what this machine lets us enforce, found by doing it, and how to get what is missing.

The launcher tries every step in a child, a control group is made and removed, and /bin/true runs under the default
policy, which alone decides whether all is well: every other feature has a fallback that the receipt names.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Any, TextIO

from sandbox_native import Limits, Policy, Sandbox
from sandbox_native.errors import PolicyError, SandboxError, SetupError, UnsupportedError
from sandbox_native.features import Feature, Features, launcher_path, probe, without_native
from sandbox_native.remedies import LOST, OF_ROOT, PURPOSE, Machine, cause, remedy
from sandbox_native.result import Result
from sandbox_native.tables import print_table

VERSION = 1
_PROGRAM = "/bin/true"
_WALL_SECONDS = 30


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One line of the report."""

    name: str
    works: bool
    detail: str
    remedy: str = ""


@dataclass(frozen=True, kw_only=True)
class Report:
    """``ok``: the default policy ran a program. ``rung``: the one that served, None where none does."""

    ok: bool
    rung: str | None
    findings: tuple[Finding, ...]

    def to_dict(self) -> dict[str, Any]:
        features = [
            {"name": one.name, "works": one.works, "detail": one.detail, "remedy": one.remedy or None} for one in self.findings
        ]
        return {"version": VERSION, "ok": self.ok, "rung": self.rung, "features": features}


def examine() -> Report:
    """Tries everything. What cannot be tried is a finding, never an exception."""
    findings = [_launcher()]
    try:
        features = probe()
    except SandboxError as error:
        findings.append(_failed("probes", error))
    else:
        findings += probed(features, Machine.here(launcher_path()))
    trial, result = _default_policy()
    findings += [*_control_groups(), trial]
    rung = result.enforcement.rung.value if result is not None else None
    return Report(ok=trial.works, rung=rung, findings=tuple(findings))


def probed(features: Features, machine: Machine) -> list[Finding]:
    """A finding for each probe, in the order in which a box needs them."""
    findings = []
    for feature in Feature:
        error = features.errors[feature]
        detail = PURPOSE[feature]
        if error and feature in OF_ROOT and not machine.root:
            detail += ": root's only, the box of a plain user does without"
        elif error:
            detail += f": {os.strerror(error)} ({errno.errorcode.get(error, error)})"
        if why := cause(feature, error, machine):
            detail += f"; {why}"
        if error and feature in LOST:
            detail += f"; {LOST[feature]}"
        elif feature is Feature.LANDLOCK and not error:
            detail += f", ABI {features.landlock_abi}"
        findings.append(
            Finding(name=feature.name.lower(), works=error == 0, detail=detail, remedy=remedy(feature, error, machine))
        )
    return findings


def _launcher() -> Finding:
    path = launcher_path()
    if os.access(path, os.X_OK):
        return Finding(name="launcher", works=True, detail=path)
    what = "is not executable" if os.path.exists(path) else "is not there"
    return Finding(
        name="launcher",
        works=False,
        detail=f"{path} {what}",
        remedy="pip install --force-reinstall sandbox-native, or name another copy in SANDBOX_NATIVE_LAUNCHER",
    )


def _control_groups() -> list[Finding]:
    try:
        from sandbox_native.backends.prepare import control_groups
    except ImportError as error:
        return [_failed("cgroup", without_native(error))]
    found = control_groups()
    groups = Finding(name="cgroup", works=found.usable, detail=found.detail, remedy=found.remedy)
    share = "a share of cores (cpus) can be limited" if found.limits_cpus else "no cpu controller: cpus cannot be limited"
    return [groups, Finding(name="cgroup_cpu", works=found.limits_cpus, detail=share)]


def _default_policy() -> tuple[Finding, Result | None]:
    """The proof: a program under the policy that everybody gets, with a launcher of its own."""
    name = "default_policy"
    try:
        with Sandbox(Policy.strict(), Limits(wall_seconds=_WALL_SECONDS)) as sandbox:
            result = sandbox.run([_PROGRAM])
    except SandboxError as error:
        return _failed(name, error), None
    if not result.ok:
        detail = f"{_PROGRAM} ended as {result.status.value}, exit code {result.exit_code}, signal {result.signal}"
        return Finding(name=name, works=False, detail=detail, remedy=result.hint or ""), None
    lost = [layer.name for layer in result.enforcement.layers if layer.held is False]
    detail = f"{_PROGRAM} ran; " + (f"not held: {', '.join(lost)}" if lost else "every layer that was asked for held")
    return Finding(name=name, works=True, detail=detail), result


def _failed(name: str, error: SandboxError) -> Finding:
    if isinstance(error, SetupError):
        return Finding(name=name, works=False, detail=f"{error.stage}: {error.strerror} {error.item}".strip(), remedy=error.hint)
    if isinstance(error, UnsupportedError):
        missing = f": {', '.join(error.missing)}" if error.missing else ""
        return Finding(name=name, works=False, detail=error.reason + missing, remedy=error.remedy)
    return Finding(name=name, works=False, detail=str(error), remedy=error.remedy if isinstance(error, PolicyError) else "")


def print_report(report: Report, stream: TextIO) -> None:
    """The table, the remedies beneath it (they are commands to copy), and the verdict."""
    rows = [(one.name, "yes" if one.works else "no", one.detail) for one in report.findings]
    print_table(("feature", "works", "detail"), rows, stream)
    remedies = [(one.name, one.remedy) for one in report.findings if not one.works and one.remedy]
    if remedies:
        print("\nto get what is missing:", file=stream)
    for name, words in remedies:
        print(f"  {name}: {words}", file=stream)
    print(file=stream)
    if report.ok:
        print(f"the default policy can run here, on rung {report.rung}", file=stream)
    else:
        print("the default policy cannot run here", file=stream)
