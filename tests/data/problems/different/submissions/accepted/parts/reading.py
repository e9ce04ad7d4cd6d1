import sys


def pairs():
    for line in sys.stdin:
        a, b = line.split()
        yield int(a), int(b)
