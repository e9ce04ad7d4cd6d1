"""`policy show` and `--policy FILE` on the command line."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sandbox_native import Limits, Policy, syscalls
from sandbox_native.cli import main

pytestmark = pytest.mark.needs("userns")


@pytest.fixture
def told(capfd: pytest.CaptureFixture[str]) -> Any:
    """Exit status, standard output and standard error of a command line."""

    def run(*arguments: str) -> tuple[int, str, str]:
        status = main(arguments)
        out, err = capfd.readouterr()
        return status, out, err

    return run


def parts(text: str) -> dict[str, list[str]]:
    """The lines of each part, without its headers."""
    found = {}
    for part in text.split("\n\n"):
        if part.startswith("never written"):
            continue
        title, _, *lines = part.strip("\n").split("\n")
        found[title.removeprefix("# ")] = lines
    return found


def test_a_preset_is_shown_in_five_parts(told: Any) -> None:
    status, out, err = told("policy", "show", "strict")
    assert (status, err) == (0, "")
    found = parts(out)
    assert list(found) == ["policy", "view", "environment", "system calls", "limits"]
    assert [line.split() for line in found["view"] if line.split()[0] in ("/", "usr", "workspace", "cmdline")] == [
        ["/", "ro", "made", "for", "the", "box"],
        ["cmdline", "hidden"],
        ["usr", "ro", "the", "host's"],
        ["workspace", "rw", "the", "run's", "own,", "empty", "at", "its", "start"],
    ]
    assert "HOME      /home/guest" in found["environment"]
    assert [line.split("  ")[0] for line in found["limits"]] == [field.name for field in fields(Limits)]
    assert "memory_bytes         512 MiB" in found["limits"] and "cpus                 no limit" in found["limits"]


def test_every_group_of_calls_is_shown_with_what_it_holds(told: Any) -> None:
    groups = {line.split("  ")[0]: line for line in parts(told("policy", "show", "strict")[1])["system calls"]}
    for name, calls in syscalls.GROUPS.items():
        assert "permitted" in groups[name] and set(calls) <= set(groups[name].split())
    assert {"socket", "clone", "prctl"} <= set(groups["by their arguments"].split())
    assert not any("mount" in line.split() for line in groups.values())
    for name, group in syscalls.OPTIONAL.items():
        assert "refused, optional" in groups[name] and {*group.calls, *group.checked} <= set(groups[name].split())
    light = parts(told("policy", "show", "light")[1])["system calls"]
    assert light == ["all    permitted  the preset has no filter"]


def test_a_group_that_the_policy_permits_is_said_to_be(told: Any, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text('syscalls = ["ptrace"]\ndeny_write = ["Makefile"]\nwrites = "commit"\n')
    _, out, _ = told("policy", "show", str(tmp_path / "p.toml"))
    (line,) = [line for line in out.splitlines() if line.startswith("ptrace ")]
    assert "permitted by Policy.syscalls" in line and syscalls.OPTIONAL["ptrace"].opens in line
    assert ".git/hooks" in out and "Makefile" in out and "the commit refuses them" in out
    shown = json.loads(told("policy", "show", str(tmp_path / "p.toml"), "--json")[1])
    assert {".bashrc", "Makefile"} <= set(shown["never_written"])
    assert {one["group"]: one["state"] for one in shown["syscalls"]}["ptrace"] == "permitted by Policy.syscalls"


def test_what_lies_beneath_is_indented_and_named_from_there(told: Any) -> None:
    lines = parts(told("policy", "show", "strict")[1])["view"]
    at = next(number for number, line in enumerate(lines) if line.startswith("  etc "))
    assert lines[at + 1].startswith("    alternatives ") or lines[at + 1].startswith("    group ")
    ssl = next(number for number, line in enumerate(lines) if line.startswith("    ssl "))
    assert lines[ssl + 1].startswith("      certs ")


def test_json_has_the_same(told: Any) -> None:
    status, out, _ = told("policy", "show", "strict", "--json")
    shown = json.loads(out)
    assert (status, shown["version"]) == (0, 1)
    assert list(shown) == ["version", "policy", "never_written", "view", "environment", "syscalls", "limits"]
    assert shown["policy"]["minimum_rung"] == "namespaces"
    assert {"path": "/usr", "access": "ro", "detail": "the host's"} in shown["view"]
    assert shown["limits"]["memory_bytes"] == 512 << 20 and shown["limits"]["cpus"] is None
    assert {group["group"]: group["state"] for group in shown["syscalls"]}["files"] == "permitted"


def test_a_file_is_shown_with_its_limits(told: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    policy = Policy.strict(readable=[(str(tmp_path / "data"), "/in")], inherit=["TZ"], path=["/in/bin"], deterministic=False)
    file = tmp_path / "p.toml"
    file.write_text(policy.to_toml(Limits(processes=7)))
    status, out, _ = told("policy", "show", str(file))
    found = parts(out)
    assert status == 0
    assert [line.split()[:2] for line in found["view"] if line.startswith("  in ")] == [["in", "ro"]]
    assert "processes            7" in found["limits"]
    variables = dict(line.split(None, 1) for line in found["environment"])
    assert variables["PATH"].startswith("/in/bin:") and variables["TZ"] == "<the host's>"


def test_values_that_are_taken_from_the_host_are_not_shown(told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "hunter2")
    (tmp_path / "p.toml").write_text('inherit = ["MY_TOKEN"]\n')
    for options in ((), ("--json",)):
        _, out, _ = told("policy", "show", str(tmp_path / "p.toml"), *options)
        assert "MY_TOKEN" in out and "hunter2" not in out


def test_a_terminal_s_own_commands_are_not_passed_on(told: Any, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2Jb\n\u202e").mkdir()
    policy = Policy.strict(readable=[(str(tmp_path / "a\x1b[2Jb\n\u202e"), "/x\x07y")])
    (tmp_path / "p.toml").write_text(policy.to_toml())
    _, out, _ = told("policy", "show", str(tmp_path / "p.toml"))
    assert "x\\x07y" in out and "a\\x1b[2Jb\\n\\u202e" in out
    assert all(character.isprintable() or character == "\n" for character in out)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("readble = []\n", "p.toml: readble=[]: no such key; did you mean 'readable'?"),
        ("[limits]\nwall_seconds = '2s'\n", "p.toml: limits.wall_seconds='2s': a string, not a number; "),
        ("readable = ['/nowhere-at-all']\n", "Policy.readable[0]='/nowhere-at-all': No such file or directory on the host; "),
        ("x", "not TOML: "),
    ],
)
@pytest.mark.parametrize("command", ["show", "run"])
def test_what_is_wrong_in_a_file_is_told(told: Any, tmp_path: Path, text: str, said: str, command: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text)
    arguments = ("policy", "show", str(file)) if command == "show" else ("run", "--policy", str(file), "--", "/bin/true")
    status, out, err = told(*arguments)
    assert (status, out) == (125, "")
    assert said in err


@pytest.mark.parametrize("arguments", [("policy", "show", "strickt"), ("run", "--policy", "strickt", "--", "/bin/true")])
def test_a_name_that_is_nothing_is_told_with_the_nearest(told: Any, arguments: tuple[str, ...]) -> None:
    assert told(*arguments) == (
        125,
        "",
        "sandbox-native: policy='strickt': neither a preset nor a file; did you mean 'strict'?\n",
    )


@pytest.mark.kernel
def test_run_takes_a_file_and_options_add_to_it(told: Any, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(f"{name}\n")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    file = tmp_path / "p.toml"
    text = f'readable = [["{tmp_path}/one", "/one"]]\nhostname = "told"\n[limits]\nwall_seconds = 20\nprocesses = 9\n'
    file.write_text(text)
    script = "cat /one/file /two/file; hostname 2>/dev/null || cat /proc/sys/kernel/hostname"
    told_of = told("run", "--policy", str(file), "--readable", f"{tmp_path}/two:/two", "--", "/bin/sh", "-c", script)
    assert told_of == (0, "one\ntwo\ntold\n", "")
    _, out, _ = told("run", "--policy", str(file), "--wall", "0.2", "--json", "--", "/bin/sleep", "30")
    assert json.loads(out)["status"] == "wall_limit"


@pytest.mark.kernel
def test_limits_of_the_file_hold(told: Any, tmp_path: Path) -> None:
    (tmp_path / "p.toml").write_text("[limits]\nwall_seconds = 0.2\n")
    assert told("run", "--policy", str(tmp_path / "p.toml"), "--", "/bin/sleep", "30")[0] == 124
