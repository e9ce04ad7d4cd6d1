"""What a run is given of the host's directories: guards on top of a workspace, and what follows when it is over."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import sh

from sandbox_native import Policy, Result, Sandbox, Writes
from sandbox_native._native import ffi, lib
from sandbox_native.protection import Guard
from sandbox_native.request import with_guards

kernel = pytest.mark.kernel
runs = pytest.mark.needs("userns", "workspace")


def test_guards_are_encoded_as_the_header_says() -> None:
    guards = (
        Guard("a", 1, 2, read_only=True),
        Guard("sub/\udcff", 3, 4),
        Guard("hidden", 5, 6, mask=True),
    )
    body = with_guards(b"odd", guards)
    assert body[:8] == b"odd" + bytes(5)
    at, found = 8, []
    for _ in guards:
        one = ffi.from_buffer("struct sn_guard *", body[at : at + ffi.sizeof("struct sn_guard")])
        at += ffi.sizeof("struct sn_guard")
        name = body[at : at + one.name_bytes]
        found.append((one.device, one.inode, one.flags, name))
        at += -(-one.name_bytes // 8) * 8
    assert found == [
        (1, 2, lib.SN_GUARD_RDONLY, b"a\0"),
        (3, 4, 0, b"sub/\xff\0"),
        (5, 6, lib.SN_GUARD_MASK, b"hidden\0"),
    ]
    assert at == len(body)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    work = tmp_path / "work"
    (work / ".git" / "hooks").mkdir(parents=True)
    (work / ".git" / "config").write_text("mine")
    (work / "data").mkdir()
    (work / "data" / "secret").write_text("hidden")
    (work / "data" / "lock").write_text("mine")
    yield work
    shutil.rmtree(tmp_path / ".sandbox-native-quarantine", ignore_errors=True)


def run(policy: Policy, script: str, workspace: Path) -> Result:
    with Sandbox(policy) as sandbox:
        return sandbox.run(sh(script), workspace=workspace)


@kernel
@runs
@pytest.mark.parametrize("writes", [pytest.param(Writes.COMMIT, marks=pytest.mark.needs("changes")), Writes.DIRECT])
def test_what_is_protected_in_a_workspace_is_read_only_and_stays_where_it_is(workspace: Path, writes: Writes) -> None:
    policy = Policy.strict(writes=writes, protected=["/workspace/data/lock"], hidden=["/workspace/data/secret"])
    script = """
    for f in .git/config .git/hooks/x data/lock data/secret; do (echo evil > $f) 2>/dev/null && echo wrote $f; done
    for f in .git data data/lock .git/hooks; do mv $f moved 2>/dev/null && echo moved $f; rm -rf $f 2>/dev/null; done
    cat .git/config data/lock data/secret; echo more > data/free; ls data
    """
    result = run(policy, script, workspace)
    assert result.stdout.split() == b"mineminefree lock secret".split(), result.stdout
    assert (workspace / ".git" / "config").read_text() == (workspace / "data" / "lock").read_text() == "mine"
    assert (workspace / "data" / "secret").read_text() == "hidden" and (workspace / "data" / "free").read_text() == "more\n"
    held = {layer.name: layer.held for layer in result.enforcement.layers}
    assert held["protected"] and held["hidden"] and result.denials == ()


@kernel
@runs
def test_what_a_guest_made_under_a_protected_name_is_moved_away_when_the_run_ends(workspace: Path) -> None:
    result = run(Policy.strict(), "echo evil > .bashrc; mkdir -p .vscode; echo 1 > kept", workspace)
    found = {(denial.kind, denial.name) for denial in result.denials}
    assert found == {("quarantine", "/workspace/.bashrc"), ("quarantine", "/workspace/.vscode")}
    assert sorted(os.listdir(workspace)) == [".git", "data", "kept"]
    assert [Path(denial.arguments).exists() for denial in result.denials] == [True, True]


@kernel
@runs
def test_it_is_moved_away_also_when_nobody_asks_for_the_result(workspace: Path) -> None:
    with Sandbox() as sandbox:
        process = sandbox.spawn(sh("echo evil > .bashrc; echo ready; read never"), workspace=workspace)
        assert process.stdout.read(5) == b"ready" and (workspace / ".bashrc").exists()
        process.kill()
        del process
    assert not (workspace / ".bashrc").exists()


@kernel
@runs
def test_writable_roots_are_guarded_with_what_they_hold_when_the_run_begins(workspace: Path) -> None:
    """What somebody on the host protects after the Sandbox was made is protected in the next run."""
    with Sandbox(Policy.strict(writable=[(str(workspace), "/mnt/work")])) as sandbox:
        assert sandbox.run(sh("echo 1 >> /mnt/work/file; echo evil > /mnt/work/.git/config")).stderr
        (workspace / ".profile").write_text("mine")
        result = sandbox.run(sh("echo evil > /mnt/work/.profile; echo evil > /mnt/work/.zshrc"))
    assert b"Read-only" in result.stderr and (workspace / ".profile").read_text() == "mine"
    assert [denial.name for denial in result.denials] == ["/mnt/work/.zshrc"] and not (workspace / ".zshrc").exists()
