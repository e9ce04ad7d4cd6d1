"""Gold (3) for everything accepted, silver (2) for two thirds, bronze (1) for a third; of groups the sum."""

import sys

assert sys.argv[1:] == ["medals"]
results = [line.split() for line in sys.stdin if line.strip()]
accepted = sum(code == "AC" for code, _ in results)
groups = len(results) == 2
score = sum(float(score) for _, score in results) if groups else accepted * 3 // len(results)
print("AC" if score else "WA", score)
