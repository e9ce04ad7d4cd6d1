"""A host that makes launching dear: 2 GiB resident, 64 threads, 300 more mounts in its tree, all at once.

It is compared with itself: some rounds without, some with, and so on in turn. Mounts need a mount namespace of
its own, so all of it runs in a child process (``python -m sandbox_native.bench.hosts --rounds N``); without root there are none.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from sandbox_native.bench.contenders import LIGHT, contenders
from sandbox_native.bench.measure import Row, quantile, row, take_turns

BALLAST_BYTES = 2 << 30
THREADS = 64
MOUNTS = 300
SCENARIO = "/bin/true from a big host"
BIG = "big host"
_CHUNKS = 4
_ROOM_BYTES = BALLAST_BYTES + (1 << 30)
_CLONE_NEWNS = 0x00020000
_MS_PRIVATE_REC = (1 << 18) | 16384
_MNT_DETACH = 2

Samples = dict[str, list[float]]


@contextmanager
def ballast(size: int = BALLAST_BYTES) -> Iterator[None]:
    """The process holds ``size`` bytes, every page of them touched, for the duration of a with block."""
    block = b"x" * (1 << 20)
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for _ in range(size // len(block)):
            memory.write(block)
        yield


@contextmanager
def threads(count: int = THREADS) -> Iterator[None]:
    """The process has ``count`` more threads, which wait."""
    end = threading.Event()
    waiting = [threading.Thread(target=end.wait, daemon=True) for _ in range(count)]
    try:
        for thread in waiting:
            thread.start()
        yield
    finally:
        end.set()
        for thread in waiting:
            if thread.ident is not None:
                thread.join()


@contextmanager
def mounts(count: int = MOUNTS) -> Iterator[None]:
    """``count`` more mounts in this process's own mount namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with tempfile.TemporaryDirectory(prefix="sandbox-native-bench-") as folder:
        targets = [os.path.join(folder, str(number)).encode() for number in range(count)]
        for target in targets:
            os.mkdir(target)
            _check(libc.mount(b"bench", target, b"tmpfs", 0, b"size=4k"), "mount")
        try:
            yield
        finally:
            for target in targets:
                _check(libc.umount2(target, _MNT_DETACH), "umount")


def own_mounts() -> None:
    """Moves this process into a mount namespace of its own, from which nothing gets out."""
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.unshare(_CLONE_NEWNS), "unshare")
    _check(libc.mount(None, b"/", None, _MS_PRIVATE_REC, None), "mount /")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def compare(plain: Callable[[], Samples], heavy: Callable[[], Samples]) -> list[Row]:
    """Chunks of both in turn; a contender's row from the big host has the ratio to its own row without."""
    without: Samples = {}
    within: Samples = {}
    for _ in range(_CHUNKS):
        for kept, taken in ((without, plain()), (within, heavy())):
            for name, values in taken.items():
                kept.setdefault(name, []).extend(values)
    found: list[Row] = []
    for name, values in without.items():
        found.append(row(SCENARIO, name, values))
        found.append(row(SCENARIO, f"{name}, {BIG}", within[name], base=quantile(values, 0.5)))
    return found


def _launches(rounds: int) -> Samples:
    """With sandboxes made now, so that their launchers see the host of now."""
    with contenders() as boxes:
        entries = boxes.entries(["/bin/true"])
        del entries[LIGHT]
        return take_turns(entries, rounds=rounds, warm_up=5, burst=5)


def _heavy(rounds: int, size: int) -> Samples:
    with ExitStack() as stack:
        stack.enter_context(ballast(size))
        stack.enter_context(threads())
        if os.geteuid() == 0:
            stack.enter_context(mounts())
        return _launches(rounds)


def main(arguments: list[str] | None = None) -> int:
    """The child process: rows as JSON on stdout."""
    parser = argparse.ArgumentParser(prog="python -m sandbox_native.bench.hosts")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--bytes", type=int, default=BALLAST_BYTES)
    options = parser.parse_args(arguments)
    some = max(options.rounds // _CHUNKS, 3)
    if os.geteuid() == 0:
        own_mounts()
    found = compare(lambda: _launches(some), lambda: _heavy(some, options.bytes))
    json.dump([dataclasses.asdict(one) for one in found], sys.stdout)
    return 0


def measure_big_host(*, rounds: int, size: int = BALLAST_BYTES) -> tuple[list[Row], list[str]]:
    """/bin/true from a child host, small and then big; or a note that says why not."""
    if _available_bytes() < size + _ROOM_BYTES - BALLAST_BYTES:
        return [], ["the big host left out: this machine has no 3 GiB to spare"]
    command = [sys.executable, "-m", "sandbox_native.bench.hosts", "--rounds", str(rounds), "--bytes", str(size)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        return [], [f"the big host left out: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}"]
    notes = [] if os.geteuid() == 0 else [f"the big host has no {MOUNTS} more mounts: that needs root"]
    return [Row(**one) for one in json.loads(done.stdout)], notes


def _available_bytes() -> int:
    with open("/proc/meminfo", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))


if __name__ == "__main__":
    sys.exit(main())
