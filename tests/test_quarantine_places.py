"""Where things go that guests made under denied names."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import boxes
import pytest
from hosttrees import make, opened, protection
from running import sh
from test_quarantine import places, settle

from sandbox_native import Policy, Sandbox
from sandbox_native.mandatory import QUARANTINE
from sandbox_native.quarantine import quarantine
from sandbox_native.workspace import Handed


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def test_a_directory_that_the_guest_sees_is_no_place_for_it(root: Path) -> None:
    (root / "inner").mkdir()
    before = protection(root / "inner")
    make(root / "inner", ".bashrc")
    settle(root / "inner", before, Policy.strict(writable=[(root, "/w"), (root / "inner", "/w/inner")]))
    assert not (root / QUARANTINE).exists()
    assert len(places(root)) == 1


def test_somebody_elses_directory_of_that_name_is_not_used(root: Path) -> None:
    before = protection(root)
    (root.parent / QUARANTINE).mkdir(mode=0o777)
    (root.parent / QUARANTINE).chmod(0o777)
    for text in ("first", "second"):
        (root / ".bashrc").write_text(text)
        settle(root, before)
    assert os.listdir(root.parent / QUARANTINE) == []
    other = root.parent / f"{QUARANTINE}-{os.geteuid()}"
    assert sorted((place / ".bashrc").read_text() for place in other.iterdir()) == ["first", "second"]
    assert stat.S_IMODE(other.stat().st_mode) == 0o700
    other.rename(root.parent / "moved")
    other.mkdir(mode=0o755)
    other.chmod(0o755)
    make(root, ".bashrc")
    settle(root, before)
    assert os.listdir(other) == []
    assert not (root / ".bashrc").exists()


def test_asking_makes_nothing(root: Path) -> None:
    make(root, ".npmrc")
    before = protection(root)
    (root / "new").write_text("saved by the user")
    (root / "new").rename(root / ".npmrc")
    assert set(settle(root, before)) == {".npmrc"}
    assert not (root.parent / QUARANTINE).exists()


def test_a_link_of_that_name_is_not_followed(root: Path, tmp_path: Path) -> None:
    before = protection(root)
    make(root, ".bashrc")
    (tmp_path / "trap").mkdir(mode=0o700)
    (tmp_path / QUARANTINE).symlink_to("trap")
    settle(root, before)
    assert os.listdir(tmp_path / "trap") == []
    assert not (root / ".bashrc").exists()


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_on_a_mount_of_its_own_it_stays_in_the_root_and_is_covered_later(tmp_path: Path) -> None:
    def work() -> None:
        boxes.own_mounts()
        root = tmp_path / "mounted"
        root.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", str(root)], check=True)
        before = protection(root)
        make(root, ".bashrc", ".git/hooks/evil")
        found = settle(root, before)
        assert set(found) == {".bashrc", ".git/hooks"}
        (place,) = [path for path in root.iterdir() if path.name.startswith(QUARANTINE)]
        assert (place / ".git/hooks/evil").read_text() == "was here"
        assert not (tmp_path / QUARANTINE).exists()
        with Sandbox(Policy.strict(writable=[(root, "/w")])) as sandbox:
            result = sandbox.run(sh(f"ls -a /w; cat /w/{place.name}/.bashrc; mv /w/{place.name} /w/x; rm -r /w/{place.name}"))
        assert place.name in result.text
        assert "was here" not in result.text
        assert (place / ".bashrc").read_text() == "was here"

    boxes.in_a_host(work)


@pytest.mark.kernel
@pytest.mark.needs("root")
@pytest.mark.parametrize("name", [".bashrc", ".config/fish/config.fish"])
def test_what_another_host_moved_away_is_found_in_every_place(tmp_path: Path, name: str) -> None:
    """Of two hosts in a directory with mounts of its own: the second saw what the first one's guest had made."""

    def work() -> None:
        boxes.own_mounts()
        root = tmp_path / "mounted"
        mounts = [root, root / ".config"]
        for path in mounts:
            path.mkdir(exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "none", str(path)], check=True)
        (root / ".config/fish").mkdir()
        first = protection(root)
        make(root, name)
        second = protection(root)
        settle(root, first)
        make(root, name)
        assert "moved away" in settle(root, second)[name].reason
        assert not (root / name).exists()

    boxes.in_a_host(work)


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_what_lies_on_another_mount_in_the_root_stays_on_that(tmp_path: Path) -> None:
    def work() -> None:
        boxes.own_mounts()
        make(tmp_path, "w/.config/")
        subprocess.run(["mount", "-t", "tmpfs", "none", str(tmp_path / "w/.config")], check=True)
        before = protection(tmp_path / "w")
        make(tmp_path, "w/.config/fish/config.fish")
        found = settle(tmp_path / "w", before)
        moved = Path(found[".config/fish/config.fish"].arguments)
        assert moved.read_text() == "was here"
        assert not (tmp_path / "w/.config/fish/config.fish").exists()

    boxes.in_a_host(work)


def test_a_plain_user_moves_what_the_guest_shut() -> None:
    def work() -> None:
        boxes.become_plain()
        top = Path(f"/tmp/quarantine-{os.getpid()}")
        make(top, "w/.git/config")
        root = top / "w"
        before = protection(root)
        make(root, ".git/hooks/evil", ".vscode/x", ".config/fish/config.fish")
        for name in (".vscode", ".git/hooks", ".config/fish", ".git", ".config"):
            (root / name).chmod(0)
        try:
            with opened(root) as fd:
                root.chmod(0)
                found = quarantine(fd, before, Policy.strict())
            assert {one.name for one in found} == {
                f"/workspace/{name}" for name in (".git/hooks", ".vscode", ".config/fish/config.fish")
            }
            assert all(os.path.lexists(one.arguments) for one in found)
        finally:
            subprocess.run(["chmod", "-R", "u+rwx", str(top)], check=True)
            subprocess.run(["rm", "-r", str(top)], check=True)

    boxes.in_a_host(work)


def test_a_umask_of_the_hosts_does_not_shut_the_place() -> None:
    def work() -> None:
        boxes.become_plain()
        top = Path(f"/tmp/quarantine-umask-{os.getpid()}")
        make(top, "w/file")
        try:
            before = protection(top / "w")
            make(top, "w/.git/hooks/evil", "w/.bashrc")
            os.umask(0o777)
            found = settle(top / "w", before)
            os.umask(0o022)
            assert set(found) == {".git/hooks", ".bashrc"}
            (place,) = places(top / "w")
            assert {stat.S_IMODE(path.stat().st_mode) for path in (place, place.parent, place / ".git")} == {0o700}
        finally:
            os.umask(0o022)
            subprocess.run(["rm", "-r", str(top)], check=True)

    boxes.in_a_host(work)


def test_a_plain_user_without_the_directory_above_keeps_it_in_the_root(tmp_path: Path) -> None:
    top = Path(f"/tmp/quarantine-above-{os.getpid()}")
    make(top, "w/")
    if os.geteuid() == 0:
        os.chown(top / "w", boxes.PLAIN_USER, boxes.PLAIN_USER)
    top.chmod(0o555)

    def work() -> None:
        boxes.become_plain()
        before = protection(top / "w")
        make(top, "w/.bashrc")
        found = settle(top / "w", before)
        (place,) = [path for path in (top / "w").iterdir() if path.name.startswith(QUARANTINE)]
        assert found[".bashrc"].arguments == str(place / ".bashrc")
        assert stat.S_IMODE(place.stat().st_mode) == 0o700

    try:
        boxes.in_a_host(work)
    finally:
        top.chmod(0o755)
        subprocess.run(["rm", "-r", str(top)], check=True)


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_what_changed_owners_for_the_run_is_the_callers(root: Path) -> None:
    before = protection(root)
    make(root, ".git/hooks/evil")
    for path in (root / ".git/hooks", root / ".git/hooks/evil"):
        os.chown(path, 4321, 4321)
    settle(root, before, handed=Handed((0, 0), (4321, 4321)))
    (place,) = places(root)
    assert {path.stat().st_uid for path in place.rglob("*")} == {0}
