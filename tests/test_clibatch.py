"""The batch command: goes on from where it ended, however that came about, and tells the truth about every line."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boxes
import pytest
from running import nap, sh, sleepers

from sandbox_native import Limits, Policy, clibatch, joblines
from sandbox_native.cli import main
from sandbox_native.clibatch import Batch, run_batch
from sandbox_native.interrupts import Interrupts

pytestmark = pytest.mark.needs("userns")
COMMAND = (sys.executable, "-m", "sandbox_native", "batch")


class Place:
    """A directory with a file of jobs and one of results."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.jobs, self.results = directory, directory / "jobs", directory / "results"

    def write(self, *jobs: dict[str, Any] | str) -> None:
        text = "".join((job if isinstance(job, str) else json.dumps(job)) + "\n" for job in jobs)
        self.jobs.write_text(text, encoding="utf-8")

    def command(self, *options: str) -> list[str]:
        return [*COMMAND, str(self.jobs), "-o", str(self.results), *options]

    def batch(self, *options: str) -> int:
        return main(self.command(*options)[3:])

    def start(self, *options: str, **more: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self.command(*options), stderr=subprocess.PIPE, **more)

    def told(self) -> list[dict[str, Any]]:
        """All lines; each is whole."""
        return [
            json.loads(line) for line in self.results.read_bytes().splitlines(keepends=True) if line.endswith(b"\n") or line[:0]
        ]

    def lines(self) -> int:
        return self.results.read_bytes().count(b"\n") if self.results.exists() else 0

    def ids(self) -> list[Any]:
        return [told["id"] for told in self.told() if "status" in told]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def echo(id: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "argv": ["/bin/echo", "hi"], **more}


def sleep(id: Any, seconds: int) -> dict[str, Any]:
    return {"id": id, "argv": ["/bin/sleep", nap(seconds)], "limits": {"wall_seconds": 600}}


def test_each_line_gets_its_result_and_finished_ids_are_not_run_again(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    ids = [None, True, 1, 1.0, "1", [1], {"a": 1}]
    log = place.directory / "work"
    log.mkdir()
    place.write(*({"id": id, "argv": sh("echo x >> log; exit 3"), "workspace": str(log)} for id in ids))
    assert place.batch("--concurrency", "1") == 0
    assert place.ids() == ids and [told["line"] for told in place.told()] == list(range(1, len(ids) + 1))
    assert {(told["status"], told["exit_code"]) for told in place.told()} == {("nonzero_exit", 3)}
    assert capfd.readouterr().err == f"sandbox-native: {len(ids)} run ({len(ids)} nonzero_exit)\n"
    with place.jobs.open("a", encoding="utf-8") as file:
        file.write(json.dumps(echo("more")))
    assert place.batch() == 0
    assert place.ids() == [*ids, "more"] and (log / "log").read_text() == "x\n" * len(ids)
    assert capfd.readouterr().err == f"sandbox-native: 1 run (1 ok), {len(ids)} finished before\n"


def test_lines_that_are_no_job_are_told_and_tried_again(place: Place) -> None:
    place.write(echo("a"), "no json", {"argv": ["x"]}, echo("b", limits={"x": 1}), {"id": "c", "argv": ["/no/such"]}, echo("a"))
    for _ in range(2):  # what is as wrong as before is not told twice
        assert place.batch("--ordered") == 1
        assert [(told["line"], told.get("id"), "error" in told) for told in place.told()] == [
            (1, "a", False),
            (2, None, True),
            (3, None, True),
            (4, "b", True),
            (5, "c", True),
            (6, None, True),
        ]
        assert ["id" in told for told in place.told()] == [True, False, False, True, True, False]
    place.write(echo("a"), echo("b"), echo("c"))
    assert place.batch() == 0 and sorted(place.ids()) == ["a", "b", "c"]


@pytest.mark.parametrize("order", ["", "--ordered"])
def test_results_come_as_they_end_or_in_the_order_of_the_jobs(place: Place, order: str) -> None:
    gate = place.directory / "gate"
    gate.mkdir()
    wait = {"id": "waits", "argv": sh("until [ -e open ]; do :; done"), "workspace": str(gate), "limits": {"wall_seconds": 600}}
    place.write(wait, {"id": "quick", "argv": sh("touch ran"), "workspace": str(gate)})
    with place.start("--concurrency", "2", "--quiet", *order.split()) as process:
        boxes.until(lambda: (gate / "ran").exists() if order else place.lines() == 1, boxes.PATIENCE, "the quick one's end")
        (gate / "open").touch()
        assert process.wait() == 0
    assert place.ids() == (["waits", "quick"] if order else ["quick", "waits"])


def test_options_are_those_of_run_and_a_jobs_own_come_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = place.directory / "policy.toml"
    policy.write_text('hostname = "named"\n[limits]\nopen_files = 77\n')
    monkeypatch.setenv("TOKEN", "hush")
    script = "hostname; ulimit -n; echo $A $B ${#TOKEN}"
    place.write({"id": 1, "argv": sh(script), "env": {"B": "job"}}, {"id": 2, "argv": ["/bin/sleep", "60"]})
    options = (
        "--policy",
        str(policy),
        "--env",
        "A=batch",
        "--env",
        "B=batch",
        "--secret",
        "TOKEN",
        "--wall",
        "500ms",
        "--pinned",
    )
    assert place.batch(*options, "--ordered") == 0
    first, second = place.told()
    assert first["stdout"] == {"text": "named\n77\nbatch job 4\n"} and second["status"] == "wall_limit"
    assert b"hush" not in place.results.read_bytes()


def test_a_budget_holds_runs_back_and_refuses_what_never_fits(place: Place) -> None:
    place.write(echo(1, limits={"memory_bytes": 64 << 20}), echo(2, limits={"memory_bytes": 256 << 20}))
    assert place.batch("--budget", "128M") == 1
    assert {told["id"]: "error" in told for told in place.told()} == {1: False, 2: True}


@pytest.mark.parametrize("line", ["--", "--concurrency 0", "--budget many", "--policy /no/such", "--wall 0", "--secret NO_SUCH"])
def test_nonsense_is_125_and_writes_nothing(place: Place, line: str, capfd: pytest.CaptureFixture[str]) -> None:
    place.write(echo(1))
    assert place.batch(*line.split()) == 125
    assert capfd.readouterr().err.startswith("sandbox-native: ") and not place.results.exists()


def test_a_file_is_not_jobs_and_results_at_once(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    place.write(echo(1))
    before = place.jobs.read_bytes()
    assert main(["batch", str(place.jobs), "-o", str(place.jobs)]) == 125 and place.jobs.read_bytes() == before
    place.jobs.write_bytes(b"")
    assert main(["batch", str(place.jobs), "-o", str(place.jobs)]) == 125
    assert main(["batch", "/no/such", "-o", str(place.results)]) == 125 and "JOBS" in capfd.readouterr().err


def test_jobs_come_from_standard_input_too(place: Place) -> None:
    command = [*COMMAND, "-", "-o", str(place.results), "--quiet"]
    text = json.dumps(echo(1)).encode() + b"\n" + json.dumps(echo(2)).encode()
    done = subprocess.run(command, input=text, capture_output=True, check=False)
    assert (done.returncode, done.stderr, sorted(place.ids())) == (0, b"", [1, 2])


def test_a_large_file_is_read_only_as_jobs_are_begun(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    ahead, taken = 0, 0

    def read(*given: Any) -> Iterator[joblines.Line]:
        nonlocal taken, ahead
        for line in joblines.read(*given):
            taken += 1
            ahead = max(ahead, taken - place.lines())
            yield line

    monkeypatch.setattr(clibatch, "read", read)
    place.write(*(echo(number) for number in range(60)))
    assert place.batch("--concurrency", "2") == 0
    assert taken == 60 and ahead <= 2 * 2 + 1


def test_without_a_standard_error_it_tells_nothing(place: Place) -> None:
    place.write(echo(1))
    done = subprocess.run(["/bin/sh", "-c", '"$@" 2>&-', "sh", *place.command()], stdout=subprocess.PIPE, check=False)
    assert (done.returncode, done.stdout, place.ids()) == (0, b"", [1])


# ---- how it can end


def test_killed_at_any_moment_it_goes_on_and_no_job_has_two_results(place: Place) -> None:
    place.write(*(echo(number) for number in range(60)))
    for enough in (1, 20, 40):
        with place.start() as process:
            boxes.until(lambda enough=enough: place.lines() >= enough, boxes.PATIENCE, "results")  # type: ignore[misc]
            process.kill()
        with place.results.open("rb+") as file:  # as a kill in the middle of a line leaves it
            file.truncate(place.results.stat().st_size - 100)
    assert place.batch() == 0
    assert Counter(place.ids()) == Counter(range(60)) and len(place.told()) == 60


def test_a_second_batch_on_the_same_results_is_refused_and_the_first_goes_on(place: Place) -> None:
    place.write(echo("first"), sleep("second", 321))
    with place.start() as process:
        boxes.until(lambda: place.lines() == 1 and bool(sleepers(321)), boxes.PATIENCE, "the first result")
        refused = subprocess.run(place.command(), capture_output=True, check=False)
        assert refused.returncode == 125 and b"another batch is at work on it" in refused.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130 and place.ids() == ["first"]


def test_ctrl_c_keeps_what_is_done_and_runs_the_rest_again(place: Place) -> None:
    place.write(echo("done"), sleep("a", 322), sleep("b", 322), *(echo(number) for number in range(9)))
    with place.start("--concurrency", "3") as process:
        boxes.until(lambda: len(sleepers(322)) == 2 and place.lines() == 10, boxes.PATIENCE, "two that sleep")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None and b"interrupted: start it again to go on" in process.stderr.read()
    assert process.returncode == 130 and sleepers(322) == []
    assert Counter(place.ids()) == Counter(["done", *range(9)])
    place.write(echo("done"), echo("a"), echo("b"), *(echo(number) for number in range(9)))
    assert place.batch() == 0 and Counter(place.ids()) == Counter(["done", "a", "b", *range(9)])


def test_a_full_disk_ends_the_batch_with_whole_lines_and_more_room_goes_on(place: Place) -> None:
    place.write(*({"id": number, "argv": ["/usr/bin/head", "-c", "100000", "/dev/zero"]} for number in range(10)))

    def small() -> None:  # more than what the launcher writes
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, resource.RLIM_INFINITY))

    process = place.start(preexec_fn=small)
    with process:
        assert process.stderr is not None and b"cannot be written" in process.stderr.read()
    assert process.returncode == 125 and 0 < place.lines() < 10
    assert len(place.told()) == place.lines()
    assert place.batch() == 0 and Counter(place.ids()) == Counter(range(10))


def test_a_ctrl_c_while_a_result_is_written_waits_for_it() -> None:
    given = []

    def told() -> Iterator[int]:
        try:
            yield 1
            yield 2
        except KeyboardInterrupt:
            yield 3  # what was done meanwhile
            raise

    def work() -> None:
        outcomes: Any = told()
        with pytest.raises(KeyboardInterrupt), Interrupts() as interrupts:
            while (got := interrupts.next_of(outcomes)) is not None:
                given.append(got)
                if got == 1:  # type: ignore[comparison-overlap]
                    signal.raise_signal(signal.SIGINT)
                    given.append("written")
        assert given == [1, "written", 3]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    boxes.in_a_host(work)


def test_in_another_thread_signals_are_left_alone(place: Place) -> None:
    """`run_batch` is called by the command; a host that calls it has handlers of its own."""
    place.write(echo(1))
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        batch = Batch(
            jobs=str(place.jobs),
            results=str(place.results),
            policy=Policy.strict(),
            limits=Limits(),
            env={},
            secrets=None,
            concurrency=None,
            ordered=False,
            pinned=False,
            memory_bytes=None,
            quiet=True,
        )
        assert run_batch(batch) == 0 and os.path.getsize(place.results) > 0
    finally:
        signal.signal(signal.SIGINT, before)
