"""After thousands of runs, good and failed, a host holds what it held before: descriptors, memory, processes, mounts, groups."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import boxes
import pytest
from boxes import Guests, verbs
from capabilities import own_groups

from sandbox_native import ExecError, Limits, PolicyError, Sandbox, SetupError, UnsupportedError

pytestmark = [pytest.mark.needs("userns"), pytest.mark.slow]
KIB = 1 << 10


@pytest.fixture
def box(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(boxes.strict(guest)) as sandbox:
        yield sandbox


def resident_kib() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // KIB


def slots_groups() -> int:
    parents = {path.parent if path.name == "host" else path for path in own_groups().values()}
    return sum(len(list(path.glob(f"sandbox-native-{os.getpid()}-*/slot-*"))) for path in parents)


def held() -> dict[str, object]:
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
        "mounts": len(Path("/proc/self/mountinfo").read_text().splitlines()),
        "children": Path("/proc/thread-self/children").read_text(),
    }


def flat(work: Callable[[], None], warm_up: int, times: int, kib: int = 512) -> None:
    """Nothing more is held after `times` than after `warm_up`."""
    for _ in range(warm_up):
        work()
    before, memory = held(), resident_kib()
    for _ in range(times):
        work()
    boxes.until(lambda: held() == before, boxes.PATIENCE, f"what is held being {before} again")
    assert resident_kib() - memory < kib


def failing(box: Sandbox, error: type[Exception], argv: list[str], **options: object) -> Callable[[], None]:
    def work() -> None:
        with pytest.raises(error):
            box.run(argv, **options)  # type: ignore[arg-type]

    return work


def test_two_thousand_failing_starts(box: Sandbox) -> None:
    flat(failing(box, ExecError, ["/no/such/program"]), 100, 1900)


def test_failures_of_every_kind(box: Sandbox, tmp_path: Path) -> None:
    kinds = [
        failing(box, ExecError, ["/etc/passwd"]),
        failing(box, ExecError, ["/workspace/bad"], files={"bad": b"#!/no/such/interpreter\n"}),
        failing(box, SetupError, ["/bin/true"], files={"big": bytes(200_000)}, limits=Limits(tmp_bytes=65_536)),
        failing(box, SetupError, ["/bin/true"], cwd="/no/such/directory"),
        failing(box, SetupError, ["/bin/true", "x" * 200_000]),
        failing(box, PolicyError, ["/bin/true"], stdin=str(tmp_path / "missing")),
        failing(box, PolicyError, ["/bin/true"], workspace=str(tmp_path / "missing")),
        failing(box, PolicyError, ["/bin/true\0"]),
    ]

    def all_of_them() -> None:
        for work in kinds:
            work()

    flat(all_of_them, 10, 60)


def test_three_hundred_good_runs(box: Sandbox, tmp_path: Path) -> None:
    def work() -> None:
        box.run(["/bin/true"])
        assert box.run(verbs("write 1 100000 , cat"), stdin=b"x" * 100_000, files={"a": b"1"}, collect=["*"]).files == {"a": b"1"}
        assert box.run(verbs("fork 3 , daemon 9000 , exit 3"), workspace=tmp_path).exit_code == 3

    before = slots_groups()
    flat(work, 20, 100)
    assert slots_groups() <= max(before, 2 * len(set(own_groups().values())) + before)


def test_runs_that_a_limit_ends(box: Sandbox) -> None:
    def work() -> None:
        box.run(verbs("fork 3 , pause"), limits=Limits(wall_seconds=0.005))
        box.run(verbs("eat 40"), limits=Limits(memory_bytes=16 << 20))
        box.run(verbs("flood 1"), limits=Limits(stdout_bytes=100_000, wall_seconds=0.01))

    flat(work, 10, 40)


def test_processes_that_are_started_killed_and_forgotten(box: Sandbox) -> None:
    def work() -> None:
        with box.spawn(verbs("cat")) as process:
            process.stdin.write(b"x")  # type: ignore[union-attr]
            assert process.stdout.read(1) == b"x"
        box.spawn(verbs("pause")).kill()
        box.spawn(verbs("pause")).close()
        with pytest.raises(ExecError):
            box.spawn(["/no/such/program"])
        box.spawn(["/bin/true"], cwd="/no/such/directory").close()

    flat(work, 10, 60)


def test_sandboxes_that_are_made_and_closed() -> None:
    def work() -> None:
        with Sandbox() as fresh:
            assert fresh.run(["/bin/true"]).ok
        with pytest.raises((SetupError, UnsupportedError)):
            Sandbox(cgroup="/no/such/group")

    flat(work, 5, 25)
