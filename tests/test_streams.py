"""Writer and Reader: the guest's streams as files."""

from __future__ import annotations

import io
import select
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from running import nap, sh

from sandbox_native import Limits, Sandbox, Status
from sandbox_native.backends.box import LinuxBox

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
LONG = Limits(wall_seconds=60)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(limits=LONG) as made:
        yield made


def test_lines_end_where_the_guest_ended_them(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("printf 'a\\n\\nlong'; sleep 0.05; printf 'er\\nlast'")) as process:
        assert list(process.stdout) == [b"a\n", b"\n", b"longer\n", b"last"]


def test_a_read_stream_passes_more_than_its_bound(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("head -c 3000000 /dev/zero"), limits=Limits(stdout_bytes=1 << 16, wall_seconds=60)) as process:
        assert sum(map(len, iter(lambda: process.stdout.read1(100000), b""))) == 3000000
        result = process.wait()
    assert (result.stdout_total, result.stdout_truncated) == (3000000, False)


def test_reading_without_waiting(sandbox: Sandbox) -> None:
    with sandbox.spawn(["/bin/cat"]) as process:
        assert process.stdout.read_nowait() is None
        assert process.stdin is not None
        process.stdin.write(b"hi")
        while (data := process.stdout.read_nowait()) is None:
            select.select([process], [], [])
        assert data == b"hi"
        process.stdin.close()
        while (data := process.stdout.read_nowait()) is None:
            select.select([process], [], [])
        assert data == b""


def test_writing_more_than_the_guest_reads_is_a_broken_pipe(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh(f"exec <&-; echo closed; sleep {nap(310)}")) as process:
        process.stdout.readline()
        assert process.stdin is not None
        with pytest.raises(BrokenPipeError):
            process.stdin.write(bytes(1 << 20))
        process.kill()
        process.wait()
        with pytest.raises(BrokenPipeError):
            process.stdin.write(b"x")
        process.stdin.close()
        with pytest.raises(ValueError, match="closed"):
            process.stdin.write(b"x")


def test_a_write_larger_than_the_pipe_serves_the_outputs_meanwhile(sandbox: Sandbox) -> None:
    with sandbox.spawn(["/bin/cat"], limits=Limits(stdout_bytes=8 << 20, wall_seconds=60)) as process:
        assert process.stdin is not None
        assert process.stdin.write(bytes(8 << 20)) == 8 << 20
        process.stdin.close()
        assert process.wait().stdout == bytes(8 << 20)


def test_lines_are_not_fetched_one_by_one(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    """seq writes 4 KiB at once, some 700 lines, and each such piece is asked for a few times at most, however they arrive."""
    fetched = []

    def counted(fetch: Callable[..., bytes]) -> Callable[..., bytes]:
        def fetch_and_count(box: LinuxBox, *arguments: Any) -> bytes:
            data = fetch(box, *arguments)
            fetched.append(len(data))
            return data

        return fetch_and_count

    for name in ("peek", "take"):
        monkeypatch.setattr(LinuxBox, name, counted(getattr(LinuxBox, name)))
    with sandbox.spawn(["/usr/bin/seq", "100000"]) as process:
        lines = list(process.stdout)
    assert lines == [b"%d\n" % number for number in range(1, 100_001)]
    assert sum(1 for size in fetched if size) < 5 * sum(map(len, lines)) / 4096


def test_lines_of_a_result_are_those_nobody_took(sandbox: Sandbox) -> None:
    text = b"".join(b"line %d\n" % number for number in range(50000))
    for taken in (1, 7, 20000):
        with sandbox.spawn(["/bin/cat"], stdin=text) as process:
            got = b"".join(process.stdout.readline() for _ in range(taken)) + process.stdout.read(3)
            result = process.wait()
            assert got + result.stdout == text
            assert (result.stdout_total, result.stdout_truncated, result.hint) == (len(text), False, None)
            assert list(process.stdout) == result.stdout.splitlines(keepends=True)


def test_lines_longer_than_the_bound_come_whole(sandbox: Sandbox) -> None:
    text = (b"x" * 100_000 + b"\n" + b"y\n") * 20
    with sandbox.spawn(["/bin/cat"], stdin=text, limits=Limits(stdout_bytes=4096, wall_seconds=60)) as process:
        assert list(process.stdout) == text.splitlines(keepends=True)
        assert process.wait().stdout == b""


def test_what_nobody_took_is_within_the_bound(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("yes | head -c 1000000"), limits=Limits(stdout_bytes=8192, wall_seconds=60)) as process:
        assert process.stdout.readline() == b"y\n"
        result = process.wait()
    assert result.status is Status.OK
    assert len(result.stdout) <= 8192
    assert result.hint == "stdout was cut at 8 KiB of 976.6 KiB: raise Limits.stdout_bytes"


def test_writer_is_a_file(sandbox: Sandbox) -> None:
    with sandbox.spawn(["/bin/cat"]) as process:
        assert process.stdin is not None
        with process.stdin as stdin:
            assert (stdin.writable(), stdin.readable(), stdin.seekable(), stdin.closed) == (True, False, False, False)
            stdin.writelines([b"a\n", bytearray(b"b\n")])
            stdin.flush()
            with pytest.raises(TypeError, match="^stdin takes bytes: .encode\\(\\)$"):
                stdin.write("text")  # type: ignore[arg-type]
        assert stdin.closed
        assert process.wait().stdout == b"a\nb\n"


def test_reader_is_a_file(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("seq 5")) as process, process.stdout as stdout:
        assert (stdout.readable(), stdout.writable(), stdout.seekable(), stdout.closed) == (True, False, False, False)
        stdout.flush()
        assert stdout.readlines(3) == [b"1\n", b"2\n"]
        assert stdout.readlines() == [b"3\n", b"4\n", b"5\n"]
        process.wait()


def test_text_can_be_read_and_written_through_the_io_module(sandbox: Sandbox) -> None:
    wrapped: Callable[..., Any] = io.TextIOWrapper
    with sandbox.spawn(["/bin/cat"]) as process:
        with wrapped(process.stdin, encoding="utf-8") as stdin:
            stdin.write("grün\nblau\n")
        with wrapped(process.stdout, encoding="utf-8") as stdout:
            assert list(stdout) == ["grün\n", "blau\n"]


def test_reader_that_is_closed_holds_nothing_up(sandbox: Sandbox) -> None:
    with sandbox.spawn(sh("yes | head -c 1000000"), limits=Limits(stdout_bytes=8192, wall_seconds=60)) as process:
        with process.stdout as stdout:
            assert stdout.readline() == b"y\n"
        with pytest.raises(ValueError, match="stdout is closed"):
            stdout.readline()
        while process.stderr.read():  # which does not make room in stdout
            pass
        assert process.wait().stdout_total == 1000000
