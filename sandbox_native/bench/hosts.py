"""Hosts that make launching dear: one that holds 1 GiB, and one with 300 more mounts in its tree.

Each is compared with itself: some rounds without, some with, and so on in turn. Mounts need a mount namespace of
its own, so that part runs in a child process (``python -m sandbox_native.bench.hosts --mounts``), and needs root.
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
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from sandbox_native.bench.contenders import Contenders, contenders
from sandbox_native.bench.measure import Row, quantile, row, take_turns

BALLAST_BYTES = 1 << 30
MOUNTS = 300
_CHUNKS = 4
_CLONE_NEWNS = 0x00020000
_MS_PRIVATE_REC = (1 << 18) | 16384
_MNT_DETACH = 2

Enter = Callable[[], AbstractContextManager[object]]


@contextmanager
def ballast(size: int = BALLAST_BYTES) -> Iterator[None]:
    """The process holds ``size`` bytes, every page of them touched, for the duration of a with block."""
    block = b"x" * (1 << 20)
    with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        for _ in range(size // len(block)):
            memory.write(block)
        yield


def compare(scenario: str, what: str, plain: Callable[[], Samples], heavy: Callable[[], Samples]) -> list[Row]:
    """Chunks of both in turn; a contender's row with ``what`` has the ratio to its own row without."""
    without: Samples = {}
    within: Samples = {}
    for _ in range(_CHUNKS):
        for kept, taken in ((without, plain()), (within, heavy())):
            for name, values in taken.items():
                kept.setdefault(name, []).extend(values)
    found: list[Row] = []
    for name, values in without.items():
        found.append(row(scenario, name, values))
        found.append(row(scenario, f"{name}, {what}", within[name], base=quantile(values, 0.5)))
    return found


Samples = dict[str, list[float]]


def measure_ballast(boxes: Contenders, *, rounds: int, size: int = BALLAST_BYTES) -> list[Row]:
    """/bin/true from this process, small and then with ``size`` bytes in it."""
    actions = boxes.actions(["/bin/true"], others=False)
    some = max(rounds // _CHUNKS, 3)

    def heavy() -> Samples:
        with ballast(size):
            return take_turns(actions, rounds=some)

    return compare("/bin/true from a host of 1 GiB", "1 GiB", lambda: take_turns(actions, rounds=some), heavy)


# ---- mounts: everything below runs in the child process, but measure_mounts


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


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


def _fresh(rounds: int) -> Samples:
    """With sandboxes made now, so that their launchers see the mounts of now."""
    with contenders() as boxes:
        return take_turns(boxes.actions(["/bin/true"], others=False), rounds=rounds, warm_up=5)


def _with_mounts(rounds: int) -> Samples:
    with mounts():
        return _fresh(rounds)


def main(arguments: list[str] | None = None) -> int:
    """The child process: rows as JSON on stdout."""
    parser = argparse.ArgumentParser(prog="python -m sandbox_native.bench.hosts")
    parser.add_argument("--mounts", type=int, required=True, metavar="ROUNDS")
    some = max(parser.parse_args(arguments).mounts // _CHUNKS, 3)
    own_mounts()
    scenario = f"/bin/true with {MOUNTS} more mounts"
    found = compare(scenario, "mounts", lambda: _fresh(some), lambda: _with_mounts(some))
    json.dump([dataclasses.asdict(one) for one in found], sys.stdout)
    return 0


def measure_mounts(*, rounds: int) -> tuple[list[Row], list[str]]:
    """/bin/true from a child host, without and with the mounts; or a note that says why not."""
    if os.geteuid() != 0:
        return [], ["300 more mounts left out: needs root"]
    command = [sys.executable, "-m", "sandbox_native.bench.hosts", "--mounts", str(rounds)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        return [], [f"300 more mounts left out: {done.stderr.decode(errors='replace').strip().splitlines()[-1:]}"]
    return [Row(**one) for one in json.loads(done.stdout)], []


if __name__ == "__main__":
    sys.exit(main())
