"""The verdict matrix (tests/test_judge_matrix.py) again and again, on all cores: every time the same verdicts.

python bench/matrix.py [--times 20] [--neighbours N]    # N processes that keep the cores busy beside it
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from test_judge_matrix import NAMES, works

from sandbox_native.judge import Judge, Options, Store

_BUSY = "while True: pass"


def main() -> int:
    """0 when every program got its verdict every time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--neighbours", type=int, default=0)
    options = parser.parse_args()
    wrong: Counter[str] = Counter()
    with ExitStack() as held:
        for _ in range(options.neighbours):
            neighbour = held.enter_context(subprocess.Popen([sys.executable, "-c", _BUSY]))
            held.callback(neighbour.kill)
        store = Store(held.enter_context(tempfile.TemporaryDirectory(prefix="sandbox-native-matrix-")))
        with Judge(options=Options(store=store)) as judge:
            for time_of in range(1, options.times + 1):
                began = time.monotonic()
                found = [judged.judgement for judged in judge.many(works())]
                assert len(found) == len(NAMES)
                strange = [judgement for judgement in found if not judgement.expected]
                wrong.update(f"{judgement.submission}: {judgement.verdict}" for judgement in strange)
                print(f"{time_of}: {len(strange)} of {len(found)} wrong, {time.monotonic() - began:.1f} s", flush=True)
    for what, count in wrong.most_common():
        print(f"{count} times {what}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
