# Right, and ended by SIGTERM.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTERM)
