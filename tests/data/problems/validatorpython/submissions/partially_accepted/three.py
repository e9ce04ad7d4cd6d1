print(3, 1)
