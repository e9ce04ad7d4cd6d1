print(3.14159)
