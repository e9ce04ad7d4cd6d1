"""files= and collect=: what is placed in a box and what comes back, whatever the guest leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from running import sh

from sandbox_native import Limits, Sandbox

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox() as made:
        yield made


def test_files_are_placed_with_their_modes(sandbox: Sandbox) -> None:
    placed = {"in.txt": b"text\n", "sub/dir/run": b"#!/bin/sh\necho ran\n", "empty": b"", "odd": bytes(range(7))}
    result = sandbox.run(sh("stat -c '%n %a %u' in.txt sub sub/dir/run empty odd; cat in.txt; sub/dir/run"), files=placed)
    assert result.text == ("in.txt 644 1000\nsub 755 1000\nsub/dir/run 755 1000\nempty 644 1000\nodd 644 1000\ntext\nran\n")


def test_a_large_file_travels_both_ways(sandbox: Sandbox) -> None:
    data = os.urandom(1 << 20) * 10
    result = sandbox.run(["/bin/cp", "in", "out"], files={"in": data}, collect=["out"])
    assert result.files == {"out": data}


def test_what_a_hostile_guest_leaves_is_refused(sandbox: Sandbox) -> None:
    script = "ln -s /etc/passwd out; mkdir d; ln -s /etc d/e; mkfifo f; truncate -s 60M big; echo ok > fine"
    result = sandbox.run(sh(script), collect=["out", "d/e/hostname", "f", "big", "fine"], limits=Limits(collect_bytes=1 << 20))
    assert result.files == {"fine": b"ok\n"}
    assert set(result.files_refused) == {"out", "d/e", "f", "big"}


def test_files_come_back_whatever_ended_the_run(sandbox: Sandbox) -> None:
    for script in ("echo 1 > out; exit 3", "echo 1 > out; kill -9 $$", "echo 1 > out; sleep 60"):
        result = sandbox.run(sh(script), collect=["out"], limits=Limits(wall_seconds=0.5))
        assert result.files == {"out": b"1\n"}


def test_a_guest_that_hides_its_workspace_hides_nothing(sandbox: Sandbox) -> None:
    result = sandbox.run(sh("echo 1 > out; chmod 0 out; chmod 0 ."), collect=["out"])
    assert "out" in result.files or "out" in result.files_refused


def test_one_run_sees_nothing_of_another(sandbox: Sandbox) -> None:
    sandbox.run(sh("for d in /tmp /home/guest /workspace /dev/shm; do echo secret > $d/left; done"))
    result = sandbox.run(sh("find / -xdev -name left 2>/dev/null; cat /tmp/left /home/guest/left /workspace/left /dev/shm/left"))
    assert b"secret" not in result.stdout
    assert result.stdout == b""


def test_private_directories_are_bounded_in_bytes_and_inodes(sandbox: Sandbox) -> None:
    limits = Limits(tmp_bytes=2 << 20, wall_seconds=60)
    for directory in ("/tmp", "/home/guest", "/workspace"):
        result = sandbox.run(sh(f"head -c 5000000 /dev/zero > {directory}/big; stat -c %s {directory}/big"), limits=limits)
        assert int(result.stdout) <= 2 << 20
        assert b"No space left" in result.stderr
        inodes = sandbox.run(["/usr/bin/stat", "-f", "-c", "%c", directory])
        assert 1000 < int(inodes.stdout) <= 65536
