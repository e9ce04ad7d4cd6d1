# Right, and ended by SIGTRAP.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGTRAP, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTRAP)
