# Right, and ended by SIGQUIT.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGQUIT)
