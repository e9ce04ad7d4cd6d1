"""Looking about on the host for a plan: what the box's own places are made from, and where a root can be mounted."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from sandbox_native import Policy, PolicyError, ReadPolicy, hosttree
from sandbox_native.view import masked_paths


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
        hosttree.read_tree(Policy.strict(readable=[tmp_path / "link"]))
    assert caught.value.field == "Policy.readable[0]"
    assert caught.value.remedy


def test_a_place_beneath_a_read_only_directory_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(PolicyError, match="/usr has no such place"):
        hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/usr/no-such-place")]))
    assert hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/usr/share")])).shown
    assert hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/mnt/a"), (tmp_path, "/mnt/a/there")])).shown
    with pytest.raises(PolicyError, match="/mnt/a has no such place"):
        hosttree.read_tree(Policy.strict(readable=[(tmp_path, "/mnt/a"), (tmp_path, "/mnt/a/absent")]))


def test_what_is_hidden_has_any_place_that_is_shown_beneath_it(tmp_path: Path) -> None:
    (tmp_path / "outer" / "hidden").mkdir(parents=True)
    (tmp_path / "inner").mkdir()
    readable = [(tmp_path / "outer", "/mnt/a"), (tmp_path / "inner", "/mnt/a/hidden/new")]
    assert hosttree.read_tree(Policy.strict(readable=readable, hidden=["/mnt/a/hidden"])).shown
    with pytest.raises(PolicyError, match="/mnt/a has no such place"):
        hosttree.read_tree(Policy.strict(readable=readable))


def test_at_the_top_of_the_whole_host_there_is_room(tmp_path: Path) -> None:
    hosttree.read_tree(Policy.strict(read=ReadPolicy.HOST, readable=[(tmp_path, "/no-such-place")]))
    with pytest.raises(PolicyError, match="/ has no such place"):
        hosttree.read_tree(Policy.strict(read=ReadPolicy.HOST, readable=[(tmp_path, "/mnt/no-such-place")]))


def test_only_what_everybody_may_read_is_copied() -> None:
    tree = hosttree.read_tree(Policy.strict())
    assert tree.files
    assert "/usr" in tree.directories
    assert not {"/etc/shadow", "/etc/passwd"} & set(tree.files)
    assert tree.proc <= set(masked_paths())
