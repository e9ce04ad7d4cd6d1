# Raises.
print(input().split()[2])
