from reading import pairs

for a, b in pairs():
    print(max(a, b) - min(a, b))
