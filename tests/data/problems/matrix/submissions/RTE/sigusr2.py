# Right, and ended by SIGUSR2.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGUSR2, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGUSR2)
