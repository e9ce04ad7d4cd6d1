"""Where groups may be made: found, moved aside for, named, or refused with a remedy; on the real hierarchies."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from scope import alone, child, succeeds

from sandbox_native import cgroup
from sandbox_native.cgroup import Hierarchy
from sandbox_native.cgroup.values import PREFIX
from sandbox_native.errors import SetupError, UnsupportedError


@pytest.mark.needs("cgroup")
def test_discovery_finds_our_own_group_and_leaves_nothing() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        assert hierarchy.version in (1, 2), hierarchy.reason
        assert {"memory", "pids"} <= set(hierarchy.directories)
        for root in hierarchy.roots:
            assert not list(Path(root).glob(f"sandbox-native-{os.getpid()}-*"))
        assert cgroup.discover() == hierarchy

    alone(work)


@pytest.mark.kernel
@pytest.mark.needs("cgroup2")
def test_a_lonely_host_moves_aside_once_and_release_undoes_it() -> None:
    def work() -> None:
        before = Path("/proc/self/cgroup").read_text().strip()
        hierarchy = cgroup.discover()
        assert hierarchy.version == 2, hierarchy.reason
        own = Path(hierarchy.roots[0])
        assert Path("/proc/self/cgroup").read_text().strip() == before + "/host"
        assert (own / "cgroup.procs").read_text() == ""
        assert {"memory", "pids"} <= set((own / "cgroup.subtree_control").read_text().split())
        group = cgroup.make_group(hierarchy)
        assert not cgroup.release(hierarchy)
        assert group.remove()
        assert cgroup.release(hierarchy)
        assert Path("/proc/self/cgroup").read_text().strip() == before
        assert not (own / "host").exists()

    alone(work)


@pytest.mark.needs("cgroup2")
def test_forked_and_spawned_workers_use_the_group_above_the_host_leaf() -> None:
    def work() -> None:
        hierarchy = cgroup.discover()
        succeeds(lambda: check(hierarchy))
        code = "from sandbox_native import cgroup; print(cgroup.discover().roots[0])"
        root = str(Path(cgroup.__file__).parent.parent)
        shown = subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": root}, capture_output=True, text=True
        )
        assert shown.stdout.strip() == hierarchy.roots[0], shown.stderr

    def check(hierarchy: Hierarchy) -> None:
        assert cgroup.discover() == hierarchy
        assert not cgroup.release(hierarchy)  # the parent is in the leaf too

    alone(work)


@pytest.mark.kernel
@pytest.mark.needs("cgroup2")
def test_a_group_shared_with_others_is_refused_with_the_remedy() -> None:
    def work() -> None:
        reading, writing = os.pipe()
        other = child(lambda: print(os.read(reading, 1)))
        hierarchy = cgroup.discover()
        os.write(writing, b"x")
        os.waitpid(other, 0)
        assert hierarchy.version == 0
        assert str(other) in hierarchy.reason
        assert "-p Delegate=yes" in hierarchy.remedy
        with pytest.raises(UnsupportedError, match="Delegate=yes"):
            cgroup.make_group(hierarchy)

    alone(work)


@pytest.mark.needs("cgroup2")
def test_a_named_empty_group_serves_a_host_that_shares_its_own() -> None:
    def work() -> None:
        own = Path(cgroup.discover().roots[0])
        named = own / "named"
        named.mkdir()
        where = Path("/proc/self/cgroup").read_text()
        hierarchy = cgroup.discover(str(named))
        assert hierarchy.roots == (str(named),)
        assert Path("/proc/self/cgroup").read_text() == where
        group = cgroup.make_group(hierarchy)
        slot = group.new_slot()
        assert slot.remove()
        assert group.remove()
        named.rmdir()

    alone(work)


@pytest.mark.needs("cgroup2")
def test_a_named_group_that_holds_processes_is_refused() -> None:
    def work() -> None:
        own = cgroup.discover().roots[0]
        with pytest.raises(SetupError, match="holds|busy|empty") as caught:
            cgroup.discover(f"{own}/host")
        assert (caught.value.stage, caught.value.errno, caught.value.item) == ("cgroup", errno.EBUSY, f"{own}/host")

    alone(work)


@pytest.mark.parametrize("path", ["relative/group", "/no/such/group", "/"])
def test_a_named_group_that_is_none_is_refused_by_name(path: str) -> None:
    with pytest.raises(SetupError) as caught:
        cgroup.discover(path)
    assert caught.value.stage == "cgroup"
    assert caught.value.item.startswith(path)
    assert "cgroup v2" in caught.value.hint


@pytest.mark.needs("root")
@pytest.mark.needs("cgroup")
def test_a_user_who_may_not_write_our_group_is_refused_with_a_remedy() -> None:
    def work() -> None:
        os.setgroups([])
        os.setresgid(60_000, 60_000, 60_000)
        os.setresuid(60_000, 60_000, 60_000)
        hierarchy = cgroup.discover()
        assert hierarchy.version == 0
        assert "may not be written" in hierarchy.reason
        assert PREFIX not in hierarchy.reason  # our own group, not what was tried in it
        assert hierarchy.remedy

    alone(work)


@pytest.mark.kernel
@pytest.mark.needs("plain")
@pytest.mark.needs("no_cgroup")
def test_a_plain_user_is_told_how_to_get_a_group() -> None:
    hierarchy = cgroup.discover()
    assert hierarchy.version == 0
    assert hierarchy.reason
    assert "-p Delegate=yes" in hierarchy.remedy or "root" in hierarchy.remedy


def python_in_namespace(*unshare: str, mounts: str, code: str) -> str:
    """What `code` prints behind `mounts` (shell) in new namespaces."""
    script = f"{mounts}\nexec {sys.executable} -c '{code}'"
    env = os.environ | {"PYTHONPATH": str(Path(cgroup.__file__).parent.parent)}
    done = subprocess.run(["unshare", *unshare, "sh", "-ec", script], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


SHOW = "from sandbox_native import cgroup; h = cgroup.discover(); print(h.version, *h.roots); print(h.reason); print(h.remedy)"


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    ("mounts", "reason"),
    [
        ("umount -l -R /sys/fs/cgroup", "no cgroup file system is mounted"),
        ("mount -t tmpfs none /sys/fs/cgroup", "no mount shows our own group"),
        ("for m in $(grep -w cgroup2* /proc/mounts | cut -d\" \" -f2); do mount -o remount,bind,ro $m; done; "
         "for m in $(grep -w cgroup /proc/mounts | cut -d\" \" -f2); do mount -o remount,bind,ro $m; done", "read-only"),
    ],
    ids=["unmounted", "masked", "read-only"],
)  # fmt: skip
def test_masked_and_read_only_mounts_mean_none_with_a_reason(mounts: str, reason: str) -> None:
    version, why, remedy = python_in_namespace("-m", mounts=mounts, code=SHOW).splitlines()
    assert version == "0"
    assert reason in why
    assert "/sys/fs/cgroup" in remedy


@pytest.mark.needs("root")
@pytest.mark.needs("cgroup1")
def test_partial_mounts_of_a_container_are_found_by_our_pid_in_them() -> None:
    """As docker does it on v1: each hierarchy shows only our own group, at the place of the whole."""
    mounts = """
    top=$(mktemp -d); mount -t tmpfs none $top
    for c in memory pids cpu cpuacct; do
        own=$(grep ":$c:" /proc/self/cgroup | cut -d: -f3)
        mkdir $top/$c; mount --bind /sys/fs/cgroup/$c$own $top/$c
    done
    mount --rbind $top /sys/fs/cgroup; umount -l $top; rmdir $top"""
    shown = python_in_namespace("-m", mounts=mounts, code=SHOW).splitlines()[0]
    assert shown == "1 /sys/fs/cgroup/memory /sys/fs/cgroup/pids /sys/fs/cgroup/cpuacct /sys/fs/cgroup/cpu"


@pytest.mark.needs("root")
@pytest.mark.needs("cgroup1")
def test_a_cgroup_namespace_with_mounts_of_its_own_is_found() -> None:
    mounts = """
    mount -t tmpfs none /sys/fs/cgroup
    for c in memory pids cpu cpuacct; do mkdir /sys/fs/cgroup/$c; mount -t cgroup -o $c none /sys/fs/cgroup/$c; done"""
    shown = python_in_namespace("-m", "-C", mounts=mounts, code=SHOW).splitlines()[0]
    assert shown == "1 /sys/fs/cgroup/memory /sys/fs/cgroup/pids /sys/fs/cgroup/cpuacct /sys/fs/cgroup/cpu"
