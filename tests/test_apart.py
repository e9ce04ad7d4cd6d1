"""Runs under `Writes.COMMIT`: what the host's directory shows meanwhile and afterwards, in memory and on disk."""

from __future__ import annotations

import os
import pickle
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
import scope
from boxes import MIB, in_a_host
from hosttrees import kept
from overlays import paths
from running import PYTHON, nap, sh, sleepers

from sandbox_native import Limits, Policy, PolicyError, Result, Sandbox, SandboxError, Status, Writes
from sandbox_native.commit.changes import Changes

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "workspace", "changes", "opaque")]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture(params=["memory", "disk"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(Policy.strict(writes=Writes.COMMIT, changes=request.param)) as made:
        yield made


def changes(result: Result) -> Changes:
    assert result.changes is not None
    return result.changes


def beside(workspace: Path) -> list[str]:
    return sorted(os.listdir(workspace.parent))


def test_the_guest_sees_its_own_changes_and_the_host_none(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "file").write_text("old\n")
    (workspace / "gone").write_text("old\n")
    process = sandbox.spawn(
        sh("echo new > file; rm gone; mkdir d; echo 1 > d/x; ls; cat file; echo; read go"), workspace=workspace
    )
    assert b"new" in process.stdout.read(12)
    assert sorted(os.listdir(workspace)) == ["file", "gone"] and (workspace / "file").read_text() == "old\n"
    process.stdin.write(b"go\n")
    process.stdin.close()
    result = process.wait()
    assert (workspace / "file").read_text() == "new\n" and sorted(os.listdir(workspace)) == ["d", "file"]
    assert paths(changes(result)) == {"added": ["d", "d/x"], "modified": ["file"], "deleted": ["gone"]}
    assert beside(workspace) == ["work"]


def test_what_is_committed_is_the_callers(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "mine").write_text("old")
    sandbox.run(sh("umask 027; echo 1 > file; mkdir dir; ln -s x link; echo 2 > mine; chmod 600 mine"), workspace=workspace)
    for path in workspace.rglob("*"):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (os.geteuid(), os.getegid()), path
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in workspace.iterdir()}
    assert modes == {"file": 0o640, "dir": 0o750, "mine": 0o600, "link": 0o777}


def test_a_dry_run_leaves_the_say_to_the_caller(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "file").write_text("old")
    script = "echo changed > file; echo 12 > new; mkdir .vscode; echo evil > .vscode/tasks.json"
    for decide in ("discard", "commit"):
        result = sandbox.run(sh(script), workspace=workspace, commit=False)
        found = changes(result)
        assert found.state == "pending" and os.listdir(workspace) == ["file"]
        assert [(change.path, change.size) for change in (*found.added, *found.modified)] == [("new", 3), ("file", 8)]
        assert [denial.name for denial in result.denials] == ["/workspace/.vscode"]
        getattr(found, decide)()
        assert beside(workspace) == ["work"]
    assert sorted(os.listdir(workspace)) == ["file", "new"] and (workspace / "file").read_text() == "changed\n"


def test_a_dry_run_outlives_its_sandbox(workspace: Path) -> None:
    with Sandbox(Policy.strict(writes=Writes.COMMIT)) as sandbox:
        result = sandbox.run(sh("echo 1 > file"), workspace=workspace, commit=False)
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result or copy.changes.added == changes(result).added
    with pytest.raises(SandboxError, match="belong to the process"):
        copy.changes.commit()
    changes(result).commit()
    assert (workspace / "file").read_text() == "1\n"


def test_what_a_forgotten_dry_run_held_is_given_back(sandbox: Sandbox, workspace: Path) -> None:
    """The descriptors are counted by nothing_left_behind."""
    sandbox.run(sh("echo 1 > file"), workspace=workspace, commit=False)
    assert beside(workspace) == ["work"] and os.listdir(workspace) == []


def test_a_run_that_a_limit_ended_is_committed_too(sandbox: Sandbox, workspace: Path) -> None:
    result = sandbox.run(sh(f"echo 1 > file; exec sleep {nap(30)}"), workspace=workspace, limits=Limits(wall_seconds=0.5))
    assert result.status is Status.WALL_LIMIT and not sleepers(30)
    assert (workspace / "file").read_text() == "1\n"


def test_what_collect_asks_for_is_the_guests_version(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "file").write_text("old")
    result = sandbox.run(
        sh("echo new > file; mkdir .vscode; echo 1 > .vscode/x"), workspace=workspace, commit=False, collect=["**"]
    )
    assert result.files == {"file": b"new\n", ".vscode/x": b"1\n"} and (workspace / "file").read_text() == "old"
    changes(result).discard()


def test_private_workspaces_have_nothing_to_commit(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("echo 1 > file"))
    assert result.changes is None and result.denials == ()


def test_memory_is_bounded_by_tmp_bytes(workspace: Path) -> None:
    with Sandbox(Policy.strict(writes=Writes.COMMIT)) as sandbox:
        result = sandbox.run(
            sh("head -c 8000000 /dev/zero > big || echo full"), workspace=workspace, limits=Limits(tmp_bytes=2 * MIB)
        )
    assert result.stdout == b"full\n" and (workspace / "big").stat().st_size <= 2 * MIB


def test_large_work_goes_to_disk(workspace: Path) -> None:
    with Sandbox(Policy.strict(writes=Writes.COMMIT, changes="disk")) as sandbox:
        result = sandbox.run(sh("head -c 8000000 /dev/zero > big"), workspace=workspace, limits=Limits(tmp_bytes=2 * MIB))
    assert result.ok and (workspace / "big").stat().st_size == 8_000_000 and beside(workspace) == ["work"]


def test_writable_roots_are_kept_apart_and_committed_too(workspace: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("old")
    policy = Policy.strict(
        writes=Writes.COMMIT, writable=[(str(tmp_path / "one"), "/mnt/one"), (str(tmp_path / "two"), "/tmp/two")]
    )
    script = "echo 1 > /mnt/one/file; rm /tmp/two/file; mkdir /tmp/two/.idea /mnt/one/new"
    with Sandbox(policy) as sandbox:
        result = sandbox.run(sh(script), commit=False)
        assert (tmp_path / "one" / "file").read_text() == (tmp_path / "two" / "file").read_text() == "old"
        found = {(change.root, change.path) for change in (*changes(result).modified, *changes(result).deleted)}
        assert found == {("/mnt/one", "file"), ("/tmp/two", "file")}
        changes(result).commit()
        assert [denial.name for denial in result.denials] == ["/tmp/two/.idea"]
        both = sandbox.run(sh("echo 2 > /mnt/one/file; echo 3 > here"), workspace=workspace)
    assert [(change.root, change.path) for change in changes(both).added] == [("/workspace", "here")]
    assert (tmp_path / "one" / "file").read_text() == "2\n" and (workspace / "here").read_text() == "3\n"
    assert os.listdir(tmp_path / "two") == [] and (tmp_path / "one" / "new").is_dir()


@pytest.mark.parametrize("places", [("readable", "writable"), ("writable", "writable")])
def test_a_root_in_another_one_beneath_the_boxs_tmp_is_committed_too(places: tuple[str, str], tmp_path: Path) -> None:
    outer, inner = tmp_path / "p", tmp_path / "p" / "out"
    inner.mkdir(parents=True)
    (outer / "kept").write_text("old")
    at = {str(outer): "/tmp/kept/p", str(inner): "/tmp/kept/p/out"}
    roots = {name: [at_ for at_, one in zip(at.items(), places, strict=True) if one == name] for name in set(places)}
    policy = Policy.strict(**roots, writes=Writes.COMMIT)
    with Sandbox(policy) as sandbox:
        result = sandbox.run(sh("cat /tmp/kept/p/kept; echo 1 > /tmp/kept/p/out/new"), commit=False)
        assert result.stdout == b"old" and not (inner / "new").exists()
        assert [(one.root, one.path) for one in changes(result).added] == [("/tmp/kept/p/out", "new")]
        changes(result).commit()
    assert (inner / "new").read_text() == "1\n"


def test_a_writable_root_that_was_replaced_is_another_plans(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    with Sandbox(Policy.strict(writes=Writes.COMMIT, writable=[(str(tmp_path / "root"), "/mnt/root")])) as sandbox:
        sandbox.run(sh("echo 1 > /mnt/root/file"))
        (tmp_path / "root").rename(tmp_path / "old")
        (tmp_path / "root").mkdir()
        sandbox.run(sh("echo 2 > /mnt/root/file"))
    assert (tmp_path / "root" / "file").read_text() == "2\n" and (tmp_path / "old" / "file").read_text() == "1\n"


def test_what_is_protected_reads_as_absent_and_leaves_nothing(sandbox: Sandbox, workspace: Path) -> None:
    """R45: no placeholder of an absent protected file, during or after."""
    script = "cat .git/config.worktree 2>&1; cat .bashrc 2>&1; ls -A; git status 2>&1"
    result = sandbox.run(sh(script), workspace=workspace)
    assert result.stdout.count(b"No such file") == 2 and b"not a git repository" in result.stdout
    assert os.listdir(workspace) == [] and result.denials == () and paths(changes(result))["added"] == []


def test_tricks_of_a_guest_come_to_nothing(sandbox: Sandbox, workspace: Path) -> None:
    (workspace / "readme").write_text("1")
    script = """
import os
os.makedirs("x/hooks"); open("x/hooks/pre-commit", "w").write("evil"); open("x/config", "w").write("evil")
os.symlink("x", ".git")
os.mkfifo("fifo")
open("suid", "w")
try: os.chmod("suid", 0o4755)
except PermissionError: pass
import socket; socket.socket(socket.AF_UNIX).bind("sock")
os.makedirs("sub/.git/hooks"); open("sub/.git/hooks/x", "w")
try: os.mknod("whiteout", 0o020000, 0)
except PermissionError: print("refused")
try: os.setxattr("readme", "user.overlay.opaque", b"y")
except OSError: pass
os.symlink("/etc/shadow", "innocent"); os.makedirs("a/b/c/d/e/f"); os.mkdir(".SANDBOX"); os.mkdir(".sandbox-native-commit")
"""
    result = sandbox.run([PYTHON, "-c", script], workspace=workspace)
    assert (result.stdout, result.stderr) == (b"refused\n", b"")
    names = {denial.name.removeprefix("/workspace/") for denial in result.denials}
    kept = {"x/hooks", "x/config", "fifo", "sock", "sub/.git/hooks", ".sandbox-native-commit"}
    assert names == kept, names ^ kept
    for path in workspace.rglob("*"):
        assert str(path.relative_to(workspace)) not in names
    assert "user.overlay.opaque" not in os.listxattr(workspace / "readme")


def test_set_id_bits_are_refused_where_no_filter_did(workspace: Path) -> None:
    with Sandbox(Policy.light(writes=Writes.COMMIT)) as sandbox:
        result = sandbox.run(
            sh("cp /bin/true suid; chmod 4755 suid; mkdir dir; chmod g+s dir; echo 1 > dir/x"), workspace=workspace
        )
    assert {denial.name for denial in result.denials} == {"/workspace/suid", "/workspace/dir"}
    assert not (workspace / "suid").exists()
    assert not (workspace / "dir").stat().st_mode & stat.S_ISGID and (workspace / "dir" / "x").exists()


def test_hosts_that_fork_leave_the_changes_to_the_parent(sandbox: Sandbox, workspace: Path) -> None:
    result = sandbox.run(sh("echo 1 > file"), workspace=workspace, commit=False)

    def child() -> None:
        with pytest.raises(SandboxError):
            changes(result).commit()

    scope.succeeds(child)
    changes(result).commit()
    assert (workspace / "file").exists() and beside(workspace) == ["work"]


def test_a_killed_host_leaves_no_trace_in_the_workspace(workspace: Path) -> None:
    """While the guest ran: nothing was committed, and what was on disk goes with the next run."""

    def host() -> None:
        with Sandbox(Policy.strict(writes=Writes.COMMIT, changes="disk")) as sandbox:
            process = sandbox.spawn(sh(f"echo 1 > file; echo ready; exec sleep {nap(60)}"), workspace=workspace)
            process.stdout.read(5)
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(AssertionError, match="wait status 9"):
        in_a_host(host)
    assert os.listdir(workspace) == []
    with Sandbox(Policy.strict(writes=Writes.COMMIT, changes="disk")) as sandbox:
        sandbox.run(sh("echo 2 > file"), workspace=workspace)
    assert os.listdir(workspace) == ["file"] and beside(workspace) == ["work"]


def test_a_run_completes_the_commit_that_a_killed_host_left(workspace: Path) -> None:
    """With direct writes, too: the guest sees all of it."""
    from killed import killed_at

    from sandbox_native.commit import journal

    with Sandbox(Policy.strict(writes=Writes.COMMIT)) as sandbox:
        result = sandbox.run(sh("for i in 1 2 3; do echo $i > f$i; done"), workspace=workspace, commit=False)
    number = 0
    while killed_at(number, lambda: pid_of_this(result).commit()):
        if journal.NAME in kept(workspace):
            break
        number += 1
    assert len(os.listdir(workspace)) < 3
    with Sandbox() as direct:
        assert direct.run(["/bin/ls"], workspace=workspace).stdout == b"f1\nf2\nf3\n"
    changes(result).discard()
    assert beside(workspace) == ["work"]


def pid_of_this(result: Result) -> Changes:
    """As if this process had run the program."""
    found = changes(result)
    found._pid = os.getpid()
    return found


def test_where_there_is_no_room_beside_it_disk_is_refused(tmp_path: Path) -> None:
    with Sandbox(Policy.strict(writes=Writes.COMMIT, changes="disk")) as sandbox:
        with pytest.raises(PolicyError, match="changes"):
            sandbox.run(["/bin/true"], workspace="/dev/shm")


def test_the_receipt_says_how_changes_were_kept(sandbox: Sandbox, workspace: Path) -> None:
    layers = {layer.name: layer for layer in sandbox.run(["/bin/true"], workspace=workspace).enforcement.layers}
    assert layers["changes"].held and layers["protected"].held
