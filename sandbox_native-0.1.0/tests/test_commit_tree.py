"""What is read out of an overlay's upper layer, next to the host's directory: each kind of change, and what is none."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from overlays import Layers, opaque, paths, refused

from sandbox_native.commit import tree
from sandbox_native.commit.listing import Change
from sandbox_native.commit.removal import remove_tree

NOTHING: dict[str, list[str]] = {"added": [], "modified": [], "deleted": []}


@pytest.fixture
def layers(tmp_path: Path) -> Iterator[Layers]:
    yield Layers.beneath(tmp_path)
    above = os.open(tmp_path, os.O_RDONLY)  # pytest's own way of removing it is recursive
    for name in ("host", "changes"):
        remove_tree(above, name)
    os.close(above)


def test_what_is_not_on_the_host_is_added(layers: Layers) -> None:
    layers.write("file", "12345")
    layers.write("new/deep/file", "1")
    (layers.upper / "link").symlink_to("file")
    found = layers.look()
    assert paths(found) == {**NOTHING, "added": ["file", "link", "new", "new/deep", "new/deep/file"]}
    assert found.added[0] == Change(path="file", size=5, kind="file", root="/workspace")
    assert [change.kind for change in found.added] == ["file", "link", "directory", "directory", "file"]


def test_what_differs_in_bytes_or_mode_is_modified(layers: Layers) -> None:
    for name, mode in (("content", 0o644), ("length", 0o644), ("mode", 0o600)):
        layers.host(name, "old")
        layers.write(name, {"content": "new", "length": "longer"}.get(name, "old"), mode)
    assert paths(layers.look()) == {**NOTHING, "modified": ["content", "length", "mode"]}


def test_a_copy_that_differs_in_nothing_is_no_change(layers: Layers) -> None:
    layers.host("touched", "same", 0o640)
    os.utime(layers.write("touched", "same", 0o640), ns=(1, 1))
    (layers.lower / "link").symlink_to("x")
    (layers.upper / "link").symlink_to("x")
    layers.host("dir/file", "1")
    (layers.upper / "dir").mkdir()
    assert paths(layers.look()) == NOTHING


def test_a_link_with_another_text_is_modified(layers: Layers) -> None:
    (layers.lower / "link").symlink_to("one")
    (layers.upper / "link").symlink_to("two")
    assert paths(layers.look()) == {**NOTHING, "modified": ["link"]}


def test_a_removed_name_is_deleted_with_its_size(layers: Layers) -> None:
    layers.host("file", "12345")
    layers.host("dir/one", "12")
    layers.host("dir/deep/two", "345")
    layers.remove("file")
    layers.remove("dir")
    layers.remove("never-there")
    found = layers.look()
    assert paths(found) == {**NOTHING, "deleted": ["dir", "file"]}
    assert [(change.size, change.kind) for change in found.deleted] == [(5, "directory"), (5, "file")]


def test_a_removed_name_may_be_a_marked_file(layers: Layers) -> None:
    layers.host("dir/gone", "1")
    layers.host("dir/kept", "1")
    layers.write("dir/gone")
    os.setxattr(layers.upper / "dir" / "gone", "user.overlay.whiteout", b"y")
    os.setxattr(layers.upper / "dir", "user.overlay.opaque", b"x")
    assert paths(layers.look()) == {**NOTHING, "deleted": ["dir/gone"]}


def test_a_directory_that_was_made_anew_loses_what_was_in_it(layers: Layers) -> None:
    for name in ("gone", "same", "other"):
        layers.host(f"dir/{name}", name)
    opaque(layers.upper / "dir")
    layers.write("dir/same", "same")
    layers.write("dir/other", "changed")
    layers.write("dir/new", "1")
    assert paths(layers.look()) == {"added": ["dir/new"], "modified": ["dir/other"], "deleted": ["dir/gone"]}


def test_what_becomes_another_kind_is_deleted_and_added(layers: Layers) -> None:
    layers.host("dir/file", "123")
    layers.host("file", "12")
    layers.write("dir", "1")
    layers.write("file/inside", "1")
    found = layers.look()
    assert paths(found) == {"added": ["dir", "file", "file/inside"], "modified": [], "deleted": ["dir", "file"]}
    assert [change.size for change in found.deleted] == [3, 2]


def test_a_directory_is_modified_by_mode_and_attributes_alone(layers: Layers) -> None:
    for name in ("mode", "attribute", "entries"):
        layers.host(f"{name}/file", "1")
        (layers.upper / name).mkdir()
    (layers.upper / "mode").chmod(0o700)
    os.setxattr(layers.upper / "attribute", "user.colour", b"red")
    layers.write("entries/new", "1")
    assert paths(layers.look()) == {**NOTHING, "added": ["entries/new"], "modified": ["attribute", "mode"]}


def test_marks_of_the_kernel_are_no_change(layers: Layers) -> None:
    layers.host("dir/file", "1")
    layers.write("dir/file", "1")
    for path in (layers.upper / "dir", layers.upper / "dir" / "file"):
        os.setxattr(path, "user.overlay.origin", b"\0\xfb\x1d")
        os.setxattr(path, "user.overlay.impure", b"y")
    assert paths(layers.look()) == NOTHING


def test_special_files_are_refused(layers: Layers) -> None:
    os.mkfifo(layers.upper / "fifo")
    os.mknod(layers.upper / "socket", stat.S_IFSOCK | 0o600)
    found = layers.look()
    assert refused(found) == {"fifo": "a FIFO", "socket": "a socket"} and paths(found) == NOTHING


@pytest.mark.needs("root")
def test_devices_are_refused(layers: Layers) -> None:
    os.mknod(layers.upper / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(layers.upper / "disk", stat.S_IFBLK | 0o666, os.makedev(0, 0))
    assert refused(layers.look()) == {"null": "a device", "disk": "a device"}


def test_names_that_are_no_text_come_through(layers: Layers) -> None:
    raw = b"\xff\xfe\n\xe4"
    Path(os.fsdecode(bytes(layers.upper) + b"/" + raw)).write_text("1")
    assert paths(layers.look()) == {**NOTHING, "added": [os.fsdecode(raw)]}


def test_a_path_that_no_program_can_name_is_refused(layers: Layers) -> None:
    """The depth costs no recursion and no descriptors, and the rest is listed."""
    layers.write("beside", "1")
    fd = os.open(layers.upper, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=fd)
        above, fd = fd, os.open("d" * 200, os.O_RDONLY, dir_fd=fd)
        os.close(above)
    os.close(fd)
    found = layers.look()
    assert list(refused(found).values()) == [f"its path is longer than {tree.MAX_PATH} bytes"]
    assert "beside" in paths(found)["added"] and len(found.added) == 1 + 20


def test_deep_trees_are_read_with_few_descriptors(layers: Layers) -> None:
    fd = os.open(layers.upper, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=fd)
        above, fd = fd, os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(above)
    os.close(fd)
    assert len(layers.look().added) == 1500


def test_what_is_beyond_the_bound_is_left_out(layers: Layers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "MAX_ENTRIES", 3)
    for name in "abcdef":
        layers.write(name, "1")
    found = layers.look()
    assert paths(found)["added"] == ["a", "b", "c"]
    assert [(denial.name, denial.count) for denial in found.denials()] == [("/workspace/d", 3)]


def test_files_that_the_guest_shut_are_read(layers: Layers) -> None:
    layers.write("shut/dir/file", "1", 0)
    layers.host("file", "1", 0o644)
    layers.write("file", "1", 0)
    for name in ("shut/dir", "shut"):
        (layers.upper / name).chmod(0)
    found = layers.look()
    assert paths(found) == {"added": ["shut", "shut/dir", "shut/dir/file"], "modified": ["file"], "deleted": []}
    assert stat.S_IMODE((layers.upper / "shut").stat().st_mode) == 0
    (layers.upper / "shut").chmod(0o700)
    (layers.upper / "shut" / "dir").chmod(0o700)


@pytest.mark.needs("root")
def test_another_file_system_on_the_host_is_left_alone(layers: Layers, tmp_path: Path) -> None:
    from overlays import in_a_namespace, tmpfs

    (layers.lower / "mount").mkdir()
    layers.write("mount/file", "1")
    layers.write("other", "1")

    def look() -> None:
        tmpfs(layers.lower / "mount")
        found = layers.commit()
        assert refused(found) == {"mount": "another file system is mounted there"}, refused(found)
        assert paths(found) == {**NOTHING, "added": ["other"]}
        assert os.listdir(layers.lower / "mount") == []

    in_a_namespace(look)
