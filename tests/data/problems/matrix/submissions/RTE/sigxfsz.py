# Right, and ended by SIGXFSZ.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGXFSZ)
