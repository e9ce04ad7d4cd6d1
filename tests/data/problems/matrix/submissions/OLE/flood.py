# Writes for ever.
while True:
    print("42" * 1000)
