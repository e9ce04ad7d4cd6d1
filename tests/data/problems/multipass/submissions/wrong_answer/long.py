print("a" * 9)
