# Right, and ended by SIGXCPU.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGXCPU, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGXCPU)
