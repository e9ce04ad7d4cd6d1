"""What a model, a student or a stranger might send: some work, then a look at what can be had."""

import os
import socket
from pathlib import Path


def attempt(what, action):
    try:
        print(f"{what}: {action()}")
    except OSError as error:
        print(f"{what}: refused ({error.strerror})")


print("sum of the primes below 10000:", sum(n for n in range(2, 10000) if all(n % d for d in range(2, int(n**0.5) + 1))))
attempt("user id", os.getuid)
attempt("processes in sight", lambda: sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
attempt("passwords", lambda: Path("/etc/shadow").read_text())
attempt("root's home", lambda: os.listdir("/root"))
attempt("a file in /usr", lambda: Path("/usr/bin/mine").write_text("x"))
attempt("a file in the workspace", lambda: Path("notes.txt").write_text("kept for this run only"))
attempt("the network", lambda: socket.create_connection(("1.1.1.1", 53), timeout=1))
attempt("the kernel's log", lambda: Path("/dev/kmsg").read_text())
