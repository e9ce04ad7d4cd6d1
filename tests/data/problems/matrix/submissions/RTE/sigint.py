# Right, and ended by SIGINT.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGINT)
