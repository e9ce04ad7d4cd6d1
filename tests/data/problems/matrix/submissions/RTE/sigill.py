# Right, and ended by SIGILL.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGILL, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGILL)
