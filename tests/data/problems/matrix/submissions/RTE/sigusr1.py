# Right, and ended by SIGUSR1.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGUSR1, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGUSR1)
