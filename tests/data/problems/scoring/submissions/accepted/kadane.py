input()
best = current = None
for number in map(int, input().split()):
    current = number if current is None or current < 0 else current + number
    best = current if best is None else max(best, current)
print(best)
