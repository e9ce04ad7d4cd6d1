"""Does what the first word of its input says."""

word, a, b = input().split()
if word == "slow":
    while True:
        pass
if word == "crashing":
    raise ValueError("as asked for")
if word == "hungry":
    kept = []
    while True:
        kept.append(bytearray(b"x") * (1 << 20))
print(int(a) - int(b) if word == "wrong" else int(a) + int(b))
