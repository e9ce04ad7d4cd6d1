# Recurses more deeply than Python lets it.
def deep(n: int) -> int:
    return deep(n + 1)


print(deep(0))
