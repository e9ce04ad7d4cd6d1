word = input()
assert word == "encode"
print("ab")
