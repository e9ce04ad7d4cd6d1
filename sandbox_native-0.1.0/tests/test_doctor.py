"""doctor: true findings, a remedy for what is missing, and exit 0 only if a program really ran."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType

import pytest

from sandbox_native import Rung, doctor, features
from sandbox_native.doctor import Finding, Report, examine, print_report, probed
from sandbox_native.features import Feature, Features
from sandbox_native.remedies import PURPOSE, Machine, remedy
from sandbox_native.tables import plain_table, print_table

PLAIN = Machine(root=False, container=False, launcher="/opt/_launcher")
ROOT = Machine(root=True, container=False, launcher="/opt/_launcher")


def _machine(**fields: object) -> Machine:
    return Machine(**{"root": False, "container": False, "launcher": "/opt/_launcher", **fields})  # type: ignore[arg-type]


def _found(**errors: int) -> Features:
    every = {feature: errors.get(feature.name.lower(), 0) for feature in Feature}
    return Features(root=False, kernel="6", machine="x86_64", errors=MappingProxyType(every), landlock_abi=7)


def _doctor(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandbox_native", "doctor", *options]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


# ---- remedies


def test_every_feature_has_a_purpose() -> None:
    assert set(PURPOSE) == set(Feature)


@pytest.mark.parametrize("feature", Feature)
def test_what_works_needs_no_remedy(feature: Feature) -> None:
    assert remedy(feature, 0, PLAIN) == ""


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        (_machine(max_user_namespaces=0), "sysctl -w user.max_user_namespaces"),
        (_machine(unprivileged_userns_clone=0), "sysctl -w kernel.unprivileged_userns_clone=1"),
        (_machine(apparmor_restricts_userns=1), "apparmor_parser"),
        (_machine(container=True), "seccomp=unconfined"),
        (_machine(), "security module"),
        (_machine(root=True, apparmor_restricts_userns=1, container=True), "seccomp=unconfined"),
    ],
)
@pytest.mark.parametrize("feature", [Feature.USERNS, Feature.MOUNT, Feature.NETNS])
def test_refused_namespaces_have_the_switch_that_refuses_them(feature: Feature, machine: Machine, words: str) -> None:
    assert words in remedy(feature, errno.EPERM, machine)


def test_the_apparmor_profile_is_for_the_launcher_and_can_be_pasted() -> None:
    command = remedy(Feature.USERNS, errno.EACCES, _machine(apparmor_restricts_userns=1))
    shown = subprocess.run(["/bin/sh", "-c", command.split(" | ")[0]], capture_output=True, text=True, check=True).stdout
    assert 'profile sandbox-native "/opt/_launcher" flags=(unconfined) {\n  userns,\n}\n' in shown


def test_too_many_namespaces_are_told_from_forbidden_ones() -> None:
    assert "max_user_namespaces" in remedy(Feature.USERNS, errno.ENOSPC, PLAIN)


@pytest.mark.parametrize("feature", [one for one in Feature if one not in (Feature.RESOURCE, Feature.PROC)])
def test_an_old_kernel_is_told_the_version_to_have(feature: Feature) -> None:
    assert "kernel from" in remedy(feature, errno.ENOSYS, ROOT)


def test_proc_refused_in_a_container_has_the_option_that_unmasks_it() -> None:
    assert "systempaths=unconfined" in remedy(Feature.PROC, errno.EPERM, _machine(container=True))


def test_what_a_plain_user_does_without_has_no_remedy() -> None:
    assert remedy(Feature.RESOURCE, errno.EPERM, PLAIN) == ""
    assert remedy(Feature.IDMAP, errno.EPERM, PLAIN) == ""


# ---- findings


def test_a_finding_names_the_error() -> None:
    found = {one.name: one for one in probed(_found(netns=errno.EPERM), PLAIN)}
    assert not found["netns"].works and "EPERM" in found["netns"].detail and found["netns"].remedy
    assert found["userns"].works and not found["userns"].remedy
    assert "ABI 7" in found["landlock"].detail


def test_what_is_lost_without_a_feature_is_told() -> None:
    [found] = [one for one in probed(_found(resource=errno.EPERM), ROOT) if one.name == "resource"]
    assert not found.works and "hard limit" in found.detail and "stays" in found.detail
    [works] = [one for one in probed(_found(), ROOT) if one.name == "resource"]
    assert "stays" not in works.detail


def test_the_report_is_json() -> None:
    report = Report(ok=True, rung="full", findings=(Finding(name="a", works=True, detail="b"),))
    assert json.loads(json.dumps(report.to_dict())) == {
        "version": 1,
        "ok": True,
        "rung": "full",
        "features": [{"name": "a", "works": True, "detail": "b", "remedy": None}],
    }


def test_remedies_are_printed_whole_beneath_the_table() -> None:
    stream = io.StringIO()
    broken = Finding(name="netns", works=False, detail="refused", remedy="do this")
    print_report(Report(ok=False, rung=None, findings=(broken,)), stream)
    assert "netns: do this" in stream.getvalue() and "cannot run" in stream.getvalue()


def test_plain_tables_line_up() -> None:
    assert plain_table(("a", "b"), [("long", "x"), ("s", "")]) == ["a     b", "long  x", "s"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("installed", [True, False])
def test_a_terminal_gets_the_same_table_with_and_without_rich(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    if installed:
        pytest.importorskip("rich", reason="needs rich: not installed")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    stream = _Terminal()
    print_table(("feature", "works"), [("netns [x]", "no")], stream)
    assert "feature" in stream.getvalue() and "netns [x]" in stream.getvalue()
    assert installed or stream.getvalue() == "feature    works\nnetns [x]  no\n"


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_doctor_runs_a_program_under_the_default_policy() -> None:
    report = examine()
    assert report.ok, report
    assert report.rung in (Rung.FULL.value, Rung.NAMESPACES.value)
    names = [one.name for one in report.findings]
    assert names[0] == "launcher" and names[-1] == "default_policy" and "cgroup" in names


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_command_says_in_json_what_it_found() -> None:
    done = _doctor("--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (told["version"], told["ok"]) == (1, True)
    for one in told["features"]:
        assert set(one) == {"name", "works", "detail", "remedy"}


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_the_table_is_plain_text_where_there_is_no_terminal() -> None:
    done = _doctor()
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() and "\x1b" not in done.stdout
    assert "default policy can run here" in done.stdout


@pytest.mark.parametrize("launcher", ["/nonexistent/launcher", "/etc/passwd", "/bin/true"])
def test_a_broken_launcher_is_found_and_the_exit_status_says_so(launcher: str) -> None:
    done = _doctor("--json", SANDBOX_NATIVE_LAUNCHER=launcher)
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], told["rung"]) == (1, False, None)
    found = {one["name"]: one for one in told["features"]}
    assert not found["default_policy"]["works"] and found["default_policy"]["remedy"]


@pytest.mark.kernel
@pytest.mark.needs("userns")
@pytest.mark.needs("root")
def test_masked_control_groups_are_a_mode_and_no_failure() -> None:
    """R35: doctor with /sys/fs/cgroup masked prints a mode and does not fail."""
    script = 'mount -t tmpfs none /sys/fs/cgroup && exec "$0" -m sandbox_native doctor --json'
    done = subprocess.run(["unshare", "-m", "/bin/sh", "-c", script, sys.executable], capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    found = {one["name"]: one for one in told["features"]}
    assert done.returncode == 0 and told["rung"] == "namespaces"
    assert not found["cgroup"]["works"] and found["cgroup"]["remedy"]


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_forbidden_user_namespaces_are_found_with_the_switch(tmp_path: Path) -> None:
    """In a user namespace of its own, whose own bound on user namespaces can be lowered."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" -m sandbox_native doctor --json'
    done = subprocess.run(
        ["unshare", "-Ur", "/bin/sh", "-c", script, sys.executable], capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout)
    found = {one["name"]: one for one in told["features"]}
    assert (done.returncode, told["ok"]) == (1, False)
    assert not found["userns"]["works"]
    assert "user.max_user_namespaces" in found["userns"]["remedy"]


def test_doctor_does_not_leave_its_answer_in_the_cache_of_another_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", "/nonexistent/launcher")
    assert not doctor.examine().ok
    monkeypatch.delenv("SANDBOX_NATIVE_LAUNCHER")
    assert features.probe().kernel == os.uname().release
