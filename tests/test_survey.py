"""One walk over a tree: repositories, sockets, and what it need not look at again."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest

from sandbox_native import survey
from sandbox_native.survey import Bound, Memory, Survey

WIDE = Bound(names=100_000, seconds=30)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def make(*paths: Path) -> None:
    for path in paths:
        path.mkdir(parents=True)


def bind(path: Path) -> None:
    """A socket that nobody listens at."""
    directory = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(f"/proc/self/fd/{directory}/{path.name}")
    os.close(directory)


def test_repositories_are_found_up_to_three_levels_down(tmp_path: Path, root: int) -> None:
    make(tmp_path / ".git", tmp_path / "a/b/c/.git", tmp_path / "a/b/c/d/.git", tmp_path / "x/.git")
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / ".git").write_text("gitdir: ../x/.git/worktrees/w\n")
    for deep in (False, True):
        assert sorted(survey.walk(root, WIDE, deep=deep).repositories) == ["a/b/c", "w", "x"]


def test_bare_repositories_and_submodules_are_told_by_what_is_in_them(tmp_path: Path, root: int) -> None:
    for directory in ("bare.git", ".git", ".git/modules/lib", ".git/modules/vendor/other", "a/b/c/d/deep.git"):
        make(tmp_path / directory / "objects", tmp_path / directory / "refs")
        (tmp_path / directory / "HEAD").touch()
    found = survey.walk(root, WIDE, deep=False)
    assert sorted(found.git_directories) == [".git/modules/lib", ".git/modules/vendor/other", "bare.git"]


def test_a_repository_without_its_head_is_one_still(tmp_path: Path, root: int) -> None:
    """A guest can take HEAD away; the other two are kept in their places."""
    make(tmp_path / "bare.git/objects", tmp_path / "bare.git/refs", tmp_path / "other/objects")
    (tmp_path / "other/HEAD").touch()
    assert survey.walk(root, WIDE, deep=False).git_directories == ("bare.git",)


def test_what_git_keeps_of_worktrees_elsewhere_is_found(tmp_path: Path, root: int) -> None:
    make(tmp_path / "repo/.git/worktrees/one", tmp_path / "repo/.git/worktrees/two/deep")
    make(tmp_path / "a/b/c/.git/worktrees/three", tmp_path / "a/b/c/d/.git/worktrees/too deep")
    expected = ["a/b/c/.git/worktrees/three", "repo/.git/worktrees/one", "repo/.git/worktrees/two"]
    for deep in (False, True):
        assert sorted(survey.walk(root, WIDE, deep=deep).git_directories) == expected


def test_a_root_may_be_a_repository_itself(tmp_path: Path, root: int) -> None:
    make(tmp_path / "objects", tmp_path / "refs")
    (tmp_path / "HEAD").touch()
    assert survey.walk(root, WIDE, deep=False).git_directories == ("",)


def test_sockets_are_found_at_any_depth(tmp_path: Path, root: int) -> None:
    make(tmp_path / "a/b/c/d/e", tmp_path / ".git/objects/aa")
    bind(tmp_path / "a/b/c/d/e/deep")
    bind(tmp_path / "top")
    bind(tmp_path / ".git/objects/aa/hidden")
    (tmp_path / "link").symlink_to("top")
    os.mkfifo(tmp_path / "fifo")
    found = survey.walk(root, WIDE, deep=True)
    assert set(found.sockets) == {"top", "a/b/c/d/e/deep", ".git/objects/aa/hidden"}
    assert found.fifos == ("fifo",)
    assert survey.walk(root, WIDE, deep=True, skip=frozenset(["a/b", ".git"])).sockets == ("top",)
    assert survey.walk(root, WIDE, deep=False).sockets == ()  # of repositories only


def test_no_link_is_followed(tmp_path: Path, root: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    other = tmp_path_factory.mktemp("other")
    make(other / "repo/.git")
    bind(other / "socket")
    (tmp_path / "link").symlink_to(other)
    found = survey.walk(root, WIDE, deep=True)
    assert (found.repositories, found.sockets, found.complete) == ((), (), True)


def test_a_walk_ends_at_its_bound_and_says_so(tmp_path: Path, root: int) -> None:
    make(*(tmp_path / f"d{number}" / "e" for number in range(20)))
    assert not survey.walk(root, Bound(names=30, seconds=30), deep=True).complete
    assert not survey.walk(root, Bound(names=10, seconds=30), deep=True).complete
    assert survey.walk(root, Bound(names=40, seconds=30), deep=True).complete
    assert not survey.walk(root, Bound(names=1000, seconds=0), deep=True).complete
    assert survey.walk(root, Bound(names=1000, seconds=30), deep=True).complete


def test_a_directory_without_end_is_not_taken_for_whole(tmp_path: Path, root: int) -> None:
    for number in range(50):
        (tmp_path / f"{number}").touch()
    assert not survey.walk(root, Bound(names=40, seconds=30), deep=True).complete
    assert survey.walk(root, Bound(names=50, seconds=30), deep=True).complete
    memory = Memory()
    time.sleep(0.1)  # a time stamp of this very moment is not trusted anyway
    for _ in range(2):
        assert not survey.walk(root, Bound(names=10, seconds=30), deep=True, memory=memory).complete


def test_with_a_memory_each_walk_comes_further(tmp_path: Path, root: int) -> None:
    for number in range(10):
        make(*(tmp_path / f"d{number}" / f"e{each}" for each in range(10)))
    time.sleep(0.1)  # a time stamp of this very moment is not trusted yet
    memory = Memory()
    ends = [survey.walk(root, Bound(names=40, seconds=30), deep=True, memory=memory).complete for _ in range(4)]
    assert ends == [False, False, True, True]


def test_shallow_directories_come_first(tmp_path: Path, root: int) -> None:
    make(*(tmp_path / "a" / f"{number}" / "x" for number in range(50)), tmp_path / "z/.git")
    assert "z" in survey.walk(root, Bound(names=60, seconds=30), deep=True).repositories


def test_what_may_not_be_read_is_named() -> None:
    def work() -> None:
        boxes.become_plain()
        top = Path(f"/tmp/survey-{os.getpid()}")
        make(top / "shut/.git", top / "no-entry/.git", top / "open")
        (top / "shut").chmod(0)
        (top / "no-entry").chmod(0o444)
        fd = os.open(top, os.O_RDONLY)
        try:
            found = survey.walk(fd, WIDE, deep=True)
            assert sorted(found.unreadable) == ["no-entry", "shut"]
        finally:
            os.close(fd)
            for name in ("shut", "no-entry"):
                (top / name).chmod(0o755)
                (top / name / ".git").rmdir()
                (top / name).rmdir()
            (top / "open").rmdir()
            top.rmdir()

    boxes.in_a_host(work)


# ---- what is remembered ----


def aged(root: int, memory: Memory) -> Survey:
    """A walk whose time stamps are old enough to be trusted by the next one."""
    deadline = time.monotonic() + 60
    while True:
        found = survey.walk(root, WIDE, deep=True, memory=memory)
        if memory.survey is not None and all(one.identity[2] > 0 for one in memory.directories.values()):
            return found
        assert time.monotonic() < deadline


def test_what_has_not_changed_is_not_read_again(tmp_path: Path, root: int, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path / "a/b", tmp_path / "r/.git")
    memory = Memory()
    first = aged(root, memory)
    monkeypatch.setattr(os, "scandir", lambda fd: pytest.fail("a directory was read again"))
    assert survey.walk(root, WIDE, deep=True, memory=memory) is first


@pytest.mark.parametrize("change", ["socket", "repository", "gone", "replaced", "deep"])
def test_what_has_changed_is_seen(tmp_path: Path, root: int, change: str) -> None:
    make(tmp_path / "a/b", tmp_path / "r/.git")
    memory = Memory()
    assert aged(root, memory).repositories == ("r",)
    if change == "socket":
        bind(tmp_path / "a/b/s")
    elif change == "repository":
        make(tmp_path / "a/.git")
    elif change == "deep":
        make(tmp_path / "a/b/c/d/e")
        bind(tmp_path / "a/b/c/d/e/s")
    else:
        (tmp_path / "r").rename(tmp_path / "moved")
        if change == "replaced":
            (tmp_path / "r").mkdir()
    found = survey.walk(root, WIDE, deep=True, memory=memory)
    expected = {
        "socket": (("r",), ("a/b/s",)),
        "repository": (("a", "r"), ()),
        "deep": (("r",), ("a/b/c/d/e/s",)),
        "gone": (("moved",), ()),
        "replaced": (("moved",), ()),
    }[change]
    assert (tuple(sorted(found.repositories)), found.sockets) == expected


def test_a_directory_that_has_just_changed_is_read_again(tmp_path: Path, root: int) -> None:
    """Within one step of the kernel's clock a second change leaves the same time."""
    make(tmp_path / "a")
    memory = Memory()
    survey.walk(root, WIDE, deep=True, memory=memory)
    status = (tmp_path / "a").stat()
    assert memory.directories["a"].identity == (status.st_dev, status.st_ino, -1)


def test_a_walk_that_did_not_end_is_not_taken_for_whole(tmp_path: Path, root: int) -> None:
    make(*(tmp_path / f"d{number}" for number in range(20)))
    bind(tmp_path / "d19" / "s")
    memory = Memory()
    assert not survey.walk(root, Bound(names=20, seconds=30), deep=True, memory=memory).complete
    assert survey.walk(root, WIDE, deep=True, memory=memory).sockets == ("d19/s",)
