"""The judge command: verifies packages, judges what it is given, goes on from a journal, keeps what is done at Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boxes import painted_on

from sandbox_native.cli import main

DIFFERENT = Path(__file__).parent / "data" / "problems" / "different"
UNHEARD = '[unheard]\ntitle = "Unheard"\nextensions = [".unheard"]\nrun = ["unheard-of"]\nkeep_sources = true\n'
RIGHT, WRONG, SLOW = "read a b; echo $((a + b))\n", "echo 3\n", "sleep 1000\n"

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
Told = list[dict[str, Any]]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of cases, and one of submissions."""
    for number, (given, answer) in enumerate((("1 2", "3"), ("5 6", "11")), 1):
        (tmp_path / "cases").mkdir(exist_ok=True)
        (tmp_path / "cases" / f"{number}.in").write_text(given)
        (tmp_path / "cases" / f"{number}.ans").write_text(answer)
    for name, text in (("alice/main.sh", RIGHT), ("bob/main.sh", WRONG)):
        (tmp_path / "handed" / name).parent.mkdir(parents=True)
        (tmp_path / "handed" / name).write_text(text)
    return tmp_path


def command(folder: Path, *options: str) -> list[str]:
    submissions = sorted(str(path) for path in (folder / "handed").iterdir())
    return ["judge", str(folder / "cases"), "--cpu", "2s", *options, "--submission", *submissions]


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, Any]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {Path(line["submission"]).name: line for line in lines}


def test_a_package_is_verified(capsys: pytest.CaptureFixture[str], needs: Callable[[str], None]) -> None:
    needs("gcc")
    needs("g++")
    assert main(["judge", str(DIFFERENT), "--all"]) == 0
    printed = capsys.readouterr()
    assert "accepted/different.c " in printed.out and "sleeping.py" in printed.out
    assert "12 judged (4 AC, " in printed.err and "all as expected" in printed.err


def test_a_submission_that_gets_something_else_than_expected_fails_the_verification(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = folder / "package"
    (package / "submissions" / "accepted").mkdir(parents=True)
    (package / "data").mkdir()
    (folder / "cases").rename(package / "data" / "secret")
    (package / "problem.yaml").write_text("name: Sum\n")
    (package / ".timelimit").write_text("5\n")
    (package / "submissions" / "accepted" / "wrong.sh").write_text(WRONG)
    assert main(["judge", str(package), "--all"]) == 1
    printed = capsys.readouterr()
    assert "1 not as expected" in printed.err and "the verdict should be AC, and is WA" in printed.out


def test_a_package_without_a_time_limit_gets_that_of_its_accepted_submissions(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = folder / "package"
    (package / "submissions" / "accepted").mkdir(parents=True)
    (package / "data").mkdir()
    (folder / "cases").rename(package / "data" / "secret")
    (package / "problem.yaml").write_text("name: Sum\n")
    (package / "submissions" / "accepted" / "right.sh").write_text(RIGHT)
    assert main(["judge", str(package), "--all"]) == 0
    assert "the time limit is 1 s, by the accepted submissions" in capsys.readouterr().err
    assert main(["judge", str(package), "--submission", str(folder / "handed" / "alice")]) == 0
    printed = capsys.readouterr()
    assert "the time limit is 1 s" in printed.err and "alice" in printed.out and "right.sh" not in printed.out


def test_an_input_that_the_package_s_validator_refuses_fails_the_verification(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = folder / "package"
    (package / "submissions" / "accepted").mkdir(parents=True)
    (package / "data").mkdir()
    (package / "input_validators").mkdir()
    (folder / "cases").rename(package / "data" / "secret")
    (package / "problem.yaml").write_text("name: Sum\n")
    (package / ".timelimit").write_text("5\n")
    (package / "submissions" / "accepted" / "right.sh").write_text(RIGHT)
    (package / "input_validators" / "small.sh").write_text("read a b; [ $a -lt 5 ] && exit 42; echo too large; exit 43")
    assert main(["judge", str(package), "--all"]) == 1
    printed = capsys.readouterr()
    assert "secret/2.in: the input validator small.sh exited with 43: too large\n" in printed.err
    assert "secret/1.in" not in printed.err and "all as expected" in printed.err


def test_submissions_are_judged_and_each_goes_by_its_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder)) == 0
    rows = {line.split()[0]: line.split()[1:3] for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows == {f"{folder}/handed/alice": ["AC", "2/2"], f"{folder}/handed/bob": ["WA", "1/2"]}


def test_json_is_a_judgement_a_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder, "--json", "--quiet", "--all-cases")) == 0
    lines = told(capsys)
    assert {name: line["verdict"] for name, line in lines.items()} == {"alice": "AC", "bob": "WA"}
    assert [case["verdict"] for case in lines["bob"]["cases"]] == ["AC", "WA"]


def test_what_is_in_the_journal_is_not_judged_again_but_for_what_changed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = ("--json", "--resume", str(folder / "journal"))
    assert main(command(folder, *journal)) == 0
    first = told(capsys)
    (folder / "handed" / "bob" / "main.sh").write_text(RIGHT)
    assert main(command(folder, *journal)) == 0
    printed = capsys.readouterr()
    second = {Path(line["submission"]).name: line for line in map(json.loads, printed.out.splitlines())}
    assert second["alice"] == first["alice"] and second["bob"]["verdict"] == "AC"
    assert "2 judged (2 AC), 1 of them before" in printed.err
    (folder / "cases" / "2.ans").write_text("other")
    assert main(command(folder, *journal)) == 0
    assert {line["verdict"] for line in told(capsys).values()} == {"WA"}


def test_ctrl_c_keeps_what_is_done(folder: Path) -> None:
    (folder / "handed" / "carol.sh").write_text(SLOW)
    options = ("--cpu", "600s", "--workers", "1", "--json", "--resume", str(folder / "journal"), "--html", str(folder / "page"))
    arguments = [sys.executable, "-m", "sandbox_native", *command(folder, *options)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(2)]
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()
    assert (process.returncode, rest) == (130, "")
    assert [line["verdict"] for line in lines] == ["AC", "WA"]
    assert "2 judged (1 AC, 1 WA), interrupted: start it again to go on" in errors and "Traceback" not in errors
    assert len((folder / "journal").read_text().splitlines()) == 2
    assert "<!DOCTYPE html>" in (folder / "page").read_text()


def test_languages_are_listed(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "more.toml").write_text(
        '[unheard]\ntitle = "Unheard"\nextensions = [".unheard"]\nrun = ["unheard-of"]\nkeep_sources = true\n'
    )
    assert main(["judge", "languages", "--languages", str(folder / "more.toml")]) == 0
    rows = {line.split()[0]: line.split()[1:] for line in capsys.readouterr().out.splitlines()}
    assert rows["bash"][:2] == ["yes", "yes"]
    assert rows["unheard"] == ["no", "no", ".unheard", "missing:", "unheard-of"]
    assert main(["judge", "languages", "--json"]) == 0
    (bash,) = (row for row in json.loads(capsys.readouterr().out) if row["name"] == "bash")
    assert bash["installed"] is True and "bash" in bash["version"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["{0}/cases"], "there is nothing to judge"),
        (["{0}/cases", "--all", "--cpu", "1"], "the package has no submissions"),
        (["{0}/nowhere", "--all"], "nowhere"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/nobody.c"], "no source there"),
        (["{0}/cases", "--submission", "{0}/handed/bob"], "states no time limit; give one: --cpu"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--html", "{0}/no/page"], "--html"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--resume", "{0}/cases/1.in"], "--resume"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--workers", "0"], "workers"),
    ],
)
def test_what_cannot_be_judged_is_said_before_anything_runs(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(["judge", *(argument.format(folder) for argument in arguments)]) == 125
    printed = capsys.readouterr()
    assert words in printed.err and printed.out == ""


def test_a_terminal_sees_counts_of_each_verdict(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "200"}
    arguments = [sys.executable, "-m", "sandbox_native", *command(folder, "--json")]
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=theirs, env=environment, check=True)
    os.close(theirs)
    painted = painted_on(ours)
    os.close(ours)
    assert len(done.stdout.splitlines()) == 2
    assert b"2 judged (1 AC, 1 WA)" in painted and b"\x1b[" in painted
