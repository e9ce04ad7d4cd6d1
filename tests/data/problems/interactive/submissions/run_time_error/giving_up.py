import sys

print(500, flush=True)
if input() != "correct":
    sys.exit(3)
