# Right, and ended by SIGIO.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGIO, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGIO)
