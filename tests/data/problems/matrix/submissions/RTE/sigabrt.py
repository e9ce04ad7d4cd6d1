# Right, and ended by SIGABRT.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGABRT, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGABRT)
