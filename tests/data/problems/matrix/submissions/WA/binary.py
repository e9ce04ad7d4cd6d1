# Writes every byte there is.
import sys

sys.stdout.buffer.write(bytes(range(256)))
