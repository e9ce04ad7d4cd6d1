import math

bound = int(input())
pairs = ((round(q * math.pi), q) for q in range(1, bound))
p, q = min((pair for pair in pairs if 0 < pair[0] < bound), key=lambda pair: abs(pair[0] / pair[1] - math.pi))
print(p, q)
