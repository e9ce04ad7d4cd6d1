# Right, and ended by SIGBUS.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGBUS, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGBUS)
