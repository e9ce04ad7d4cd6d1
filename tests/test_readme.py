"""What README.md shows works: every Python example is run in an interpreter of its own, every line of "Command line" in a shell.

An example is run as it stands, after `import sandbox_native as sn`, where README's `policy.toml` and `jobs.jsonl` are files.
Where it names `project`, that is the directory which README describes; `cases` and `handed-in` are made by the judge's chapter.
A line `EXPRESSION  # -> VALUE` is a promise: the two must be equal.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import sandbox_native

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PREAMBLE = """
import sandbox_native as sn
project = {project!r}
kept = []
def promised(told, value):
    assert told == value, f"README says {{value!r}}, and it is {{told!r}}"
    kept.append(told)
"""
PATHS = os.pathsep.join(filter(None, (str(Path(sandbox_native.__file__).parent.parent), os.environ.get("PYTHONPATH"))))
# What an example needs beyond a box, by a word in it.
NEEDS = {"git": '"git"', "changes": "Writes.COMMIT", "workspace": "workspace=project"}
# What a command line prints, by a word in it.
PRINTED = {
    "answer.py": "42\n",
    "--json": '"stdout": {"text": "hi\\n"}',
    "--receipt": "receipt  rung ",
    "policy.toml": "answer.py\n",
    "batch": "2 run (2 ok)",
    "judge cases": "2 judged (1 AC, 1 WA)",
    "judge languages": "bash",
    "explain": 'syscalls = ["sync"]\n',
    "policy show": "\n# system calls\n",
    "doctor": "the default policy can run here",
}
Needs = Callable[[str], None]
PROMISE = re.compile(r"^( *)(\S.*?) +# -> (.+)$")

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    section = README.partition("\n## Command line\n")[2].partition("\n## ")[0]
    return [line.strip() for line in section.splitlines() if line.startswith("    ")]


def with_promises(block: str) -> str:
    return "\n".join(PROMISE.sub(r"\1promised((\2), (\3))", line) for line in block.splitlines())


def promises(block: str) -> int:
    return sum(bool(PROMISE.match(line)) for line in block.splitlines())


def ended(command: list[str], cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": PATHS, "XDG_CACHE_HOME": str(cwd / "cache"), **more}
    return subprocess.run(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
    )


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Where examples are run."""
    tmp_path.chmod(0o755)
    (tmp_path / "policy.toml").write_text(blocks("toml")[0], encoding="utf-8")
    (tmp_path / "jobs.jsonl").write_text(blocks("jsonl")[0], encoding="utf-8")
    (tmp_path / "answer.py").write_text("print(42)\n", encoding="utf-8")
    (makes,) = blocks("sh")  # the judge's chapter: files, and a command that uses them
    subprocess.run(["bash", "-ec", makes.rpartition("sandbox-native")[0]], cwd=tmp_path, check=True)
    return tmp_path


@pytest.fixture
def project(here: Path) -> Path:
    made = here / "project"
    for name in (".git/hooks", ".git/objects", ".git/refs", "gen", "secrets"):
        (made / name).mkdir(parents=True)
    (made / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    for name in ("notes.txt", "old.txt", "gen/lock"):
        (made / name).write_text(f"{name}\n", encoding="utf-8")
    return made


def test_there_are_examples_and_promises() -> None:
    """That nothing is found would pass as well."""
    python = blocks("python")
    assert len(python) >= 6 and len(commands()) >= 6 and len(blocks("toml")) == 1
    assert README.count("# -> ") == sum(map(promises, python)) >= 15


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: re.sub(r"\W+", "-", block)[:40].strip("-"))
def test_an_example_runs_as_it_stands(block: str, here: Path, project: Path, needs: Needs) -> None:
    for name, word in NEEDS.items():
        if word in block:
            needs(name)
    end = f"assert len(kept) >= {promises(block)}, 'not all of it was reached'"
    code = "\n".join((PREAMBLE.format(project=str(project)), with_promises(block), end))
    done = ended([sys.executable, "-W", "error", "-c", code], here)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def path(here: Path) -> str:
    """A PATH with the command, as an installation has it."""
    programs = here / "bin"
    programs.mkdir()
    for name, words in (("sandbox-native", "-m sandbox_native"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n', encoding="utf-8")
        (programs / name).chmod(0o755)
    return f"{programs}:{os.environ['PATH']}"


@pytest.mark.parametrize("line", commands(), ids=lambda line: re.sub(r"\W+", "-", line)[:40].strip("-"))
def test_a_command_line_works(line: str, here: Path, path: str, needs: Needs) -> None:
    if "policy.toml" in line:  # it asks for Writes.COMMIT
        needs("changes")
    (printed,) = (words for word, words in PRINTED.items() if word in line)
    done = ended(["/bin/sh", "-c", line], here, PATH=path)
    assert done.returncode == 0, done.stderr
    assert printed in done.stdout + done.stderr
