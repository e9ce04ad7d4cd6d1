# Right, and ended by SIGFPE.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGFPE, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGFPE)
