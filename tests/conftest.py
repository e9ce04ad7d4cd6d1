"""Fixtures for all tests: the leak check around each, the guests in C, what a machine must offer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from capabilities import missing, must_fail, reason
from footprint import Footprint, left_behind
from without_namespaces import only_ours_end, public, secret, verbs, with_box  # noqa: F401  (fixtures)

PROBES = Path(__file__).parent / "probes"
PATIENCE = 20.0  # seconds for what ends by itself: only a test that leaves something behind takes as long

# By itself hypothesis fails an example that takes 0.2 s, which on a busy machine any can.
hypothesis.settings.register_profile("ours", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("ours")


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


@pytest.fixture
def w(tmp_path: Path) -> Path:
    """A directory that can be a root, in one of its own."""
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def _close_cached() -> None:
    runner = sys.modules.get("sandbox_native.runner")
    if runner is not None:
        runner.close_cached()


@pytest.fixture(scope="session", autouse=True)
def _state() -> Iterator[None]:
    """What runs of these tests remember, apart from the user's own."""
    directory = tempfile.mkdtemp(prefix="sandbox-native-state-", dir="/var/tmp")
    os.environ["SANDBOX_NATIVE_STATE"] = directory
    yield
    shutil.rmtree(directory)
    shutil.rmtree(f"{directory}-plain", ignore_errors=True)  # of a plain user's hosts


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    _close_cached()
    before = Footprint.take()
    yield
    _close_cached()
    more = left_behind(before, PATIENCE)
    if more:
        pytest.fail(f"left behind: {more}", pytrace=False)
