# Right, and ended by SIGPROF.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGPROF, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGPROF)
