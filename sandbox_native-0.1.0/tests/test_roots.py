"""What a policy may show of the host: real paths, no links where a guest writes, nothing that the host itself runs."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boxes
import pytest
from running import sh

from sandbox_native import Policy, PolicyError, Sandbox, SetupError, Writes, hosttree, roots
from sandbox_native.features import launcher_path
from sandbox_native.hostmounts import Mounts

PACKAGE = os.path.dirname(roots.__file__)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def writable(path: Path | str, covered: tuple[str, ...] = ()) -> roots.Found:
    return roots.look_at_writable(str(path), "Policy.writable[0]", Mounts.read(), covered)


def writable_unchecked(path: Path) -> roots.Found:
    status = path.stat()
    return roots.Found(str(path), status.st_dev, status.st_ino, True)


def refused(path: Path | str, match: str, covered: tuple[str, ...] = ()) -> PolicyError:
    with pytest.raises(PolicyError, match=match) as caught:
        writable(path, covered)
    assert caught.value.field == "Policy.writable[0]"
    assert caught.value.remedy
    return caught.value


def test_a_readable_path_is_looked_at_behind_its_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = roots.look_at(str(tmp_path / "link"), "Policy.readable[0]", Mounts.read())
    assert (found.path, found.inode) == (str(tmp_path / "real"), (tmp_path / "real").stat().st_ino)


def test_a_link_on_the_way_to_a_writable_path_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "real" / "w").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    error = refused(tmp_path / "link" / "w", f"{tmp_path}/link is a symbolic link")
    assert str(tmp_path / "real" / "w") in error.remedy
    refused(tmp_path / "link", "is a symbolic link")
    assert writable(tmp_path / "real" / "w").directory


def test_a_regular_file_can_be_writable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert not writable(tmp_path / "file").directory
    os.mkfifo(tmp_path / "fifo")
    refused(tmp_path / "fifo", "neither a file nor a directory")
    refused(tmp_path / "nothing", "No such file")


@pytest.mark.parametrize("path", ["/sys/fs", "/proc/self/fdinfo", "/dev/pts"])
def test_a_file_system_of_the_kernel_is_not_writable(path: str) -> None:
    refused(os.path.realpath(path), "kernel file system")


@pytest.mark.parametrize("path", [PACKAGE, f"{PACKAGE}/backends", os.path.dirname(PACKAGE), f"{PACKAGE}/policy.py"])
def test_this_package_is_not_writable(path: str) -> None:
    refused(path, "which the host runs")


def test_the_launcher_is_not_writable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "launcher").write_bytes(Path(launcher_path()).read_bytes())
    (tmp_path / "bin" / "launcher").chmod(0o755)
    writable(tmp_path)
    monkeypatch.setattr(roots, "launcher_path", lambda: str(tmp_path / "bin" / "launcher"))
    refused(tmp_path, "bin/launcher, which the host runs")
    refused(tmp_path / "bin" / "launcher", "which the host runs")


def test_an_environment_that_is_covered_does_not_make_the_directory_around_it_unwritable() -> None:
    above = os.path.dirname(PACKAGE)
    refused(above, "which the host runs", covered=(f"{PACKAGE}/backends",))
    assert writable(above, covered=(PACKAGE,)).path == above


def test_the_remedy_names_the_environment_that_the_package_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", os.path.dirname(PACKAGE))
    error = refused(os.path.dirname(os.path.dirname(PACKAGE)), "which the host runs")
    assert f"make {os.path.dirname(PACKAGE)} protected" in error.remedy


@pytest.mark.parametrize("name", [".ssh", ".git/hooks", ".vscode/deep/down", ".config/fish/config.fish"])
def test_what_nobody_may_write_is_no_root_either(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    refused(tmp_path / name, "may be written by no guest")


pytestmark = pytest.mark.kernel


@pytest.mark.needs("root")
def test_what_a_mount_shows_elsewhere_is_the_same_thing(tmp_path: Path) -> None:
    def work() -> None:
        boxes.own_mounts()
        for name in ("package", "above", "part", "root", "kernel", "outer/inner", "outer/kernel"):
            (tmp_path / name).mkdir(parents=True)
        mount("--bind", PACKAGE, str(tmp_path / "package"))
        mount("--bind", os.path.dirname(PACKAGE), str(tmp_path / "above"))
        mount("--bind", f"{PACKAGE}/backends", str(tmp_path / "part"))
        mount("--bind", "/", str(tmp_path / "root"))
        mount("-t", "proc", "proc", str(tmp_path / "kernel"))
        for name in ("package", "above", "part", "package/backends"):
            refused(tmp_path / name, "which the host runs")
        with pytest.raises(PolicyError, match="which the host runs"):  # in a chroot the table may not have it
            roots.refuse_writable(writable_unchecked(tmp_path / "above"), "Policy.writable[0]", Mounts([]))
        refused(tmp_path / "root", "is the whole host")
        refused(tmp_path / "kernel", "kernel file system, proc")
        assert writable(tmp_path / "outer").directory
        mount("--bind", f"{PACKAGE}/backends", str(tmp_path / "outer" / "inner"))
        refused(tmp_path / "outer", "which the host runs")
        mount("-t", "tmpfs", "none", str(tmp_path / "outer" / "inner"))
        assert writable(tmp_path / "outer").directory
        mount("-t", "sysfs", "sysfs", str(tmp_path / "outer" / "kernel"))
        refused(tmp_path / "outer", f"kernel file system, sysfs \\({tmp_path}/outer/kernel\\)")

    boxes.in_a_host(work)


@pytest.mark.needs("root")
def test_the_hosts_processes_are_not_readable_at_any_place(tmp_path: Path) -> None:
    def work() -> None:
        boxes.own_mounts()
        mount("-t", "proc", "proc", str(tmp_path))
        with pytest.raises(PolicyError, match="shows the host's processes"):
            roots.look_at(str(tmp_path), "Policy.readable[0]", Mounts.read())

    boxes.in_a_host(work)


# ---- what was looked at is what is shown ----


@pytest.mark.needs("userns")
@pytest.mark.parametrize("swap", ["directory", "link"])
@pytest.mark.parametrize("kind", ["readable", "writable", "commit"])
def test_an_ancestor_that_is_replaced_between_look_and_start_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needs: Callable[[str], None], kind: str, swap: str
) -> None:
    (tmp_path / "above" / "root").mkdir(parents=True)
    (tmp_path / "other" / "root").mkdir(parents=True)
    (tmp_path / "other" / "root" / "secret").write_text("secret")
    if kind != "readable":
        needs("idmap")
    fields: dict[str, Any] = {"readable": {"readable": [tmp_path / "above" / "root"]}}.get(
        kind, {"writable": [tmp_path / "above" / "root"]}
    )
    if kind == "commit":
        fields["writes"] = Writes.COMMIT
    real = hosttree.read_tree

    def look_and_swap(policy: Policy, **options: Any) -> Any:
        tree = real(policy, **options)
        (tmp_path / "above").rename(tmp_path / "gone")
        if swap == "link":
            (tmp_path / "above").symlink_to("other")
        else:
            (tmp_path / "other").rename(tmp_path / "above")
        return tree

    monkeypatch.setattr(hosttree, "read_tree", look_and_swap)
    with pytest.raises(SetupError) as caught:
        Sandbox(Policy.strict(**fields))
    assert (caught.value.errno, caught.value.item) == (errno.ESTALE, str(tmp_path / "above" / "root"))


@pytest.mark.needs("userns")
def test_an_ancestor_that_is_moved_with_a_link_left_in_its_place_leads_to_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "above" / "root").mkdir(parents=True)
    (tmp_path / "above" / "root" / "mine").write_text("mine")
    real = hosttree.read_tree

    def look_and_move(policy: Policy, **options: Any) -> Any:
        tree = real(policy, **options)
        (tmp_path / "above").rename(tmp_path / "elsewhere")
        (tmp_path / "above").symlink_to("elsewhere")
        return tree

    monkeypatch.setattr(hosttree, "read_tree", look_and_move)
    with Sandbox(Policy.strict(readable=[(tmp_path / "above" / "root", "/mnt/r")])) as sandbox:
        assert sandbox.run(sh("cat /mnt/r/mine")).text == "mine"
