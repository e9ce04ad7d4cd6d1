"""``sandbox-native explain`` (sandbox_native/cliexplain.py): the table, the smallest change as TOML, and that it is enough."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sandbox_native import Deletion, Denial, Policy
from sandbox_native.cliexplain import smallest_change, toml

NETLINK = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"


def explain(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandbox_native", "explain", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def toml_of(output: str) -> dict[str, Any]:
    """What stands behind the table."""
    return tomllib.loads(output.partition("\n\n")[2])


@pytest.mark.kernel
def test_a_refused_socket_is_named_with_the_group_that_permits_it(tmp_path: Path) -> None:
    done = explain("--", "python3", "-c", NETLINK)
    assert done.returncode == 1 and "OSError: [Errno 97]" in done.stderr  # the guest's own
    head, row = done.stdout.splitlines()[:2]
    assert head.split() == ["refused", "arguments", "count", "why", "permitted", "by"]
    assert row.startswith("socket") and "AF_NETLINK, SOCK_RAW, NETLINK_ROUTE" in row
    assert "sockets are AF_UNIX" in row and row.endswith('syscalls=["netlink"]')
    assert done.stdout.endswith('\nsyscalls = ["netlink"]\n')

    (tmp_path / "policy.toml").write_text(toml(toml_of(done.stdout)))
    again = explain("--policy", str(tmp_path / "policy.toml"), "--", "python3", "-c", NETLINK)
    assert (again.returncode, again.stdout) == (0, "nothing was refused\n")


@pytest.mark.kernel
def test_paths_and_calls_that_no_field_permits(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("x")
    done = explain("--", "sh", "-c", f"cat /etc/shadow {tmp_path}/data; unshare -U true; echo out")
    assert f"{tmp_path}/data exists on the host, not in the view" in done.stdout.splitlines()[1]  # what can be permitted first
    assert "CLONE_NEWUSER" in done.stdout and "(/etc is the box's own); nothing sensible allows it\n" in done.stdout
    assert toml_of(done.stdout) == {"readable": [f"{tmp_path}/data"]}
    assert "out\n" in done.stderr and "out\n" not in done.stdout
    only = explain("--", "sh", "-c", "unshare -U true")
    assert only.stdout.endswith("# No field of a policy permits any of it.\n")


@pytest.mark.kernel
def test_one_object_has_the_result_and_the_change(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("x")
    done = explain("--json", "--", "sh", "-c", f"cat {data}; exit 3")
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr, told["version"]) == (3, "", 1)
    assert told["change"] == {"readable": [str(data)]} and tomllib.loads(told["toml"]) == told["change"]
    assert [one["name"] for one in told["result"]["denials"]] == [str(data)]
    assert told["result"]["exit_code"] == 3


@pytest.mark.kernel
@pytest.mark.needs("x86_64")
def test_a_program_that_the_filter_ends_is_explained_too() -> None:
    code = "import ctypes; ctypes.CDLL(None).syscall(0x40000027)"  # x32's getpid
    done = explain("--", "python3", "-c", code)
    assert done.returncode == 121 and "another architecture's entry" in done.stdout


@pytest.mark.parametrize("words", [(), ("--",), ("--json",)])
def test_without_a_program_the_usage_is_told(words: tuple[str, ...]) -> None:
    done = explain(*words)
    assert done.returncode == 125
    assert "explain [OPTION …] -- ARGV …" in (json.loads(done.stdout)["error"]["usage"] if "--json" in words else done.stderr)


# ---- the smallest change ----


@pytest.mark.kernel
def test_what_a_guest_names_commands_no_terminal(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    name = "\x1b]0;owned\x07\nforged  line\x7f\x9b2J\u202e"
    (tmp_path / name).write_text("")
    done = explain("--", "python3", "-c", f"open({str(tmp_path / name)!r})")
    assert "owned" in done.stdout and "readable = [" in done.stdout
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert not any(line.startswith("forged") for line in done.stdout.splitlines())
    assert toml_of(done.stdout) == {"readable": [str(tmp_path / name)]}


def permitted(*allow: str | None) -> list[Denial]:
    return [Denial(kind="path", name="/x", allow=one) for one in allow]


@pytest.mark.parametrize(
    "allow,change",
    [
        ([None], {}),
        (['syscalls=["netlink"]', 'syscalls=["ptrace"]', 'syscalls=["netlink"]'], {"syscalls": ["netlink", "ptrace"]}),
        (['readable=["/srv/a/b"]', 'readable=["/srv/a"]', 'readable=["/srv/ab"]'], {"readable": ["/srv/a", "/srv/ab"]}),
        (['writable=[["/srv/ro", "/in"]]'], {"writable": [["/srv/ro", "/in"]]}),
        (['readable=["/proc/1/x"]', 'readable=["/srv"]'], {"readable": ["/srv"]}),  # the first no policy accepts
        (['deletion="allow"', 'host_sockets="show"'], {"deletion": "allow", "host_sockets": "show"}),
        (['readable=["/old/x"]'], {"readable": ["/old/x"]}),
    ],
)
def test_the_change_has_what_the_policy_accepts_and_no_more(allow: list[str | None], change: dict[str, Any]) -> None:
    policy = Policy.strict(readable=["/old"], deletion=Deletion.DENY)
    assert smallest_change(policy, permitted(*allow)) == change
    assert tomllib.loads(toml(change)) == change


@pytest.mark.kernel
def test_what_is_shown_read_only_becomes_writable_by_the_change(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    script = "echo x >/in/file"
    done = explain("--readable", f"{tmp_path}:/in", "--", "sh", "-c", script)
    assert done.returncode != 0 and toml_of(done.stdout) == {"writable": [[str(tmp_path), "/in"]]}
    again = explain("--readable", f"{tmp_path}:/in", "--writable", f"{tmp_path}:/in", "--", "sh", "-c", script)
    assert (again.returncode, again.stdout, (tmp_path / "file").read_text()) == (0, "nothing was refused\n", "x\n")
