"""Fixtures for all tests: the leak check around each, the time factor, the guests in C, what a machine must offer."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from capabilities import missing, must_fail, reason
from footprint import Footprint, left_behind

PROBES = Path(__file__).parent / "probes"
FORK_EXEC_SECONDS = 0.0006  # start, end and wait of /bin/true on the idle machine where the time bounds were set


def pytest_sessionstart() -> None:
    """Started in the background (nohup, a service) SIGINT is ignored, and tests of Ctrl-C would wait for ever."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _require(name: str) -> None:
    why = missing(name)
    if why is not None:
        pytest.skip(reason(name, why))


@pytest.fixture(scope="session")
def needs() -> Callable[[str], None]:
    """`needs(name)` inside a test: goes on, or skips with the reason."""
    return _require


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for name in mark.args:
            _require(name)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if must_fail(why):
            report.outcome = "failed"
            report.longrepr = f"this leg does not expect the skip: {why}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    outcome = yield
    _refuse_skip(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, None]:
    outcome = yield
    _refuse_skip(outcome.get_result())


def _fork_exec() -> float:
    """Seconds of one bare process start, which do not depend on the size of this process."""
    started = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return time.perf_counter() - started


@pytest.fixture(scope="session")
def factor() -> float:
    """By how much process starts are slower here than where the time bounds were set; at least 1."""
    _fork_exec()
    measured = statistics.median(_fork_exec() for _ in range(25))
    return max(1.0, measured / FORK_EXEC_SECONDS)


class Guests(Mapping[str, Path]):
    """The programs of tests/probes by name, each compiled (static) when it is first asked for."""

    def __init__(self, directory: Path, ready_made: bool) -> None:
        self._directory = directory
        self._ready_made = ready_made

    def __getitem__(self, name: str) -> Path:
        program = self._directory / name
        if not program.exists():
            source = PROBES / f"{name}.c"
            if self._ready_made or not source.exists():
                raise KeyError(name)
            command = ["cc", "-std=gnu11", "-O1", "-Wall", "-static", str(source), "-o", str(program)]
            subprocess.run(command, check=True)
        return program

    def __getattr__(self, name: str) -> Path:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(source.stem for source in PROBES.glob("*.c")))

    def __len__(self) -> int:
        return len(list(iter(self)))


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Guests:
    """`guest["verbs"]` or `guest.verbs`: the path. SANDBOX_NATIVE_PROBES names a directory of ready-made ones."""
    ready_made = os.environ.get("SANDBOX_NATIVE_PROBES")
    directory = Path(ready_made) if ready_made else tmp_path_factory.mktemp("guests")
    directory.chmod(0o755)
    return Guests(directory, bool(ready_made))


def _close_cached() -> None:
    runner = sys.modules.get("sandbox_native.runner")
    if runner is not None:
        runner.close_cached()


@pytest.fixture(autouse=True)
def nothing_left_behind(factor: float) -> Iterator[None]:
    _close_cached()
    before = Footprint.take()
    yield
    _close_cached()
    more = left_behind(before, min(2.0 * factor, 20.0))
    if more:
        pytest.fail(f"left behind: {more}", pytrace=False)
