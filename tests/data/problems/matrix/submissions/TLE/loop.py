# Does not end.
while True:
    pass
