# Right, and ended by SIGPIPE.
import os
import signal

print(sum(map(int, input().split())), flush=True)
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGPIPE)
