# Right, and ended by SIGHUP.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGHUP)
