import sys
import time

for line in sys.stdin:
    a, b = map(int, line.split())
    print(abs(a - b))
    time.sleep(10)
