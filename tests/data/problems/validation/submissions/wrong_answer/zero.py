total = int(input())
print(0, total)
