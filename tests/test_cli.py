"""The command line: what it prints where, and its exit status for everything that can end a run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import boxes
import pytest

from sandbox_native import Denial, ExecError, SandboxError, SetupError
from sandbox_native.cli import main
from sandbox_native.clirun import exit_status_of_error, refused

pytestmark = pytest.mark.needs("userns")

Done = subprocess.CompletedProcess[bytes]
COMMAND = (sys.executable, "-m", "sandbox_native")


def command(*options: str, stdin: bytes | None = None, **more: Any) -> Done:
    if stdin is None:
        more.setdefault("stdin", subprocess.DEVNULL)
    else:
        more["input"] = stdin
    return subprocess.run([*COMMAND, *options], capture_output=True, check=False, timeout=120, **more)


def run(*options: str, **more: Any) -> Done:
    return command("run", *options, **more)


def start(*options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, "run", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def shell(script: str, *options: str, **more: Any) -> Done:
    return run(*options, "--", "/bin/sh", "-c", script, **more)


def verbs(guest: Any, *words: str, options: Sequence[str] = ()) -> Done:
    return run(*options, "--readable", f"{guest.verbs.parent}:/mnt/guests", "--", "/mnt/guests/verbs", *words)


# ---- output


@pytest.mark.kernel
def test_output_and_exit_status_are_the_guests() -> None:
    done = shell("echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == (b"out\n", b"err\n", 7)


def test_output_comes_while_the_guest_runs() -> None:
    script = "echo first; read line; echo second"
    process = subprocess.Popen(
        [*COMMAND, "run", "--stdin", "-", "--", "/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None and process.stdout is not None
    with process, process.stdin, process.stdout:
        assert process.stdout.readline() == b"first\n"
        process.stdin.write(b"go\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"second\n"
    assert process.returncode == 0


def test_bytes_pass_as_they_are() -> None:
    done = shell(r"printf '\377\000\n\r'")
    assert done.stdout == b"\xff\x00\n\r"


def test_output_without_a_bound_passes_whole() -> None:
    done = run("--", "/usr/bin/head", "-c", "20000000", "/dev/zero")
    assert (len(done.stdout), done.stderr, done.returncode) == (20_000_000, b"", 0)


def test_output_past_its_bound_is_dropped_and_told() -> None:
    done = run("--output", "1M", "--", "/usr/bin/head", "-c", "20000000", "/dev/zero")
    assert (len(done.stdout), done.returncode) == (1 << 20, 0)
    assert b"--output" in done.stderr and done.stderr.count(b"\n") == 1


def test_stdin_is_empty_unless_asked() -> None:
    done = run("--", "/bin/cat", stdin=b"ours")
    assert (done.stdout, done.returncode) == (b"", 0)
    assert run("--stdin", "-", "--", "/bin/cat", stdin=b"ours").stdout == b"ours"


def test_stdin_can_be_a_file(tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.write_bytes(b"from a file")
    assert run("--stdin", str(source), "--", "/bin/cat").stdout == b"from a file"


def test_a_reader_that_goes_away_ends_the_box() -> None:
    process = start("--wall", "300", "--", "/usr/bin/yes")
    assert process.stdout is not None
    with process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(boxes.PATIENCE) == 141
        assert process.stderr is not None and process.stderr.read() == b""


# ---- exit status


@pytest.mark.parametrize("code", [0, 1, 99, 255])
def test_exit_codes_pass(code: int) -> None:
    assert shell(f"exit {code}").returncode == code


@pytest.mark.parametrize("name", ["TERM", "KILL", "ABRT", "SEGV"])
def test_signals_are_128_and_their_number(name: str) -> None:
    assert shell(f"kill -{name} $$").returncode == 128 + signal.Signals[f"SIG{name}"].value


LIMITS = [
    pytest.param(["--wall", "200ms"], "sleep 60", 124, b"--wall", id="wall"),
    pytest.param(["--cpu", "100ms"], "while :; do :; done", 124, b"--cpu", id="cpu"),
    pytest.param(["--memory", "32M"], "tail /dev/zero", 122, b"--memory", id="memory"),
    pytest.param(["--output", "64K", "--output-kill"], "yes", 123, b"--output", id="output"),
]


@pytest.mark.parametrize(("options", "script", "status", "words"), LIMITS)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["plain", "json"])
def test_a_limit_has_its_status_and_one_line_that_says_what_to_raise(
    options: list[str], script: str, status: int, words: bytes, form: list[str]
) -> None:
    done = shell(f"exec {script}" if not script.startswith("while") else script, *options, *form)
    assert done.returncode == status
    assert words in done.stderr and done.stderr.count(b"\n") == 1
    assert not form or json.loads(done.stdout)["status"].endswith("_limit")


@pytest.mark.needs("x86_64")
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["plain", "json"])
def test_a_forbidden_call_is_121_and_named(guest: Any, form: list[str]) -> None:
    options = ["--readable", f"{guest.attempts.parent}:/mnt/guests", *form]
    done = run(*options, "--", "/mnt/guests/attempts", "int80", "20")
    assert done.returncode == 121
    assert b"getpid" in done.stderr and b"--policy light" in done.stderr


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["plain", "json"])
@pytest.mark.parametrize(
    ("program", "status"),
    [("/no/such/program", 127), ("no-such-program", 127), ("/etc/passwd", 126), ("/etc/passwd/x", 127), ("/usr", 126)],
)
def test_what_cannot_be_started_is_126_or_127_as_in_shells(program: str, status: int, form: list[str]) -> None:
    done = run(*form, "--", program)
    assert done.returncode == status
    told = json.loads(done.stdout)["error"] if form else {"kind": "ExecError", "message": done.stderr.decode()}
    assert told["kind"] == "ExecError" and program.encode() in done.stdout + done.stderr


def test_a_missing_interpreter_is_127_as_in_dash_and_told_from_a_missing_script(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    done = run("--file", f"script={script}", "--", "./script")
    assert done.returncode == 127 and b"its interpreter '/no/such/interpreter' is not in the box" in done.stderr


def test_errors_that_are_not_about_the_program_are_125() -> None:
    assert exit_status_of_error(SandboxError("x")) == 125
    assert exit_status_of_error(SetupError("mount", 1)) == 125
    assert exit_status_of_error(ExecError("exec", 7)) == 126


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_us_ends_the_box(name: signal.Signals) -> None:
    process = start("--wall", "300", "--", "/bin/sh", "-c", "echo up; exec sleep 300")
    with process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        process.send_signal(name)
        assert process.wait(boxes.PATIENCE) == (130 if name == signal.SIGINT else -name)
        assert process.stderr is not None and process.stderr.read() == b""


# ---- --json, --receipt


@pytest.mark.kernel
def test_json_is_one_object_and_the_result() -> None:
    done = shell("echo hi; echo oops >&2; exit 3", "--json")
    told = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (3, b"")
    assert (told["version"], told["status"], told["exit_code"]) == (1, "nonzero_exit", 3)
    assert (told["stdout"], told["stderr"]) == ({"text": "hi\n"}, {"text": "oops\n"})
    assert told["enforcement"]["rung"] in ("full", "namespaces")


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (["run", "--json", "--"], "UsageError"),
        (["run", "--json", "--bogus", "--", "true"], "UsageError"),
        (["run", "--json", "--wall", "soon", "--", "true"], "UsageError"),
        (["run", "--json", "--wall", "0", "--", "true"], "PolicyError"),
        (["run", "--json", "--memory", "1", "--", "true"], "PolicyError"),
        (["run", "--json", "--cpus", "nan", "--", "true"], "PolicyError"),
        (["run", "--json", "--readable", "relative", "--", "true"], "PolicyError"),
        (["run", "--json", "--env", "NOEQUALS", "--", "true"], "UsageError"),
        (["run", "--json", "--file", "../x=/etc/passwd", "--", "true"], "PolicyError"),
        (["run", "--json", "--file", "x=/no/such/file", "--", "true"], "PolicyError"),
        (["run", "--json", "--stdin", "/no/such/file", "--", "true"], ""),
        (["run", "--json", "--workspace", "/no/such/dir", "--", "true"], ""),
        (["doctor", "--json", "more"], "UsageError"),
        (["nonsense", "--json"], "UsageError"),
    ],
)
def test_what_is_refused_is_125_and_with_json_an_object(options: list[str], kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(options) == 125
    told = json.loads(capfd.readouterr().out)
    assert told["version"] == 1 and told["error"]["message"]
    assert told["error"]["kind"] == kind or not kind
    without = [word for word in options if word != "--json"]
    assert main(without) == 125
    shown = capfd.readouterr()
    assert shown.out == "" and shown.err.startswith("sandbox-native: ")


@pytest.mark.kernel
def test_the_receipt_goes_to_stderr_behind_the_output() -> None:
    done = shell("echo hi", "--receipt")
    lines = done.stderr.decode().splitlines()
    assert (done.stdout, done.returncode) == (b"hi\n", 0)
    assert lines[0] == "verdict  ok, exit code 0"
    assert lines[1].startswith("cost ") and any(line.startswith("receipt  rung ") for line in lines)
    assert any("seccomp" in line and " held " in line for line in lines)


@pytest.mark.kernel
@pytest.mark.needs("workspace")
def test_what_was_moved_away_is_told_on_stderr(tmp_path: Path) -> None:
    script = "echo hi; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit"
    done = shell(script, "--workspace", str(tmp_path))
    lines = done.stderr.decode().splitlines()
    assert (done.stdout, done.returncode) == (b"hi\n", 0)
    assert lines[0].startswith("sandbox-native: refused, or not kept where it was made: ") and "permitted by" in lines[1]
    assert any("/workspace/.git" in line for line in lines[2:])
    assert shell("echo x > .npmrc", "--json", "--workspace", str(tmp_path)).stderr == b""


def test_what_was_refused_is_told_within_bounds() -> None:
    assert list(refused([])) == []
    denials = [Denial(kind="commit", name=f"/workspace/{number}\x1b[2J\n{'x' * 5000}", reason="r") for number in range(1000)]
    lines = list(refused(denials))
    assert len(lines) == 23 and lines[0].endswith(": 1000") and "980 more" in lines[-1]
    assert all(line.isprintable() and len(line) < 500 for line in lines)


# ---- options reach the box


def test_environment_and_files_and_workspace(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"shown\n")
    done = shell("echo $WORD; cat there", "--env", "WORD=a=b", "--file", f"there={tmp_path / 'data'}")
    assert done.stdout == b"a=b\nshown\n"
    place = tmp_path / "work"
    place.mkdir()
    assert shell("echo made > new", "--workspace", str(place)).returncode == 0
    assert (place / "new").read_text() == "made\n"
    assert (place / "new").stat().st_uid == os.geteuid()


def test_host_paths_are_shown_where_they_are_asked_for(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "seen").write_text("seen\n")
    place = f"{tmp_path}:/mnt/shown"
    assert shell("cat /mnt/shown/seen; echo no > /mnt/shown/new", "--readable", place).stdout == b"seen\n"
    assert not (tmp_path / "new").exists()
    assert shell("echo yes > /mnt/shown/new", "--writable", place).returncode == 0
    assert (tmp_path / "new").read_text() == "yes\n"


def test_a_bound_on_processes_holds(guest: Any) -> None:
    assert b"errno=11" in verbs(guest, "fork", "40", options=["--processes", "8"]).stdout
    assert b"made=40 errno=0" in verbs(guest, "fork", "40").stdout


def test_light_has_no_filter(guest: Any) -> None:
    options = ["--readable", f"{guest.inside.parent}:/mnt/guests"]
    light = run("--policy", "light", *options, "--", "/mnt/guests/inside").stdout
    strict = run(*options, "--", "/mnt/guests/inside").stdout
    assert b"Seccomp=0" in light and b"Seccomp=2" in strict
    assert b"no_new_privs=1" in light


def test_the_program_may_have_options_and_dashes_of_its_own() -> None:
    assert run("--", "/bin/echo", "--json", "--", "-n").stdout == b"--json -- -n\n"
    assert run("/bin/echo", "--json", "--", "-n").stdout == b"--json -- -n\n"


def test_the_version_and_the_options_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    for options, words in ((["--version"], "sandbox-native 0"), (["run", "--help"], "--output-kill"), (["--help"], "doctor")):
        with pytest.raises(SystemExit) as caught:
            main(options)
        assert caught.value.code == 0
        assert words in capfd.readouterr().out


def test_the_installed_command_is_the_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call: Callable[[], int] = main
    monkeypatch.setattr(sys, "argv", ["sandbox-native", "run", "--", "/bin/sh", "-c", "exit 5"])
    assert call() == 5
