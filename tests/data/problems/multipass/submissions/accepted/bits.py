if input() == "encode":
    print(f"{int(input()):08b}".replace("0", "a").replace("1", "b"))
else:
    print(int(input().replace("A", "0").replace("B", "1"), 2))
