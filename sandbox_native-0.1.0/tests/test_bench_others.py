"""Other tools in the bench: left out with the reason, or there with what they do not give."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from sandbox_native.bench.contenders import bare
from sandbox_native.bench.others import docker, installed
from sandbox_native.bench.tiny import write_tiny


def program(directory: Path, name: str, text: str) -> None:
    """A tool that is not installed here, as far as the bench sees it: it logs its words and starts what comes behind them."""
    path = directory / name
    path.write_text(f'#!/bin/bash\necho "$@" >>{directory}/{name}.log\n{text}\n')
    path.chmod(0o755)


def test_a_tool_that_is_not_there_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with installed(None) as (tools, notes):
        assert tools == []
    assert notes == [f"{name} left out: not installed" for name in ("bwrap", "nsjail", "isolate")]
    assert docker() == (None, "not installed")


def test_a_tool_that_refuses_is_left_out_in_its_own_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, "nsjail", "echo noise >&2; echo 'cannot clone' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with installed(None) as (tools, notes):
        assert "nsjail" not in [tool.name for tool in tools]
    assert "nsjail left out: cannot clone" in notes


def test_isolates_box_is_made_once_and_cleaned_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, "isolate", 'while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with installed("/srv") as (tools, _):
        (tool,) = [one for one in tools if one.name == "isolate"]
        bare([*tool.prefix, "/bin/true"])
    log = (tmp_path / "isolate.log").read_text().splitlines()
    assert log[0] == "--box-id=0 --init" and log[-1] == "--box-id=0 --cleanup"
    assert all("--dir=/srv" in line and line.endswith("--run -- /bin/true") for line in log[1:-1]) and len(log) == 4


def test_docker_without_an_image_is_left_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(tmp_path, "docker", "exit 0")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    tool, why = docker()
    assert tool is None and "no image" in why
    program(tmp_path, "docker", "echo 0123abcd")
    tool, why = docker()
    assert tool is not None and tool.prefix[-1] == "0123abcd" and not why


@pytest.mark.needs("bwrap")
def test_bubblewrap_runs_a_program_of_the_benchs_own(tmp_path: Path) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    tiny = write_tiny(str(folder))
    with installed(str(folder)) as (tools, notes):
        found = {tool.name: tool for tool in tools}
        if "bwrap" not in found:
            pytest.skip(f"needs bwrap: {notes[0]}")
        assert subprocess.run([*found["bwrap"].prefix, tiny], check=False).returncode == 0
        assert "Landlock" in found["bwrap"].lacks
