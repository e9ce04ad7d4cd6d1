import re
import sys

text = sys.stdin.read()
most = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
sys.exit(42 if re.fullmatch(r"[1-9][0-9]*\n", text) and 2 <= int(text) <= most else 43)
