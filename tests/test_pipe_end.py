"""PipeEnd: two guests joined by a pipe of the kernel's; what is taken for one, what ends are whose, and what a guest gains."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from running import PYTHON, sh

from sandbox_native import PipeEnd, PolicyError, Sandbox, Status


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


class Pipe:
    """Two ends, each closed once."""

    def __init__(self) -> None:
        self.read_fd, self.write_fd = os.pipe()
        self._open = {self.read_fd, self.write_fd}

    def close(self, fd: int) -> None:
        if fd in self._open:
            self._open.remove(fd)
            os.close(fd)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close(made.read_fd)
    made.close(made.write_fd)


def test_what_one_guest_writes_another_reads_and_nothing_of_it_comes_by_the_host(box: Sandbox, pipe: Pipe) -> None:
    size = 300_000  # more than a pipe holds
    with (
        box.spawn(["/usr/bin/wc", "-c"], stdin=PipeEnd(pipe.read_fd)) as reader,
        box.spawn(sh(f"head -c {size} /dev/zero; echo told >&2"), stdin=b"", stdout=PipeEnd(pipe.write_fd)) as writer,
    ):
        pipe.close(pipe.read_fd)
        pipe.close(pipe.write_fd)
        wrote, read = writer.wait(), reader.wait()
    assert (wrote.status, wrote.stdout, wrote.stdout_total, wrote.stderr) == (Status.OK, b"", 0, b"told\n")
    assert read.stdout.split() == [str(size).encode()]


def test_the_end_of_a_guest_is_the_end_of_its_pipe_once_the_caller_has_closed_its_copy(box: Sandbox, pipe: Pipe) -> None:
    poller = select.poll()
    poller.register(pipe.read_fd, select.POLLIN)
    box.run(["/bin/true"], stdout=PipeEnd(pipe.write_fd))
    assert poller.poll(0) == []  # the caller's own copy, which stays open
    pipe.close(pipe.write_fd)
    assert poller.poll(0) == [(pipe.read_fd, select.POLLHUP)]


def test_a_guest_without_reader_gets_sigpipe(box: Sandbox, pipe: Pipe) -> None:
    pipe.close(pipe.read_fd)
    result = box.run(["/usr/bin/yes"], stdout=PipeEnd(pipe.write_fd))
    assert (result.status, result.signal) == (Status.SIGNALED, 13)


def test_merged_output_goes_to_the_pipe_too(box: Sandbox, pipe: Pipe) -> None:
    result = box.run(sh("echo out; echo err >&2"), stdout=PipeEnd(pipe.write_fd), merge_stderr=True)
    assert (result.stdout, result.stderr, os.read(pipe.read_fd, 100)) == (b"", b"", b"out\nerr\n")


def test_a_stream_that_went_elsewhere_is_at_its_end(box: Sandbox, pipe: Pipe) -> None:
    with box.spawn(sh("read line; echo $line"), stdin=PipeEnd(pipe.read_fd), stdout=PipeEnd(pipe.write_fd)) as process:
        assert process.stdin is None
        assert process.stdout.read() == b""
        os.write(pipe.write_fd, b"hello\n")
        assert process.wait().ok


def test_a_guest_finds_nothing_by_its_descriptors_but_the_pipe(box: Sandbox, pipe: Pipe) -> None:
    """It can open the pipe's other end by name: what it reads or writes there is its own."""
    script = """
import os, fcntl
other = os.open("/proc/self/fd/1", os.O_RDONLY)
print("own words", flush=True)
os.write(2, b"%d %s|" % (len(os.listdir("/proc/self/fd")) - 2, os.read(other, 100)))
fcntl.fcntl(1, fcntl.F_SETFL, os.O_NONBLOCK)
for name in ("/", "/.."):
    try:
        os.stat("/proc/self/fd/1" + name)
    except NotADirectoryError:
        os.write(2, b"no way|")
"""
    result = box.run([PYTHON, "-c", script], stdin=b"", stdout=PipeEnd(pipe.write_fd))
    assert result.stderr == b"3 own words\n|no way|no way|", result.stderr
    assert os.get_blocking(pipe.read_fd)  # flags are each open file's own


def test_what_a_guest_shares_with_the_caller_is_its_own_end_alone(box: Sandbox, pipe: Pipe) -> None:
    """Why the caller closes its copy: O_NONBLOCK is the open file's, and there is one for both."""
    script = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETFL, os.O_WRONLY | os.O_NONBLOCK)"
    box.run([PYTHON, "-c", script], stdout=PipeEnd(pipe.write_fd))
    assert not os.get_blocking(pipe.write_fd)
    with pytest.raises(PolicyError, match="does not block"):
        box.run(["/bin/true"], stdout=PipeEnd(pipe.write_fd))


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("file", "not an end of an anonymous pipe"),
        ("fifo", "not an end of an anonymous pipe"),
        ("socket", "not an end of an anonymous pipe"),
        ("null", "not an end of an anonymous pipe"),
        ("wrong end", "not the writing end"),
        ("both ends", "not the writing end"),
        ("closed", "not an open descriptor"),
    ],
)
def test_anything_else_is_refused(box: Sandbox, pipe: Pipe, tmp_path: Path, what: str, reason: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with contextlib.ExitStack() as stack:

        def opened(path: str | Path, flags: int) -> int:
            fd = os.open(path, flags)
            stack.callback(os.close, fd)
            return fd

        ends = socket.socketpair()
        for end in ends:
            stack.enter_context(end)
        fd = {
            "file": lambda: opened(tmp_path / "file", os.O_WRONLY | os.O_CREAT),
            "fifo": lambda: opened(tmp_path / "fifo", os.O_RDWR),
            "socket": ends[0].fileno,
            "null": lambda: opened("/dev/null", os.O_WRONLY),
            "wrong end": lambda: pipe.read_fd,
            "both ends": lambda: opened(f"/proc/self/fd/{pipe.read_fd}", os.O_RDWR),
            "closed": lambda: 999_999,
        }[what]()
        with pytest.raises(PolicyError, match=reason):
            box.run(["/bin/true"], stdout=PipeEnd(fd))


@pytest.mark.parametrize("stdout", [1, True, "file", b""])
def test_only_a_pipe_end_is_one(box: Sandbox, stdout: object) -> None:
    with pytest.raises(PolicyError, match="not a PipeEnd"):
        box.run(["/bin/true"], stdout=stdout)  # type: ignore[arg-type]


def test_the_reading_end_is_for_stdin(box: Sandbox, pipe: Pipe) -> None:
    with pytest.raises(PolicyError, match="not the reading end"):
        box.run(["/bin/true"], stdin=PipeEnd(pipe.write_fd))
