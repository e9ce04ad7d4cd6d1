"""What a guest made under a denied name is moved to where no guest sees it, and nothing is lost."""

from __future__ import annotations

import os
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hosttrees import make, opened, protection
from running import sh

from sandbox_native import Denial, Policy, Sandbox, Writes
from sandbox_native.mandatory import QUARANTINE
from sandbox_native.protection import Protection
from sandbox_native.quarantine import judge, quarantine
from sandbox_native.snapshots import State


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def settle(root: Path, before: Protection, policy: Policy | None = None, **options: Any) -> dict[str, Denial]:
    with opened(root) as fd:
        found = quarantine(fd, before, policy or Policy.strict(), **options)
    assert {one.kind for one in found} <= {"quarantine"}
    return {one.name.removeprefix("/workspace/"): one for one in found}


def places(root: Path) -> list[Path]:
    return sorted((root.parent / QUARANTINE).iterdir())


def test_nothing_happens_where_nothing_was_made(root: Path) -> None:
    make(root, ".bashrc", ".git/hooks/", "file")
    before = protection(root)
    make(root, "other", ".git/objects/x")
    (root / ".bashrc").write_text("of the same file")
    assert settle(root, before) == {}
    assert not (root.parent / QUARANTINE).exists()


def test_whatever_it_is_it_is_moved_with_all_that_is_in_it(root: Path) -> None:
    before = protection(root)
    make(root, ".bashrc", ".git/hooks/deep/er/file", ".git/HEAD", ".config/fish/config.fish")
    os.mkfifo(root / ".npmrc")
    (root / ".ssh").symlink_to("/etc")
    with opened(root) as fd:
        os.mknod("../socket", stat.S_IFSOCK | 0o600, dir_fd=fd)
        os.rename("../socket", ".pypirc", src_dir_fd=fd, dst_dir_fd=fd)
    found = settle(root, before)
    assert set(found) == {".bashrc", ".git/hooks", ".config/fish/config.fish", ".npmrc", ".ssh", ".pypirc"}
    assert sorted(os.listdir(root)) == [".config", ".git"]
    assert os.listdir(root / ".git") == ["HEAD"]
    (place,) = places(root)
    assert (place / ".git/hooks/deep/er/file").read_text() == "was here"
    assert (place / ".ssh").readlink() == Path("/etc")
    assert stat.S_ISFIFO((place / ".npmrc").stat().st_mode)
    assert stat.S_ISSOCK((place / ".pypirc").stat().st_mode)
    assert found[".bashrc"].arguments == str(place / ".bashrc")
    for directory in (place, place.parent):
        assert (directory.stat().st_uid, stat.S_IMODE(directory.stat().st_mode)) == (os.geteuid(), 0o700)


def test_each_run_has_a_place_of_its_own(root: Path) -> None:
    before = protection(root)
    for text in ("first", "second"):
        (root / ".bashrc").write_text(text)
        settle(root, before)
    assert sorted((place / ".bashrc").read_text() for place in places(root)) == ["first", "second"]


def test_a_link_or_pointer_on_the_way_to_a_denied_name_is_moved_itself(root: Path) -> None:
    before = protection(root)
    make(root, "mine/hooks/evil", "mine/fish/config.fish")
    (root / ".git").write_text("gitdir: mine\n")
    (root / ".config").symlink_to("mine")
    assert set(settle(root, before)) == {".git", ".config"}
    assert os.listdir(root) == ["mine"]


def test_a_link_that_was_there_is_put_back(root: Path) -> None:
    make(root, "dotfiles/bashrc")
    (root / ".bashrc").symlink_to("dotfiles/bashrc")
    (root / ".vscode").symlink_to("nowhere")
    (root / ".idea").symlink_to("dotfiles")
    before = protection(root)
    (root / ".bashrc").unlink()
    (root / ".bashrc").write_text("evil")
    (root / ".vscode").unlink()
    (root / ".idea").unlink()
    (root / ".idea").symlink_to("dotfiles")  # as it was
    found = settle(root, before)
    assert set(found) == {".bashrc", ".vscode"}
    assert [(root / name).readlink() for name in (".bashrc", ".vscode", ".idea")] == [
        Path("dotfiles/bashrc"),
        Path("nowhere"),
        Path("dotfiles"),
    ]
    (place,) = places(root)
    assert (place / ".bashrc").read_text() == "evil"


def test_a_hidden_name_that_the_guest_made_is_moved_too(root: Path) -> None:
    before = protection(root, hidden=("secret",))
    make(root, "secret/file")
    assert set(settle(root, before)) == {"secret"}


def test_a_file_that_the_host_saved_anew_stays_and_is_told(root: Path) -> None:
    make(root, ".git/config", ".git/hooks/")
    before = protection(root)
    (root / "new").write_text("saved by the user")
    (root / "new").rename(root / ".git/config")
    found = settle(root, before)
    assert "replaced from outside" in found[".git/config"].reason
    assert (root / ".git/config").read_text() == "saved by the user"


def test_a_file_that_took_the_place_of_another_guests_is_moved(root: Path) -> None:
    """Of two boxes at work in one directory the first made it, and the second saw it there when it began."""
    first = protection(root)
    make(root, ".bashrc")
    second = protection(root)
    settle(root, first)
    (root / ".bashrc").write_text("of the second guest")
    found = settle(root, second)
    assert "moved away" in found[".bashrc"].reason
    assert not (root / ".bashrc").exists()


def test_a_directory_in_the_place_of_a_guarded_one_is_moved(root: Path) -> None:
    make(root, ".git/hooks/")
    before = protection(root)
    (root / ".git/hooks").rename(root / "old")
    make(root, ".git/hooks/evil")
    assert set(settle(root, before)) == {".git/hooks"}


def directory(inode: int = 1) -> State:
    return State("directory", 1, inode)


FILE, OTHER_FILE, LINK, OTHER_LINK = State("file", 1, 2), State("file", 1, 3), State("link", 1, 4, "a"), State("link", 1, 4, "b")


@pytest.mark.parametrize(
    ("name", "now", "was", "denied", "verdict"),
    [
        ("x", None, None, True, "keep"),
        ("x", None, FILE, True, "keep"),
        ("x", FILE, None, True, "move"),
        ("x", FILE, FILE, True, "keep"),
        ("x", OTHER_FILE, FILE, True, "replaced"),
        ("x", directory(), FILE, True, "move"),
        ("x", FILE, directory(), True, "move"),
        ("x", directory(5), directory(6), True, "move"),
        ("x", LINK, LINK, True, "keep"),
        ("x", OTHER_LINK, LINK, True, "move"),
        ("x", LINK, FILE, True, "move"),
        ("x", directory(), None, False, "keep"),
        ("x", directory(5), directory(6), False, "keep"),
        ("x", LINK, None, False, "move"),
        ("x", OTHER_LINK, LINK, False, "move"),
        ("x", directory(), LINK, False, "move"),
        ("x", FILE, None, False, "keep"),
        (".git", FILE, None, False, "move"),
        (".git", FILE, directory(), False, "move"),
    ],
)
def test_the_verdict_on_one_name(name: str, now: State | None, was: State | None, denied: bool, verdict: str) -> None:
    assert judge(name, now, was, denied=denied) == verdict


# ---- somebody is still at work ----


@contextmanager
def busy(root: Path) -> Iterator[None]:
    """Makes .bashrc and .git/hooks again and again, .git sometimes as a link to the host's /etc or this directory's parent."""
    stop = threading.Event()

    def again(number: int) -> Iterator[Callable[[], object]]:
        yield partial((root / ".bashrc").write_text, "again")
        yield partial(os.makedirs, root / ".git/hooks", exist_ok=True)
        yield partial((root / ".git").rename, root / f"git{number}")
        yield partial((root / ".git").symlink_to, ("/etc", "..")[number % 2])
        yield (root / ".git").unlink

    def work() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            for step in again(number):
                with suppress(OSError):
                    step()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def test_a_guest_at_work_gets_nothing_of_the_hosts_moved(root: Path, tmp_path: Path) -> None:
    before = protection(root)
    make(tmp_path, "hooks/of the host", "config")
    with busy(root):
        for _ in range(30):
            settle(root, before)
            assert (tmp_path / "hooks/of the host").exists()
            assert (tmp_path / "config").exists()
    settle(root, before)
    assert not {".bashrc", ".git"} & set(os.listdir(root)) or (root / ".git").is_dir()


# ---- of a run ----


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_a_run_tells_what_was_moved_and_git_works_on(root: Path) -> None:
    with Sandbox(Policy.strict()) as sandbox:
        script = "git init -q . && echo 1 > a && git add a && git -c user.name=a -c user.email=a@b commit -qm 1; echo > .mcp.json"
        result = sandbox.run(sh(script), workspace=root)
        assert result.ok, result.stderr
        told = {one.name for one in result.denials}
        assert told >= {f"/workspace/{name}" for name in (".git/config", ".git/hooks", ".mcp.json")}
        assert not (root / ".git/config").exists()
        again = sandbox.run(sh("git log --oneline && git status --short"), workspace=root)
        assert again.ok, again.stderr
        assert again.denials == ()
    assert subprocess.run(["git", "-C", str(root), "log", "--oneline"], check=True, capture_output=True).stdout


@pytest.mark.kernel
@pytest.mark.needs("userns", "idmap")
def test_the_policys_own_roots_are_settled_too(root: Path) -> None:
    make(root, ".bashrc")
    with Sandbox(Policy.strict(writable=[(root, "/mnt/w")])) as sandbox:
        result = sandbox.run(sh("echo evil >> /mnt/w/.bashrc; mkdir /mnt/w/.ssh; echo fine > /mnt/w/file"))
    assert [one.name for one in result.denials] == ["/mnt/w/.ssh"]
    assert (root / ".bashrc").read_text() == "was here"
    assert sorted(os.listdir(root)) == [".bashrc", "file"]


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_a_commit_has_nothing_to_move(root: Path, needs: Any) -> None:
    needs("overlay")
    with Sandbox(Policy.strict(writes=Writes.COMMIT)) as sandbox:
        result = sandbox.run(sh("echo evil > .bashrc; echo fine > file"), workspace=root)
    assert {one.kind for one in result.denials} == {"commit"}
    assert os.listdir(root) == ["file"]
    assert not (root.parent / QUARANTINE).exists()
