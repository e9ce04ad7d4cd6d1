# Right, and ended by SIGPWR.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGPWR, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGPWR)
