"""The end of a WarmPython, of its interpreter, of its host; and that many runs leave nothing."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import boxes
import pytest
from running import kill_all, nap, processes_named, sleepers
from warm import module, told

from sandbox_native import Budget, Limits, PolicyError, Sandbox, SetupError, Status
from sandbox_native.warm.python import WarmPython

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
LONG = Limits(wall_seconds=60)
START = "/.warm/start.py"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """An interpreter that nobody else's processes are of."""
    return Path(str(module(tmp_path, "empty", "")["python"]))


@pytest.fixture
def warm(python: Path) -> Iterator[WarmPython]:
    with WarmPython(python=python) as made:
        yield made


def templates(python: Path) -> list[int]:
    """Interpreters, and what they forked."""
    return list(processes_named(f"{python}\0-I\0{START}\0"))


def interpreters(python: Path) -> list[int]:
    """Those whose parent is no clone."""
    found = templates(python)
    return [pid for pid in found if parent(pid) not in (*found, None)]


def parent(pid: int) -> int | None:
    """None: it has ended by now."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_when_the_interpreter_has_died_a_run_is_cold_and_says_so_and_the_next_is_warm(warm: WarmPython, python: Path) -> None:
    warm.run("pass")
    kill_all(interpreters(python))
    result = warm.run("import sys; print(sys.argv, __file__)", ["a"])
    assert told(result) == "['/workspace/main.py', 'a'] /workspace/main.py"
    (layer,) = [layer for layer in result.enforcement.layers if layer.name == "warm"]
    assert (layer.held, layer.detail) == (False, "cold start: the template had ended")
    assert warm.cold_runs == 1
    again = warm.run("print(1)")
    assert boxes.layer(again, "warm").held is True and warm.cold_runs == 1


def test_the_interpreter_dies_under_a_run(warm: WarmPython, python: Path) -> None:
    def kill() -> None:
        boxes.until(lambda: bool(sleepers(76)), boxes.PATIENCE, "the warm run")
        warm_run = sleepers(76)
        kill_all(interpreters(python))
        boxes.until(lambda: bool(set(sleepers(76)) - set(warm_run)), boxes.PATIENCE, "the cold run")
        kill_all(sleepers(76))

    with ThreadPoolExecutor(1) as pool:
        killer = pool.submit(kill)
        result = warm.run(f"import subprocess\nsubprocess.run(['/bin/sleep', '{nap(76)}'])\nprint('done')", limits=LONG)
        killer.result()
    assert told(result) == "done"
    assert boxes.layer(result, "warm").held is False


def test_everything_ends_with_close(python: Path) -> None:
    before = set(templates(python))
    warm = WarmPython(["json"], python=python, prepared=3)
    warm.run("pass")
    assert set(templates(python)) - before
    warm.close()
    warm.close()
    boxes.until(lambda: not set(templates(python)) - before, boxes.PATIENCE, "the end of the interpreter")
    with pytest.raises(PolicyError, match="closed"):
        warm.run("pass")


def test_everything_ends_with_the_host(tmp_path: Path, python: Path) -> None:
    """Also while an import is still going on."""
    options = module(tmp_path, "thing", "import time\ntime.sleep(100)")
    before = set(templates(python))

    def work(**given: object) -> int:
        def host() -> None:
            warm = WarmPython(**given)  # type: ignore[arg-type]
            warm.run("import time; time.sleep(100)")

        return boxes.forked_host(host)

    for given in (options, {"python": python}):
        pid = work(**given)
        boxes.until(lambda: bool(set(templates(python)) - before), boxes.PATIENCE, "an interpreter")
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        boxes.until(lambda: not set(templates(python)) - before, boxes.PATIENCE, "the end of the interpreter")


def test_ctrl_c_ends_an_import(tmp_path: Path, python: Path) -> None:
    options = module(tmp_path, "thing", "import time\ntime.sleep(100)")
    before = set(templates(python))
    timer = threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        WarmPython(**options)  # type: ignore[arg-type]
    timer.join()
    assert time.monotonic() - started < 50, "the import takes 100 s"
    boxes.until(lambda: not set(templates(python)) - before, boxes.PATIENCE, "the end of the interpreter")


def test_eight_threads_at_once(warm: WarmPython, python: Path) -> None:
    problems: list[object] = []

    def work(number: int) -> None:
        for at in range(5):
            result = warm.run(f"import os\nprint({number}, {at}, os.getpid())")
            if result.text != f"{number} {at} 2\n":
                problems.append((number, at, result))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


@pytest.mark.slow
def test_a_thousand_runs_leave_nothing(warm: WarmPython, python: Path) -> None:
    def held() -> tuple[int, int, int, int]:
        while True:
            try:
                return look()
            except (FileNotFoundError, ProcessLookupError):
                continue  # one of them ended just then

    def look() -> tuple[int, int, int, int]:
        (pid,) = interpreters(python)
        slots = [pid for pid in templates(python) if Path(f"/proc/{pid}/stat").read_text().split()[3] == str(interpreter)]
        kib = max(int(Path(f"/proc/{one}/status").read_text().split("VmRSS:")[1].split()[0]) for one in (pid, *slots))
        files = max(len(os.listdir(f"/proc/{one}/fd")) for one in (pid, *slots))
        maps = max(len(Path(f"/proc/{one}/maps").read_text().splitlines()) for one in (pid, *slots))
        return kib, files, maps, len(os.listdir("/proc/self/fd"))

    (interpreter,) = interpreters(python)
    for _ in range(20):
        warm.run("pass")
    before = held()
    for _ in range(1000):
        assert warm.run("x = [0] * 1000").status is Status.OK
    boxes.until(lambda: held()[1:] == before[1:], boxes.PATIENCE, f"what is held being {before} again")
    assert held()[0] <= before[0] + 512


def test_a_script_whose_stdin_was_read_is_not_run_twice(tmp_path: Path, python: Path) -> None:
    """Nor one that may have changed a directory of the host."""
    source = tmp_path / "input"
    source.write_bytes(b"x" * 100)
    (tmp_path / "dir").mkdir()
    script = f"import subprocess, sys\nsys.stdin.read(50)\nsubprocess.run(['/bin/sleep', '{nap(77)}'])"

    def kill() -> None:
        boxes.until(lambda: bool(sleepers(77)), boxes.PATIENCE, "the run")
        kill_all(interpreters(python))

    with WarmPython(python=python) as warm, source.open("rb") as stdin, ThreadPoolExecutor(1) as pool:
        for options in ({"stdin": stdin}, {"workspace": tmp_path / "dir"}):
            warm.run("pass")
            cold = warm.cold_runs
            killer = pool.submit(kill)
            with pytest.raises(SetupError, match="lost"):
                warm.run(script, limits=LONG, **options)  # type: ignore[arg-type]
            killer.result()
            assert warm.cold_runs == cold
            assert warm.run("pass").ok


def test_a_cold_run_has_its_share_of_the_budget(python: Path) -> None:
    budget = Budget(cpu=1)
    with WarmPython(python=python, budget=budget) as warm, Sandbox(budget=budget) as other:
        warm.run("pass")
        kill_all(interpreters(python))
        assert warm.run("pass").ok and warm.cold_runs == 1
        assert other.run(["/bin/true"]).ok  # it was given back
        assert warm._cold is not None and warm._cold._budget is budget
