# Writes the answer to standard error.
import sys

print(sum(map(int, input().split())), file=sys.stderr)
