"""Looking about on the host: what a policy may show, and an id that is nobody's."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sandbox_native import Policy, PolicyError, hosttree
from sandbox_native.view import masked_paths


def test_a_path_is_looked_at_behind_its_links(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    found = hosttree.look_at(str(tmp_path / "link"), "Policy.readable")
    assert (found.path, found.inode) == (str(tmp_path / "real"), (tmp_path / "real").stat().st_ino)


def test_what_could_be_reached_through_a_read_only_mount_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    directory = os.open(tmp_path, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{directory}/socket")
    os.close(directory)
    for name in ("fifo", "socket"):
        with pytest.raises(PolicyError, match="neither a file nor a directory"):
            hosttree.read_tree(Policy.strict(readable=[tmp_path / name]))


def test_a_dangling_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(PolicyError, match="No such file") as caught:
        hosttree.read_tree(Policy.strict(writable=[tmp_path / "link"]))
    assert caught.value.field == "Policy.writable[0]"
    assert caught.value.remedy


def test_a_place_beneath_a_read_only_directory_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(PolicyError, match="/usr has no such place"):
        hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/usr/no-such-place")]))
    assert hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/usr/share")])).shown
    assert hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/mnt/a"), (tmp_path, "/mnt/a/there")])).shown
    with pytest.raises(PolicyError, match="/mnt/a has no such place"):
        hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/mnt/a"), (tmp_path, "/mnt/a/absent")]))


def test_only_what_everybody_may_read_is_copied() -> None:
    tree = hosttree.read_tree(Policy.strict())
    assert tree.files
    assert "/usr" in tree.directories
    assert not {"/etc/shadow", "/etc/passwd"} & set(tree.files)
    assert tree.proc <= set(masked_paths())


@pytest.fixture
def etc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that name ids, as this test wants them."""
    real = hosttree._taken
    monkeypatch.setattr(hosttree, "_taken", lambda path, column: real(str(tmp_path / Path(path).name), column))
    return tmp_path


def test_the_box_id_is_above_those_of_people_and_containers(etc: Path) -> None:
    assert hosttree.free_id() == 0x70000000 + 1000


def test_an_id_that_is_taken_is_passed_over(etc: Path) -> None:
    first = 0x70000000 + 1000
    (etc / "passwd").write_text(f"root:x:0:0::/:/bin/sh\nodd:x:{first}:5::/:\nbroken line\n")
    (etc / "group").write_text(f"odd:x:{first - 1}:\n")
    (etc / "subuid").write_text(f"user:{first - 12}:11\nuser:100000:65536\n")
    (etc / "subgid").write_text("user:100000:65536\n")
    assert hosttree.free_id() == first - 13


@pytest.mark.parametrize(
    ("maps", "expected"),
    [
        ("0 1000 1\n", None),
        ("0 1000 1\n1 100000 65536\n", 65536),
        ("0 0 4294967295\n", 0x70000000 + 1000),
        ("0 100000 65536\n", 65535),
    ],
)
def test_a_container_with_few_ids(etc: Path, monkeypatch: pytest.MonkeyPatch, maps: str, expected: int | None) -> None:
    (etc / "uid_map").write_text(maps)
    real = hosttree._mapped
    monkeypatch.setattr(hosttree, "_mapped", lambda path: real(str(etc / "uid_map")))
    assert hosttree.free_id() == expected
