import sys

for guess in range(1, 11):
    print(guess, flush=True)
    if sys.stdin.readline().strip() == "correct":
        break
