# Right, and ended by SIGSEGV.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGSEGV, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGSEGV)
