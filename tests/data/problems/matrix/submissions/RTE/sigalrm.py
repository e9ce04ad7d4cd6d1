# Right, and ended by SIGALRM.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGALRM, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGALRM)
