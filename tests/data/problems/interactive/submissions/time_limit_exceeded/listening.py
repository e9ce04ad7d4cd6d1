# Waits for the other side to begin, which waits too.
print(input())
