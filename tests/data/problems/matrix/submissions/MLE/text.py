# A text.
text = "x"
while True:
    text += text
