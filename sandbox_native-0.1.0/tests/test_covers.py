"""What is hidden stays so while a Sandbox is kept, whatever the host does between its runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from running import sh

from sandbox_native import Policy, Sandbox, SetupError, Writes, covers

Change = Callable[[Path], None]


def save(root: Path) -> None:
    (root / "new").write_text("SECRET")
    (root / "new").rename(root / "file")


def write_anew(root: Path) -> None:
    """Often with the same inode."""
    (root / "file").unlink()
    (root / "file").write_text("SECRET")


def make_directory_anew(root: Path) -> None:
    (root / "directory").rename(root / "old")
    (root / "directory").mkdir()
    (root / "directory/key").write_text("SECRET")


def remove_directory_and_make_it(root: Path) -> None:
    (root / "directory/key").unlink()
    (root / "directory").rmdir()
    (root / "directory").mkdir()
    (root / "directory/key").write_text("SECRET")


def make_absent(root: Path) -> None:
    (root / "absent").write_text("SECRET")


def make_what_a_link_leads_to(root: Path) -> None:
    (root / "there").write_text("SECRET")


CHANGES = [save, write_anew, make_directory_anew, remove_directory_and_make_it, make_absent, make_what_a_link_leads_to]
NAMES = ("file", "directory", "absent", "link", "there")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    (tmp_path / "file").write_text("SECRET")
    (tmp_path / "directory").mkdir()
    (tmp_path / "directory/key").write_text("SECRET")
    (tmp_path / "link").symlink_to("there")
    return tmp_path


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_noticed_and_nothing_else_is(root: Path, change: Change) -> None:
    known = [covers.look(f"{root}/{name}") for name in NAMES]
    assert covers.are_same(known)
    with open(root / "file", "a") as file:
        file.write("more")
    assert covers.are_same(known)
    (root / "beside").write_text("")
    (root / "directory/another").write_text("")
    known = [covers.look(f"{root}/{name}") for name in NAMES]
    (root / "directory/another").unlink()
    assert covers.are_same(known)
    change(root)
    assert not covers.are_same(known)


@pytest.mark.kernel
@pytest.mark.needs("userns")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("writes", [None, Writes.DIRECT, Writes.COMMIT])
def test_the_next_run_does_not_see_it(root: Path, change: Change, writes: Writes | None) -> None:
    hidden = [f"/mnt/r/{name}" for name in NAMES]
    shown = {"readable": [(root, "/mnt/r")]} if writes is None else {"writable": [(root, "/mnt/r")], "writes": writes}
    with Sandbox(Policy.strict(hidden=hidden, **shown)) as sandbox:  # type: ignore[arg-type]
        for _ in range(2):
            result = sandbox.run(sh("cd /mnt/r; cat file directory/key absent link there"))
            assert b"SECRET" not in result.stdout
            assert next(one for one in result.enforcement.layers if one.name == "hidden").held
            if not os.path.lexists(root / "changed"):
                change(root)
                (root / "changed").write_text("")


@pytest.mark.kernel
@pytest.mark.needs("userns")
def test_a_run_is_refused_where_it_does_not_stay(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sandbox(Policy.strict(readable=[(root, "/mnt/r")], hidden=["/mnt/r/file"])) as sandbox:
        monkeypatch.setattr(covers, "are_same", lambda known: False)
        with pytest.raises(SetupError, match="run again"):
            sandbox.run(sh("true"))
