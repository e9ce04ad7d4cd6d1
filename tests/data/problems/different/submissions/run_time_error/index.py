import sys

numbers = sys.stdin.read().split()
for place in range(0, 200, 2):
    print(abs(int(numbers[place]) - int(numbers[place + 1])))
