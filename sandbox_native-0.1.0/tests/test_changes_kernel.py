"""Overlays of a workspace, whose changes are kept apart (csrc/launcher/overlay.c)."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from layers import (
    BOX_UID,
    CHANGES,
    KEEP,
    WORKSPACE,
    Host,
    as_host,
    engine,
    hosts,
    mounted,
    plan,
    refused,
    running,
)
from running import PYTHON, sh
from trees import WHITEOUT, listening, state, tree, workspace

from sandbox_native._native import lib

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

host = hosts("changes")


@pytest.mark.needs("opaque")
def test_changes_are_there_when_box_and_launcher_are_gone_and_the_directory_is_as_before(host: Host) -> None:
    def work(directory: Path) -> None:
        lower = workspace(directory)
        before = state(lower)
        script = (
            "cd /workspace; echo new > changed; echo new > added; rm deleted; rm -r replaced; mkdir replaced;"
            "echo n > replaced/new; mv moved kept/moved; ln -s added link; chmod 700 kept/old; cat changed; ls"
        )
        with engine(plan()) as used, mounted(used, lower) as mount:
            with running(used, sh(script), flags=KEEP, workspace=mount) as ran:
                assert ran.stderr == ""
                assert ran.lines == ["new", "added", "changed", "kept", "link", "replaced"]
                assert ran.held & lib.SN_HELD_CHANGES
                changes = os.dup(ran.changes)
        upper = os.open("0/upper", os.O_RDONLY, dir_fd=changes)
        try:
            assert tree(upper) == {
                "added": "new\n",
                "changed": "new\n",
                "deleted": WHITEOUT,
                "moved": WHITEOUT,
                "link": "-> added",
                "kept": "directory",
                "kept/moved": "old",
                "kept/old": "old",
                "replaced": "directory",
                "replaced/new": "n\n",
            }
            replaced = os.open("replaced", os.O_RDONLY, dir_fd=upper)
            assert os.getxattr(replaced, "user.overlay.opaque") == b"y"
            os.close(replaced)
        finally:
            os.close(upper)
            os.close(changes)
        assert state(lower) == before

    host(work)


def test_no_path_leads_to_the_changes_or_to_the_directory_below(host: Host) -> None:
    def work(directory: Path) -> None:
        with engine(plan()) as used, mounted(used, workspace(directory)) as mount:
            script = f"ls -A {CHANGES}; cat /proc/self/mountinfo; ls /proc/1/fd"
            with running(used, sh(script), flags=KEEP, workspace=mount) as ran:
                mounts = [line.split()[4] for line in ran.lines]
                assert CHANGES not in mounts
                assert mounts.count(WORKSPACE) == 2, "the private one, and the overlay on it"
                assert directory.name not in ran.stdout
                assert "/proc/1/fd" in ran.stderr, "init's descriptors are not to be seen"

    host(work)


def test_the_root_of_what_is_merged_has_the_mode_of_the_directory(host: Host) -> None:
    def work(directory: Path) -> None:
        lower = workspace(directory)
        lower.chmod(0o1750)
        with engine(plan()) as used, mounted(used, lower) as mount:
            with running(used, ["/bin/stat", "-c", "%a %u", WORKSPACE], flags=KEEP, workspace=mount) as ran:
                assert ran.lines == ["1750 1000"]

    host(work)


def test_the_guests_own_sockets_work_and_the_hosts_do_not(host: Host) -> None:
    code = """
import os, socket
def connect(name):
    return socket.socket(socket.AF_UNIX).connect_ex(name)
os.chdir("/workspace")
server = socket.socket(socket.AF_UNIX)
server.bind("own")
server.listen()
print(connect("own"), connect("socket"))
os.chmod("socket", 0o700)  # is copied up
print(connect("socket"))
os.rename("socket", "renamed")
print(connect("renamed"))
"""

    def work(directory: Path) -> None:
        lower = workspace(directory)
        with listening(lower / "socket"), engine(plan()) as used, mounted(used, lower) as mount:
            with running(used, [PYTHON, "-c", code], flags=KEEP, workspace=mount) as ran:
                refused = errno.ECONNREFUSED
                assert ran.lines == [f"0 {refused}", f"{refused}", f"{refused}"], ran.stderr
        with engine(plan()) as used, mounted(used, lower) as mount:
            pass

    host(work)


@pytest.mark.parametrize("size", [1 << 20, 2 << 20])
def test_changes_that_do_not_fit_are_refused_to_the_guest(host: Host, size: int) -> None:
    def work(directory: Path) -> None:
        script = "head -c 8000000 /dev/zero > /workspace/big; stat -c %s /workspace/big"
        with engine(plan()) as used, mounted(used, workspace(directory)) as mount:
            with running(used, sh(script), flags=KEEP, workspace=mount, tmp_bytes=size) as ran:
                assert "No space left on device" in ran.stderr
                assert size - 64 * 1024 <= int(ran.stdout) <= size

    host(work)


def test_more_files_than_a_private_workspace_may_have_are_refused_too(host: Host) -> None:
    code = "import os\nfor i in range(5000):\n os.close(os.open(f'/workspace/{i}', os.O_CREAT))"

    def work(directory: Path) -> None:
        with engine(plan()) as used, mounted(used, workspace(directory)) as mount:
            with running(used, [PYTHON, "-c", code], flags=KEEP, workspace=mount) as ran:
                assert "No space left on device" in ran.stderr
                upper = os.open("0/upper", os.O_RDONLY, dir_fd=ran.changes)
                assert 4000 < len(os.listdir(upper)) < 4096
                os.close(upper)

    host(work)


def test_what_is_collected_is_the_merged_view(host: Host) -> None:
    def work(directory: Path) -> None:
        script = "cd /workspace; rm deleted moved; mv changed kept; echo new > added"
        with engine(plan()) as used, mounted(used, workspace(directory)) as mount:
            with running(used, sh(script), flags=KEEP | lib.SN_REQUEST_COLLECT, workspace=mount) as ran:
                merged = {"kept/old": "old", "kept/changed": "old", "added": "new\n", "replaced/old": "old"}
                assert tree(ran.workspace) == {"kept": "directory", "replaced": "directory", **merged}

    host(work)


def test_files_that_the_host_places_are_changes(host: Host) -> None:
    def work(directory: Path) -> None:
        lower = workspace(directory)
        before = state(lower)
        with engine(plan()) as used, mounted(used, lower) as mount:
            files = {"placed/file": b"given"}
            with running(used, sh("cat /workspace/placed/file"), flags=KEEP, workspace=mount, files=files) as ran:
                assert ran.stdout == "given"
                assert "0/upper/placed/file" in tree(ran.changes)
        assert state(lower) == before

    host(work)


def test_changes_can_be_kept_in_a_directory_of_the_hosts(host: Host) -> None:
    def work(directory: Path) -> None:
        lower, upper = workspace(directory), directory / "changes"
        upper.mkdir()
        with engine(plan()) as used, mounted(used, lower) as mount, mounted(used, upper) as kept:
            script = "cd /workspace; echo new > added; rm -r replaced; mkdir replaced; head -c 8000000 /dev/zero > big"
            with running(used, sh(script), flags=KEEP, workspace=mount, upper=kept) as ran:
                assert (ran.exit_code, ran.stderr) == (0, "")
                assert os.fstat(ran.changes).st_ino == upper.stat().st_ino
        added = upper / "0" / "upper" / "added"
        assert (added.read_text(), added.stat().st_uid) == ("new\n", os.geteuid())
        assert os.getxattr(added.with_name("replaced"), "user.overlay.opaque") == b"y"
        assert not (lower / "added").exists()

    host(work)


def test_a_directory_of_changes_that_cannot_be_written_is_refused(host: Host) -> None:
    def work(directory: Path) -> None:
        lower, upper = workspace(directory), directory / "changes"
        upper.mkdir()
        with engine(plan()) as used, mounted(used, lower) as mount, mounted(used, upper, lib.SN_OP_RDONLY) as kept:
            assert refused(used, flags=KEEP, workspace=mount, upper=kept) == (lib.SN_STAGE_OVERLAY, errno.EROFS, WORKSPACE)

    host(work)


def test_without_a_workspace_there_is_an_empty_directory_of_changes(host: Host) -> None:
    def work(directory: Path) -> None:
        with engine(plan()) as used, running(used, sh("echo x > /workspace/x"), flags=KEEP) as ran:
            assert (ran.exit_code, tree(ran.changes)) == (0, {})

    host(work)


def test_a_plan_without_a_place_for_changes_refuses_them(host: Host) -> None:
    def work(directory: Path) -> None:
        made = plan()
        object.__setattr__(made, "changes", "")
        with engine(made) as used:
            assert refused(used, flags=KEEP) == (lib.SN_STAGE_PLAN, errno.EINVAL, "directory of changes")

    host(work)


@pytest.mark.needs("root")
@pytest.mark.needs("changes")
def test_a_directory_that_the_guest_owns_through_a_map_of_owners_stays_the_callers() -> None:
    def work(directory: Path) -> None:
        lower = workspace(directory)
        with engine(plan()) as used, mounted(used, lower) as mount:
            script = "cd /workspace; stat -c %u . changed; echo x >> changed; stat -c %u changed"
            with running(used, sh(script), flags=KEEP, workspace=mount) as ran:
                assert ran.lines == ["1000"] * 3
                upper = os.stat("0/upper/changed", dir_fd=ran.changes)
                assert upper.st_uid == BOX_UID, "on the tmpfs it is the box's own"

    as_host(False, work)
