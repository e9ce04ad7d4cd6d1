n = int(input())
print(n * abs(n))
