"""The judge command: verifies packages, judges what it is given, goes on from a journal, keeps what is done at Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import zipfile
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
    assert "; 1 fault of the package itself\n" in printed.err


def test_submissions_are_judged_and_each_goes_by_its_path(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder)) == 0
    rows = {line.split()[0]: line.split()[1:3] for line in capsys.readouterr().out.splitlines()[1:]}
    assert rows == {f"{folder}/handed/alice": ["AC", "2/2"], f"{folder}/handed/bob": ["WA", "1/2"]}


def test_one_who_hands_in_a_link_stops_nobody(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "handed" / "evil").mkdir()
    (folder / "handed" / "evil" / "main.sh").write_text('cat "$(dirname "$0")/x.txt"')
    (folder / "handed" / "evil" / "x.txt").symlink_to("../../cases/1.ans")
    (folder / "handed" / "link.sh").symlink_to("alice/main.sh")
    os.mkfifo(folder / "handed" / "pipe.sh")
    (folder / "handed" / "empty").mkdir()
    for _ in range(2):  # what is refused is not kept in the journal
        assert main(command(folder, "--json", "--resume", str(folder / "journal"))) == 0
        lines = told(capsys)
        assert {name: line["verdict"] for name, line in lines.items()} == {
            "alice": "AC",
            "bob": "WA",
            **dict.fromkeys(("evil", "link.sh", "pipe.sh", "empty"), "CE"),
        }
        assert "x.txt'" in lines["evil"]["message"] and "it is a symbolic link" in lines["evil"]["message"]
    assert len((folder / "journal").read_text().splitlines()) == 2


def test_limits_are_told_and_those_of_the_command_hold(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(command(folder)) == 0
    assert "2 judged (1 AC, 1 WA); limits 2 s of CPU time, 2 GiB of memory\n" in capsys.readouterr().err
    (folder / "handed" / "carol.py").write_text("x = bytearray(100 << 20)\nprint(sum(map(int, input().split())))\n")
    assert main(command(folder, "--memory", "64M", "--json")) == 0
    printed = capsys.readouterr()
    assert {line["verdict"] for line in map(json.loads, printed.out.splitlines())} == {"AC", "WA", "MLE"}
    assert "limits 2 s of CPU time, 64 MiB of memory" in printed.err


def test_a_source_whose_name_does_not_tell_has_the_language_that_is_given(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "handed" / "bob" / "main.sh").rename(folder / "handed" / "bob" / "main.txt")
    assert main(command(folder, "--json", "--language", "bash")) == 0
    assert {name: line["verdict"] for name, line in told(capsys).items()} == {"alice": "AC", "bob": "WA"}


@pytest.mark.parametrize(
    ("checker", "verdicts"),
    [(None, "WA WA"), ("float_tolerance 1e-2", "AC WA"), ("float_absolute_tolerance 2", "AC AC"), ("exact", "WA WA")],
)
def test_outputs_of_a_folder_s_cases_are_compared_as_it_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], checker: str | None, verdicts: str
) -> None:
    (folder / "handed" / "alice" / "main.sh").write_text("read a b; echo $((a + b)).001")
    (folder / "handed" / "bob" / "main.sh").write_text("read a b; echo $((a + b + 1)).000")
    assert main(command(folder, "--json", *([] if checker is None else ["--checker", checker]))) == 0
    assert [line["verdict"] for _, line in sorted(told(capsys).items())] == verdicts.split()


def test_a_folder_of_submissions_that_was_judged_as_one_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("alice", "bob"):
        (folder / "handed" / name / "main.sh").rename(folder / "handed" / f"{name}.sh")
        (folder / "handed" / name).rmdir()
    arguments = ["judge", str(folder / "cases"), "--cpu", "2s", "--submission"]
    assert main([*arguments, f"{folder}/handed/"]) == 0
    assert f"{folder}/handed/ was judged as one submission: did you mean {folder}/handed/*?" in capsys.readouterr().err
    assert main([*arguments, f"{folder}/handed/alice.sh"]) == 0
    assert "did you mean" not in capsys.readouterr().err


def test_a_package_may_be_an_archive(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "kept").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "kept"))
    with zipfile.ZipFile(folder / "sum.zip", "w") as archive:
        for path in (folder / "cases").iterdir():
            archive.write(path, f"sum/data/secret/{path.name}")
        archive.writestr("sum/problem.yaml", "name: Sum\n")
        archive.writestr("sum/.timelimit", "5\n")
        archive.writestr("sum/submissions/accepted/right.sh", RIGHT)
    assert main(["judge", str(folder / "sum.zip"), "--all"]) == 0
    assert "1 judged (1 AC), all as expected" in capsys.readouterr().err
    assert list((folder / "kept").iterdir()) == []
    assert main(["judge", str(folder / "sum.zip"), "--all", "--resume", str(folder / "journal")]) == 125
    assert "unpack it once and name its directory" in capsys.readouterr().err


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
        (["{0}/cases", "--cpu", "0", "--submission", "{0}/handed/bob"], "cpu_seconds=0.0: not a time; give more than 0"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--memory", "0"], "memory_bytes=0: must be positive"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--language", "cobol"], "no such language"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--checker", "sloppy"], "--checker='sloppy'"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--checker", ""], "--checker='': empty"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--checker", "exact 1"], "it has no flags"),
        (["{0}/cases", "--cpu", "1", "--submission", "{0}/handed/bob", "--checker", "float_tolerance -1"], "0 or more"),
        ([str(DIFFERENT), "--submission", "{0}/handed/bob", "--checker", "exact"], "the package itself says how"),
        (["{0}/cases/1.zip", "--submission", "{0}/handed/bob"], "1.zip"),
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


def test_what_was_ignored_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "cases" / ".3.in").write_text("1 2")
    alone = [*command(folder)[:4], "--submission", str(folder / "handed" / "alice")]
    assert main([*alone, "--json"]) == 0
    printed = capsys.readouterr()
    assert "sandbox-native: note: .3.in: its name begins with a dot" in printed.err
    assert [note.partition(":")[0] for note in json.loads(printed.out)["notes"]] == [".3.in"]
