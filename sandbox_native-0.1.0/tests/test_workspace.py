"""A host directory as workspace: what the guest makes is the caller's, and nothing else of the host comes with it."""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import boxes
import pytest
from running import sh

from sandbox_native import Limits, Policy, PolicyError, Sandbox, SetupError, Status, workspace

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def sandbox(needs: Callable[[str], None]) -> Iterator[Sandbox]:
    needs("workspace")
    with Sandbox() as made:
        yield made


def test_new_files_belong_to_the_caller(sandbox: Sandbox, tmp_path: Path) -> None:
    script = "umask; echo 1 > file; mkdir dir; ln -s file link; mkfifo fifo; echo 2 > dir/file; stat -c %u . file dir"
    result = sandbox.run(sh(script), workspace=tmp_path)
    assert result.stdout == b"0022\n1000\n1000\n1000\n"
    for path in (tmp_path, *tmp_path.rglob("*")):
        assert (path.lstat().st_uid, path.lstat().st_gid) == (os.geteuid(), os.getegid()), path
    assert (tmp_path / "dir" / "file").read_text() == "2\n"


def test_files_of_the_caller_can_be_changed(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "private").write_text("old")
    (tmp_path / "private").chmod(0o600)
    result = sandbox.run(sh("cat private; echo new > private; rm -f gone"), workspace=tmp_path)
    assert result.stdout == b"old"
    assert (tmp_path / "private").read_text() == "new\n"


def test_collect_reads_beneath_a_host_workspace(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").symlink_to("/etc/shadow")
    result = sandbox.run(sh("echo made > out; ln -s /etc d"), workspace=tmp_path, collect=["out", "secret", "d/hostname"])
    assert result.files == {"out": b"made\n"}
    assert result.files_refused == {"secret": "a link", "d": "a link"}


def test_a_run_with_other_bounds_for_private_places_leaves_the_host_directory_alone(sandbox: Sandbox, tmp_path: Path) -> None:
    script = "echo 1 > file; head -c 4000000 /dev/zero > /tmp/full 2>/dev/null; stat -c %s /tmp/full"
    result = sandbox.run(sh(script), workspace=tmp_path, limits=Limits(tmp_bytes=1 << 20))
    assert result.stdout == b"1048576\n"
    assert (tmp_path / "file").read_text() == "1\n"


def test_a_link_to_a_directory_is_resolved_once(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    sandbox.run(sh("echo 1 > file"), workspace=tmp_path / "link")
    assert (tmp_path / "real" / "file").exists()


def test_a_private_workspace_is_there_again_in_the_next_run(sandbox: Sandbox, tmp_path: Path) -> None:
    for _ in range(3):
        sandbox.run(sh("echo 1 >> file"), workspace=tmp_path)
        assert sandbox.run(["/bin/ls"]).stdout == b""
    assert (tmp_path / "file").read_text() == "1\n" * 3


def test_a_file_is_no_workspace(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PolicyError, match="Not a directory"):
        sandbox.run(["/bin/true"], workspace=tmp_path / "file")


@pytest.mark.parametrize("path", ["/", "/proc", "/proc/self", "/sys/fs", "/dev", "relative", "/tmp/../etc", ""])
def test_what_is_no_directory_for_files_is_refused(path: str) -> None:
    with pytest.raises(PolicyError):
        workspace.check(path)


def test_shared_memory_may_be_a_workspace() -> None:
    assert workspace.check("/dev/shm/mine") == "/dev/shm/mine"


def test_a_directory_that_was_swapped_is_noticed(sandbox: Sandbox, tmp_path: Path) -> None:
    from sandbox_native._native import lib

    (tmp_path / "here").mkdir()
    opened = workspace.open_workspace(str(tmp_path / "here"))
    (tmp_path / "here").rename(tmp_path / "away")
    (tmp_path / "here").mkdir()
    engine = sandbox._backend._engine  # type: ignore[attr-defined]
    with pytest.raises(SetupError) as caught:
        engine.bind(opened.path, lib.SN_OP_NOSUID, opened.device, opened.inode)
    opened.close()
    assert (caught.value.stage, caught.value.errno, caught.value.item) == ("workspace", errno.ESTALE, str(tmp_path / "here"))


def test_a_guest_makes_no_set_id_file_of_the_callers(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.run(sh("cp /bin/true mine; chmod 4755 mine; chmod u+s,g+s mine; install -m 6755 /bin/true other"), workspace=tmp_path)
    for path in tmp_path.iterdir():
        assert not path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID), path


@pytest.mark.needs("root")
def test_a_full_disk_is_the_guests_affair(sandbox: Sandbox, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)], check=True)
    try:
        result = sandbox.run(sh("head -c 1000000 /dev/zero > big || exit 5; exit 6"), workspace=small)
        assert (result.status, result.exit_code) == (Status.NONZERO_EXIT, 5)
        assert b"No space left" in result.stderr
    finally:
        subprocess.run(["umount", str(small)], check=True)


def test_a_host_workspace_is_bounded_for_each_file(sandbox: Sandbox, tmp_path: Path) -> None:
    sandbox.run(sh("head -c 100000 /dev/zero > big"), workspace=tmp_path, limits=Limits(file_bytes=5000))
    assert (tmp_path / "big").stat().st_size == 5000


@pytest.mark.needs("cgroup")
def test_what_a_run_leaves_on_a_tmpfs_is_not_the_next_ones_memory(sandbox: Sandbox) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as where:
        for name in "abcd":  # twice in each of two slots
            done = sandbox.run(sh(f"head -c 20000000 /dev/zero > {name}"), workspace=where, limits=Limits(memory_bytes=64 << 20))
            assert done.status is Status.OK
        for _ in range(2):
            small = sandbox.run(sh("true"), limits=Limits(memory_bytes=16 << 20))
            assert small.status is Status.OK


# ---- where there are no idmapped mounts ----


@pytest.fixture
def without_idmap(tmp_path: Path) -> Iterator[Path]:
    """A ramfs: of the file systems that every kernel has, one that allows no idmapped mount."""
    where = tmp_path / "ramfs"
    where.mkdir()
    subprocess.run(["mount", "-t", "ramfs", "ramfs", str(where)], check=True)
    yield where
    subprocess.run(["umount", str(where)], check=True)


@pytest.mark.needs("root")
def test_without_idmapped_mounts_a_workspace_is_refused(sandbox: Sandbox, without_idmap: Path) -> None:
    with pytest.raises(SetupError) as caught:
        sandbox.run(["/bin/true"], workspace=without_idmap)
    assert (caught.value.stage, caught.value.item) == ("idmap", str(without_idmap))
    assert "chown" in caught.value.hint
    assert sandbox.run(["/bin/true"]).ok


@pytest.mark.needs("root")
def test_owners_are_changed_back_where_that_was_asked_for(without_idmap: Path) -> None:
    (without_idmap / "old").write_text("old")
    (without_idmap / "old").chmod(0o600)
    (without_idmap / "sub").mkdir()
    os.chown(without_idmap / "sub", 4321, 4321)
    with Sandbox(Policy.strict(workspace_owner="chown")) as sandbox:
        script = "cat old; mkdir -p a/b; echo 1 > a/b/new; ln -s /etc/passwd link; ln old hard; touch sub/x; exit 3"
        result = sandbox.run(sh(script), workspace=without_idmap)
    assert (result.stdout, result.exit_code) == (b"old", 3)
    assert b"sub/x" in result.stderr, "what is not the caller's does not become the guest's"
    owners = {str(path.relative_to(without_idmap)): path.lstat().st_uid for path in without_idmap.rglob("*")}
    assert owners == {"old": 0, "sub": 4321, "a": 0, "a/b": 0, "a/b/new": 0, "link": 0, "hard": 0}
    assert Path("/etc/passwd").stat().st_uid == 0
    assert without_idmap.stat().st_uid == 0


@pytest.mark.needs("idmap")
def test_what_the_policy_makes_writable_is_the_callers_too(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "private").write_text("private")
    (tmp_path / "private").chmod(0o600)
    with Sandbox(Policy.strict(writable=[(tmp_path, "/mnt/rw")])) as sandbox:
        result = sandbox.run(sh("cat /mnt/rw/private; echo 1 > /mnt/rw/new"))
    assert result.stdout == b"private"
    assert (tmp_path / "new").stat().st_uid == 0


@pytest.mark.needs("root")
def test_what_is_readable_for_root_only_stays_unreadable(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "secret").chmod(0o600)
    (tmp_path / "open").write_text("open")
    tmp_path.chmod(0o755)
    with Sandbox(Policy.strict(readable=[(tmp_path, "/mnt/ro")])) as sandbox:
        result = sandbox.run(sh("cat /mnt/ro/open; cat /mnt/ro/secret; echo 1 > /mnt/ro/new; echo 1 > /mnt/ro/open"))
    assert result.stdout == b"open"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["open", "secret"]


@pytest.mark.needs("root")
def test_owners_are_changed_back_however_deep_the_guest_went(without_idmap: Path) -> None:
    script = "i=0; while [ $i -lt 400 ]; do mkdir d; cd d; : > file; i=$((i + 1)); done; touch /workspace/last"

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
        with Sandbox(Policy.strict(workspace_owner="chown")) as sandbox:
            assert sandbox.run(sh(script), workspace=without_idmap, limits=Limits(wall_seconds=600)).ok
            assert sandbox.run(sh("true"), workspace=without_idmap).ok  # there and back again

    boxes.in_a_host(work)
    found = list(without_idmap.rglob("*"))
    assert len(found) == 801
    assert {path.lstat().st_uid for path in found} == {0}


@pytest.fixture
def stuck(without_idmap: Path) -> Iterator[Callable[[Sandbox], None]]:
    """Makes `aside/file`, which is the guest's already and of which nobody can change the owner, and other files beside it."""
    aside = without_idmap / "aside"

    def make(sandbox: Sandbox) -> None:
        guest = sandbox._backend._ground.plan.identity.box_uid  # type: ignore[attr-defined]
        aside.mkdir()
        (aside / "file").touch()
        os.chown(aside / "file", guest, guest)
        os.chown(aside, 4321, 4321)
        subprocess.run(["mount", "--bind", str(aside), str(aside)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(aside)], check=True)

    yield make
    subprocess.run(["umount", str(aside)], check=True)


@pytest.mark.needs("root")
def test_what_cannot_be_given_back_is_named_after_the_rest_was(stuck: Callable[[Sandbox], None], without_idmap: Path) -> None:
    with Sandbox(Policy.strict(workspace_owner="chown")) as sandbox:
        stuck(sandbox)
        for _ in range(3):
            with pytest.raises(SetupError) as caught:
                sandbox.run(sh("mkdir -p a z/z; touch a/1 z/z/1 0 ~"), workspace=without_idmap)
            assert (caught.value.stage, caught.value.errno, caught.value.item) == ("workspace", errno.EROFS, "aside/file")
        with sandbox.spawn(["/bin/true"], workspace=without_idmap) as process:
            for _ in range(2):
                with pytest.raises(SetupError, match="aside/file"):
                    process.wait()
        assert sandbox._backend._engine._count == 2  # type: ignore[attr-defined]  # every slot came back
        left_running = sandbox.spawn(["/bin/sleep", "60"], workspace=without_idmap)
    with pytest.raises(SetupError, match="aside/file"):
        left_running.wait()
    others = [path for path in without_idmap.rglob("*") if "aside" not in path.parts]
    assert {path.lstat().st_uid for path in others} == {0}
