"""Read-only overlays of host directories, as the template makes them (csrc/launcher/overlay.c)."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import pytest
from layers import (
    READ_ONLY,
    Host,
    as_host,
    engine,
    hosts,
    plan,
    running,
    template_refused,
)
from running import PYTHON, sh
from trees import CONNECT, listening, state

from sandbox_native._native import lib
from sandbox_native.plan import Op

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

host = hosts("overlay")


def shown(source: Path, target: str = "/shown", kind: int = lib.SN_OP_OVERLAY, **more: int) -> Op:
    return Op(kind, target, more.pop("flags", READ_ONLY), source=str(source), **more)


def test_a_socket_of_the_hosts_cannot_be_connected_to(host: Host) -> None:
    def work(directory: Path) -> None:
        with listening(directory / "socket"):
            ops = shown(directory), shown(directory, "/bound", lib.SN_OP_BIND)
            with engine(plan(ops)) as used:
                with running(used, [PYTHON, "-c", CONNECT, "/shown/socket"]) as ran:
                    assert ran.lines == [str(errno.ECONNREFUSED)], ran.stderr
                with running(used, [PYTHON, "-c", CONNECT, "/bound/socket"]) as ran:
                    assert ran.lines == ["0"], "which is what the overlay is for"

    host(work)


def test_a_named_pipe_of_the_hosts_cannot_be_reached_either(host: Host) -> None:
    code = "import os, sys\nprint(os.write(os.open(sys.argv[1], os.O_WRONLY | os.O_NONBLOCK), b'x'))"

    def work(directory: Path) -> None:
        pipe = directory / "pipe"
        os.mkfifo(pipe)
        pipe.chmod(0o666)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        ops = shown(directory), shown(directory, "/bound", lib.SN_OP_BIND)
        with engine(plan(ops)) as used:
            with running(used, [PYTHON, "-c", code, "/shown/pipe"]) as ran:
                assert "No such device or address" in ran.stderr, "nobody reads there"
            with running(used, [PYTHON, "-c", code, "/bound/pipe"]) as ran:
                assert ran.lines == ["1"], "which is what the overlay is for"
        os.close(reader)

    host(work)


def test_what_is_there_is_shown_and_cannot_be_changed(host: Host) -> None:
    def work(directory: Path) -> None:
        (directory / "file").write_text("content")
        (directory / "link").symlink_to("file")
        (directory / "own").mkdir(mode=0o700)
        (directory / "own" / "secret").write_text("of root's")
        before = state(directory)
        script = "cd /shown; cat file link; echo x > file; echo x > new; rm file; mkdir d; chmod 777 file; cat own/secret"
        with engine(plan([shown(directory)])) as used, running(used, sh(script)) as ran:
            assert ran.stdout == "contentcontent" + ("" if os.geteuid() == 0 else "of root's")
            assert ran.stderr.count("Read-only file system") == 5, ran.stderr
        assert state(directory) == before

    host(work)


@pytest.mark.parametrize("name", ["a:b", "a,b", "a\\b", "a b", "a\nb", "a'\"$;", "é", ":", "lowerdir=x,", "\udcff"])
def test_any_name_can_be_shown(host: Host, name: str) -> None:
    def work(directory: Path) -> None:
        source = directory / name
        source.mkdir()
        (source / "file").write_text("content")
        status = source.stat()
        op = shown(source, f"/shown/{name}", device=status.st_dev, inode=status.st_ino)
        with engine(plan([op])) as used, running(used, ["/bin/cat", f"/shown/{name}/file"]) as ran:
            assert ran.stdout == "content", ran.stderr

    host(work)


def test_the_guest_does_not_learn_where_it_lies_on_the_host(host: Host) -> None:
    def work(directory: Path) -> None:
        with engine(plan([shown(directory)])) as used, running(used, ["/bin/cat", "/proc/self/mountinfo"]) as ran:
            (line,) = [line for line in ran.lines if " /shown " in line]
            assert "overlay" in line and directory.name not in ran.stdout

    host(work)


@pytest.mark.needs("root")
def test_submounts_are_not_shown() -> None:
    def work(directory: Path) -> None:
        below = directory / "below"
        below.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(below)], check=True)
        try:
            with listening(below / "socket"):
                ops = shown(directory), shown(directory, "/bound", lib.SN_OP_BIND), shown(below, "/shown/below")
                with engine(plan(ops[:2])) as used, running(used, sh("ls /shown/below; ls /bound/below")) as ran:
                    assert ran.lines == ["socket"]
                with engine(plan(ops)) as used:
                    with running(used, ["/bin/ls", "/shown/below"]) as ran:
                        assert ran.lines == ["socket"], "an overlay of its own shows it"
                    with running(used, [PYTHON, "-c", CONNECT, "/shown/below/socket"]) as ran:
                        assert ran.lines == [str(errno.ECONNREFUSED)]
        finally:
            subprocess.run(["umount", str(below)], check=True)

    as_host(False, work)


def test_another_directory_than_the_one_that_was_looked_at_is_refused(host: Host) -> None:
    def work(directory: Path) -> None:
        status = directory.stat()
        stale = lib.SN_STAGE_OVERLAY, errno.ESTALE, "/shown"
        assert template_refused(shown(directory, device=status.st_dev, inode=status.st_ino + 1)) == stale
        assert template_refused(shown(directory, device=status.st_dev + 1, inode=status.st_ino)) == stale

    host(work)


def test_what_is_absent_is_refused_or_skipped(host: Host) -> None:
    def work(directory: Path) -> None:
        absent = directory / "absent"
        assert template_refused(shown(absent)) == (lib.SN_STAGE_OVERLAY, errno.ENOENT, "/shown")
        with engine(plan([shown(absent, flags=READ_ONLY | lib.SN_OP_OPTIONAL)])) as used:
            with running(used, sh("test -e /shown")) as ran:
                assert ran.exit_code == 1

    host(work)


def test_a_file_is_refused(host: Host) -> None:
    def work(directory: Path) -> None:
        (directory / "file").touch()
        assert template_refused(shown(directory / "file")) == (lib.SN_STAGE_OVERLAY, errno.ENOTDIR, "/shown")

    host(work)


def test_something_else_there_is_refused(host: Host) -> None:
    def work(directory: Path) -> None:
        ops = Op(lib.SN_OP_FILE, "/shown", mode=0o644), shown(directory)
        assert template_refused(*ops) == (lib.SN_STAGE_OVERLAY, errno.EINVAL, "/shown")

    host(work)
