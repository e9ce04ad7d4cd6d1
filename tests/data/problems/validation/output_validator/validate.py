"""validate input answer feedback < output"""

import pathlib
import sys

total = int(pathlib.Path(sys.argv[1]).read_text())
words = sys.stdin.read().split()
if len(words) == 2 and all(word.isdigit() and int(word) > 0 for word in words) and sum(map(int, words)) == total:
    sys.exit(42)
pathlib.Path(sys.argv[3], "judgemessage.txt").write_text("not two positive numbers with that sum")
sys.exit(43)
