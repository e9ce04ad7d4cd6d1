result = 1
for _ in range(int(input())):
    result = result * 2 % 1000007
print(result)
