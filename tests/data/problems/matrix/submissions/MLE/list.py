# A list.
numbers = [1]
while True:
    numbers += numbers
