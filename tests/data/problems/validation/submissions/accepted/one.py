print(1, int(input()) - 1)
