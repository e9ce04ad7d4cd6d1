"""The private directory in which a host remembers what must outlive it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
from hosttrees import kept, opened
from overlays import MS_RDONLY, MS_REMOUNT, Layers, in_a_namespace, tmpfs

from sandbox_native import Policy, PolicyError, Sandbox, SetupError, claims, notes, state
from sandbox_native.hostmounts import Mounts
from sandbox_native.roots import look_at_writable


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(state.VARIABLE, str(tmp_path / "deep" / "state"))
    return tmp_path / "deep" / "state"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "w").mkdir()
    with opened(tmp_path / "w") as fd:
        yield fd


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_each_user_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(state.VARIABLE)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state.path() == "/var/lib/sandbox-native"
    monkeypatch.setattr(os, "geteuid", lambda: boxes.PLAIN_USER)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    assert state.path() == "/home/me/.local/state/sandbox-native"
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    assert state.path() == "/home/me/state/sandbox-native"
    monkeypatch.setenv(state.VARIABLE, "/srv/state")
    assert state.path() == "/srv/state"


@pytest.mark.parametrize("umask", [0o022, 0o777, 0o000])
def test_it_is_the_callers_alone_and_holds_nothing_for_long(tmp_path: Path, top: Path, root: int, umask: int) -> None:
    old = os.umask(umask)
    try:
        assert state.look(root) is None and not top.exists()
        top.parent.mkdir(0o755)
        top.parent.chmod(0o755)
        claim = claims.claim(root, "note-")
        (path,) = kept(tmp_path / "w").values()
        assert (mode(top), mode(path) & 0o577) == (0o700, 0)  # who could read it could keep its lock
        claim.write(b"x" * 100_000)
        assert path.stat().st_size == 100_000
        claim.remove()
        claim.remove()
        assert os.listdir(top) == [] and state.look(root) is None
    finally:
        os.umask(old)


def test_a_directory_that_others_could_write_is_refused(top: Path, root: int) -> None:
    top.parent.mkdir()
    elsewhere = top.parent / "elsewhere"
    elsewhere.mkdir(0o700)
    top.symlink_to("elsewhere")
    with pytest.raises(SetupError, match=f"state failed on '{top}'.*no link"):
        claims.claim(root, "note-")
    top.unlink()
    elsewhere.rename(top)
    for wrong in (0o755, 0o770, 0o701):
        top.chmod(wrong)
        with pytest.raises(SetupError, match=f"state failed on '{top}'.*mode 0700"):
            state.look(root)
    top.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(top, boxes.PLAIN_USER, -1)
        with pytest.raises(SetupError, match="of the caller's own"):
            state.look(root)


def test_where_it_cannot_be_made_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "w").mkdir()
    monkeypatch.setenv(state.VARIABLE, str(tmp_path / "file" / "state"))
    with opened(tmp_path / "w") as fd, pytest.raises(SetupError, match=f"{tmp_path}/file/state.*{state.VARIABLE}"):
        claims.claim(fd, "note-")
    monkeypatch.setenv(state.VARIABLE, "relative")
    with pytest.raises(SetupError, match="relative"):
        state.path()


def test_a_later_directory_with_the_same_number_is_another(tmp_path: Path) -> None:
    seen = set()
    for _ in range(20):
        (tmp_path / "w").mkdir()
        with opened(tmp_path / "w") as fd:
            seen.add(tuple(state.identity(fd)))
            assert state.identity(fd) == state.identity(fd)
        (tmp_path / "w").rmdir()
    assert len(seen) == 20


@pytest.mark.parametrize("where", ["the place itself", "above", "beneath", "not there yet"])
def test_no_guest_writes_there(tmp_path: Path, top: Path, where: str) -> None:
    if where != "not there yet":
        (top / "1-2").mkdir(parents=True, mode=0o700)
        top.chmod(0o700)
    else:
        top.parent.mkdir()
    path = {"the place itself": top, "beneath": top / "1-2"}.get(where, top.parent)
    with pytest.raises(PolicyError, match=f"{top}, where the host keeps what it must not forget.*{state.VARIABLE}"):
        look_at_writable(str(path), "Policy.writable[0]", Mounts.read())
    look_at_writable(str(top.parent), "Policy.writable[0]", Mounts.read(), [str(top)])
    assert top.is_dir()  # what is not there could not be covered


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_nor_is_it_a_workspace(tmp_path: Path, top: Path) -> None:
    top.parent.mkdir()
    with Sandbox() as sandbox:
        with pytest.raises(PolicyError, match="must not forget"):
            sandbox.run(["true"], workspace=tmp_path)
    with Sandbox(Policy.strict(protected=["/workspace/deep/state"])) as sandbox:
        assert b"Read-only" in sandbox.run(["sh", "-c", "touch deep/state/x"], workspace=tmp_path).stderr


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
def test_a_run_that_could_not_be_settled_later_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "w").mkdir()
    monkeypatch.setenv(state.VARIABLE, str(tmp_path / "file" / "state"))
    with Sandbox() as sandbox:
        with pytest.raises(SetupError, match=state.VARIABLE):
            sandbox.run(["touch", "x"], workspace=tmp_path / "w")
        assert sandbox.run(["true"]).ok  # no directory of the host's
    assert os.listdir(tmp_path / "w") == []


@pytest.mark.needs("root")
@pytest.mark.parametrize("how", ["full", "read-only"])
def test_where_it_cannot_be_written_it_is_named_and_the_remedy(
    tmp_path: Path, w: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """Before a run, and where it became so before the commit."""
    layers = Layers.beneath(tmp_path)
    layers.write("file", "1")
    mount = tmp_path / "mount"
    mount.mkdir()
    monkeypatch.setenv(state.VARIABLE, str(mount / "state"))

    def inside() -> None:
        tmpfs(mount, "64k")
        with opened(w) as fd:
            notes.rehearse(fd)
            assert os.listdir(mount / "state") == []
            if how == "read-only":
                tmpfs(mount, "64k", MS_REMOUNT | MS_RDONLY)
            else:
                with pytest.raises(OSError, match="No space"):
                    (mount / "fill").write_bytes(bytes(1 << 17))
            for write in (lambda: notes.rehearse(fd), layers.commit):
                with pytest.raises(SetupError, match=f"^state failed on '{mount}/state/.*{state.VARIABLE}"):
                    write()
        assert not (layers.lower / "file").exists() and set(os.listdir(tmp_path)) == {"w", "host", "changes", "mount"}
        assert os.listdir(mount / "state") == []

    in_a_namespace(inside)
