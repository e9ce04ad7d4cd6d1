# Right, and ended by SIGSTKFLT.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGSTKFLT, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGSTKFLT)
