# Right, and ended by SIGVTALRM.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGVTALRM)
