"""A PipeEnd is the pipe that it was made for: a job that waits for its turn gets nothing else by the number, should the caller
have closed its end too early."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest
from running import sh

from sandbox_native import (
    Budget,
    Job,
    PipeEnd,
    PolicyError,
    Result,
    Sandbox,
    SandboxError,
    SandboxExecutor,
    SetupError,
    pipe_end,
)

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
Field = Literal["stdin", "stdout"]
Close = Callable[[], object]


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


@contextmanager
def held_up() -> Iterator[tuple[int, Close]]:
    """The stdin of a guest that keeps its place until it is let go."""
    ours, theirs = os.pipe()
    with open(ours, "rb"), open(theirs, "wb") as held:
        yield ours, held.close


def in_executor(box: Sandbox, job: Job, close: Close) -> Result:
    with SandboxExecutor(box, 1) as executor, held_up() as (stdin, let_go):
        executor.submit(["/bin/cat"], stdin=stdin)
        future = executor.submit(job)
        close()
        let_go()
        return future.result()


def in_map(box: Sandbox, job: Job, close: Close) -> Result:
    with held_up() as (stdin, let_go):

        def jobs() -> Iterator[Job]:
            yield from (Job(argv=["/bin/cat"], stdin=stdin), Job(argv=["/bin/cat"], stdin=stdin), job)
            close()
            let_go()

        *_, outcome = box.map(jobs(), concurrency=2)
    if isinstance(outcome, SandboxError):
        raise outcome
    return outcome


def in_event_loop(box: Sandbox, job: Job, close: Close) -> Result:
    async def closed_meanwhile() -> Result:
        run = asyncio.ensure_future(box.run_async(job.argv, **job.options()))
        await asyncio.sleep(0)  # it waits for its turn
        close()
        return await run

    return asyncio.run(closed_meanwhile())


def in_budget(_: Sandbox, job: Job, close: Close) -> Result:
    budget = Budget(cpu=1)
    with Sandbox(budget=budget) as box, ThreadPoolExecutor(1) as pool, held_up() as (stdin, let_go):
        with box.spawn(["/bin/cat"], stdin=stdin) as first:
            waiting = pool.submit(box.run, job.argv, **job.options())
            while not budget._waiting:
                assert not waiting.done()
            close()
            let_go()
            first.wait()
        return waiting.result()


def closed(fd: int, tmp_path: Path) -> None:
    os.close(fd)


def directory(fd: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    other = os.open(tmp_path, os.O_RDONLY)
    os.dup2(other, fd)
    os.close(other)


def another_pipe(fd: int, tmp_path: Path) -> None:
    """Of which the number is the same end."""
    ends = os.pipe()
    os.dup2(ends[fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY], fd)
    for end in ends:
        os.close(end)


WAYS = [in_executor, in_map, in_event_loop, in_budget]


@pytest.mark.parametrize("change", [closed, directory, another_pipe])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("field", ["stdin", "stdout"])
def test_what_has_the_number_when_the_run_begins_is_refused(
    box: Sandbox,
    tmp_path: Path,
    field: Field,
    way: Callable[[Sandbox, Job, Close], Result],
    change: Callable[[int, Path], None],
) -> None:
    box.run(["/bin/true"])
    ends = os.pipe()
    end = ends[field == "stdout"]
    job = Job(argv=sh("echo hello >&2"), **{"stdin": b"", field: PipeEnd(end)})  # type: ignore[arg-type]
    before = os.listdir("/proc/self/fd")
    with pytest.raises(PolicyError, match=f"{field}={end}: .*keep it open until the run has begun"):
        way(box, job, lambda: change(end, tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o700
    assert len(os.listdir("/proc/self/fd")) <= len(before)
    os.close(ends[field != "stdout"])
    if change is not closed:
        os.close(end)


@pytest.mark.parametrize("way", WAYS)
def test_an_end_that_is_kept_open_is_the_guests(box: Sandbox, way: Callable[[Sandbox, Job, Close], Result]) -> None:
    ours, theirs = os.pipe()
    with open(ours, "rb") as reader:
        result = way(box, Job(argv=sh("echo hello"), stdin=b"", stdout=PipeEnd(theirs)), lambda: None)
        os.close(theirs)
        assert (result.stdout, reader.read()) == (b"", b"hello\n")


def test_a_lock_on_the_file_that_has_the_number_now_stays_the_hosts(box: Sandbox, tmp_path: Path) -> None:
    """Whoever closes any descriptor of a file gives up all locks of its process on it."""
    ours, theirs = os.pipe()
    end = PipeEnd(theirs)
    with open(tmp_path / "locked", "wb") as file:
        os.dup2(file.fileno(), theirs)
        fcntl.lockf(file, fcntl.LOCK_EX)
        with pytest.raises(PolicyError, match="something else"):
            pipe_end.copy("stdout", end)
        locks = Path("/proc/locks").read_text()
        assert f":{os.fstat(theirs).st_ino} " in locks
    os.close(theirs)
    os.close(ours)


def test_without_a_descriptor_for_the_guests_copy_it_is_a_setup_error(box: Sandbox) -> None:
    ours, theirs = os.pipe()
    end = PipeEnd(theirs)
    pipe_end.check("stdout", end)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        with pytest.raises(SetupError) as caught:
            pipe_end.copy("stdout", end)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(theirs)
        os.close(ours)
    assert (caught.value.stage, caught.value.errno, caught.value.item) == ("stdio", errno.EMFILE, "stdout")
