# No program.
print(
