"""What a command says when its own output cannot be written: which it is, once, and an exit status of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = {
    "doctor": ["doctor"],
    "doctor, JSON": ["doctor", "--json"],
    "policy": ["policy", "show", "strict"],
    "languages": ["judge", "languages", "--json"],
    "judge": ["judge", "cases", "--cpu", "2s", "--submission", "a.sh"],
    "judge, JSON": ["judge", "cases", "--cpu", "2s", "--submission", "a.sh", "--json"],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "1.in").write_text("")
    (tmp_path / "cases" / "1.ans").write_text("3")
    (tmp_path / "a.sh").write_text("echo 3")
    return tmp_path


def said(shell: str, command: list[str], place: Path) -> tuple[int, str]:
    words = [sys.executable, "-m", "sandbox_native", *command]
    done = subprocess.run(["/bin/sh", "-c", f'exec "$@" {shell}', "-", *words], stderr=subprocess.PIPE, text=True, cwd=place)
    return done.returncode, done.stderr


@pytest.mark.kernel
@pytest.mark.needs("userns")
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(("shell", "reason"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")])
def test_output_that_cannot_be_written_is_named(command: str, shell: str, reason: str, place: Path) -> None:
    status, errors = said(shell, COMMANDS[command], place)
    assert status == 125 and "Traceback" not in errors and "Exception" not in errors
    assert (
        errors.splitlines()[-1]
        == f"sandbox-native: stdout: {reason}; give it a file or a pipe that takes what is written, or /dev/null"
    )


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_report_that_cannot_be_written_is_named_after_the_table(place: Path) -> None:
    pytest.importorskip("jinja2", reason="needs jinja2: not installed")
    status, errors = said(">told", [*COMMANDS["judge"], "--html", "/dev/full"], place)
    assert status == 125 and "--html='/dev/full': No space left on device; name a file" in errors
    assert "a.sh" in (place / "told").read_text()
