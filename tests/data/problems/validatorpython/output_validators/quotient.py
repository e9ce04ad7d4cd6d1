"""Gives 100 for an error of a millionth or less, less for each power of ten; nothing for the sample."""

import math
import pathlib
import sys

bound = int(pathlib.Path(sys.argv[1]).read_text())
feedback = pathlib.Path(sys.argv[3])
try:
    p, q = map(int, sys.stdin.read().split())
except ValueError:
    (feedback / "judgemessage.txt").write_text("not two whole numbers\n")
    sys.exit(43)
if not (0 < p < bound and 0 < q < bound):
    (feedback / "judgemessage.txt").write_text("a number is out of bounds\n")
    sys.exit(43)
error = abs(p / q - math.pi)
score = 0.0 if "sample" in sys.argv[4:] else min(100.0, max(0.0, -math.log10(error) * 100 / 6))
(feedback / "score.txt").write_text(f"{score:.6f}\n")
(feedback / "judgemessage.txt").write_text(f"error {error:.3g}\n")
sys.exit(42)
