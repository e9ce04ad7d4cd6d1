print(99)
