if input() == "encode":
    print("abababab")
else:
    print(6)
