import re
import sys

text = sys.stdin.read()
if not re.fullmatch(r"((0|[1-9][0-9]{0,15}) (0|[1-9][0-9]{0,15})\n){1,50}", text):
    sys.exit(43)
sys.exit(42 if all(int(word) <= 10**15 for word in text.split()) else 43)
