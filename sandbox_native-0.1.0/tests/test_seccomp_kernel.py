"""The filter of sandbox_native/seccomp.py in the real kernel: what calls answer, and that programs start and work under it."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import bpf
import pytest

from sandbox_native import seccomp
from sandbox_native._native import lib

NUMBERS = bpf.built_numbers()
NATIVE = lib.sn_audit_arch()
FILTER = seccomp.filter_bytes(NUMBERS, NATIVE)
ALL = 0xFFFFFFFFFFFFFFFF
EPERM, EBADF, EFAULT, EINVAL, ENOTTY, ENOSYS, EPROTONOSUPPORT, ESOCKTNOSUPPORT, EAFNOSUPPORT = 1, 9, 14, 22, 25, 38, 93, 94, 97
WORKS = 0
CORE, NOFILE = 4, 7  # RLIMIT_
TIOCSTI, TIOCLINUX, TIOCGWINSZ = 0x5412, 0x541C, 0x5413
NEWUSER, NEWUTS, NEWCGROUP, NEWTIME, FILES = 0x10000000, 0x4000000, 0x2000000, 0x80, 0x400
AT_FDCWD = -100 & ALL

# What root, which these tests may be, is told without the filter is something else: EFAULT, EBADF, success.
ANSWERS = [
    ("9999", (), ENOSYS),
    ("400", (), ENOSYS),
    ("-1", (), ENOSYS),
    ("clone3", (0, 0), ENOSYS),
    ("openat2", (AT_FDCWD, 0, 0, 0), ENOSYS),
    ("mount", (0, 0, 0, 0, 0), EPERM),
    ("fsopen", (0, 0), EPERM),
    ("setns", (-1 & ALL, 0), EPERM),
    ("bpf", (0, 0, 0), EPERM),
    ("io_uring_setup", (1, 0), EPERM),
    ("userfaultfd", (0,), EPERM),
    ("keyctl", (0, 0, 0, 0, 0), EPERM),
    ("ptrace", (0, 0, 0, 0), EPERM),
    ("seccomp", (2, 0, 0), EPERM),
    ("unshare", (NEWUSER,), EPERM),
    ("unshare", (NEWTIME,), EPERM),
    ("unshare", (NEWCGROUP | 1 << 40,), EPERM),
    ("clone", (NEWUTS | 17, 0, 0, 0, 0), EPERM),
    ("clone", (NEWUTS | 17 | 1 << 33, 0, 0, 0, 0), EPERM),
    ("ioctl", (-1 & ALL, TIOCSTI, 0), EPERM),
    ("ioctl", (-1 & ALL, TIOCSTI | 1 << 32, 0), EPERM),
    ("ioctl", (-1 & ALL, TIOCLINUX | ALL << 32 & ALL, 0), EPERM),
    ("ioctl", (-1 & ALL, TIOCGWINSZ, 0), EBADF),
    ("ioctl", (-1 & ALL, 0x40086602, 0), ENOTTY),  # FS_IOC_SETFLAGS
    ("ioctl", (-1 & ALL, 0x40046602 | 1 << 32, 0), ENOTTY),
    ("ioctl", (-1 & ALL, 0x40087602, 0), ENOTTY),  # FS_IOC_SETVERSION
    ("ioctl", (-1 & ALL, 0x401C5820, 0), ENOTTY),  # FS_IOC_FSSETXATTR
    ("ioctl", (-1 & ALL, 0x80086601, 0), EBADF),  # FS_IOC_GETFLAGS
    ("ioctl", (-1 & ALL, 0x40049409, 0), EBADF),  # FICLONE
    ("fcntl", (-1 & ALL, 1024, 0), EINVAL),  # F_SETLEASE
    ("fcntl", (-1 & ALL, 1026 | 1 << 32, 0), EINVAL),  # F_NOTIFY
    ("fcntl", (-1 & ALL, 3, 0), EBADF),
    ("socket", (16, 3, 0), EAFNOSUPPORT),  # AF_NETLINK
    ("socket", (17 | 1 << 32, 3, 0), EAFNOSUPPORT),  # AF_PACKET
    ("socket", (2, 3, 1), EPERM),  # SOCK_RAW, ICMP
    ("socket", (2, 10, 0), EPERM),  # SOCK_PACKET
    ("socket", (2, 1, 132), EPROTONOSUPPORT),  # SCTP
    ("socket", (2, 5, 132), ESOCKTNOSUPPORT),
    ("socket", (1, 1 | 0o2000000, 0), WORKS),
    ("socket", (2, 2, 17), WORKS),
    ("socket", (2 | 1 << 32, 1, 6), WORKS),
    ("personality", (0xFFFFFFFF,), WORKS),
    ("personality", (0,), EPERM),
    ("personality", (0x40000,), EPERM),  # ADDR_NO_RANDOMIZE
    ("prctl", (22, 2, 0, 0, 0), EINVAL),  # PR_SET_SECCOMP
    ("prctl", (22 | 1 << 32, 2, 0, 0, 0), EINVAL),
    ("prctl", (39, 0, 0, 0, 0), WORKS),  # PR_GET_NO_NEW_PRIVS: 1
    ("fchmod", (-1 & ALL, 0o4755), EPERM),
    ("fchmod", (-1 & ALL, 0o1755), EBADF),
    ("openat", (AT_FDCWD, 0, os.O_CREAT, 0o6755), EPERM),
    ("openat", (AT_FDCWD, 0, 0, 0o6755), EFAULT),
    ("mknodat", (AT_FDCWD, 0, 0o20644, 0), EPERM),
    ("mknodat", (AT_FDCWD, 0, 0o10644, 0), EFAULT),
    ("sched_setaffinity", (1, 0, 0), EPERM),
    ("prlimit64", (1, 0, 0, 0), EPERM),
    ("prlimit64", (1, CORE, 0, 0), EPERM),
    ("prlimit64", (0, 0, 0, 0), WORKS),
    ("prlimit64", (0, NOFILE, 1, 0), EFAULT),
    ("prlimit64", (0, CORE, 1, 0), WORKS),  # as if: there is nothing at address 1
    ("prlimit64", (0, CORE | 1 << 32, 1 << 32, 0), WORKS),
    ("prlimit64", (0, CORE, 0, 1), EFAULT),  # reading does what it always did
    ("setrlimit", (NOFILE, 1), EFAULT),
    ("setrlimit", (CORE, 1), WORKS),
    ("getrlimit", (CORE, 1), EFAULT),
    ("setpriority", (2, 1000, 19), EPERM),
    ("unshare", (FILES,), WORKS),
    ("close_range", (900, 0xFFFFFFFF, 2), WORKS),
    ("getpid", (), WORKS),
]


@pytest.mark.kernel
def test_calls_answer_as_decided() -> None:
    def ask() -> list[int]:
        bpf.install(FILTER)
        return [bpf.call(NUMBERS[name] if name in NUMBERS else int(name), *arguments)[1] for name, arguments, _ in ANSWERS]

    told, status = bpf.in_child(ask)
    assert status == 0
    wrong = [(name, arguments, answer) for (name, arguments, want), answer in zip(ANSWERS, told, strict=True) if answer != want]
    assert wrong == []


@pytest.mark.kernel
def test_exec_keeps_the_filter() -> None:
    code = "import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.syscall(9999), ctypes.get_errno())"
    assert bpf.run_filtered([sys.executable, "-I", "-S", "-c", code], FILTER).stdout == "-1 38\n"


def int_0x80() -> None:
    """getpid through the i386 entry."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()


def x32() -> None:
    bpf.call(NUMBERS["getpid"] | 1 << 30)


FOREIGN = pytest.mark.parametrize("entry", [int_0x80, x32])


@pytest.mark.kernel
@pytest.mark.needs("x86_64")
@FOREIGN
def test_foreign_entries_kill_where_nobody_listens(entry: Callable[[], None]) -> None:
    def ask() -> str:
        bpf.install(FILTER)
        entry()
        return "alive"

    told, status = bpf.in_child(ask)
    assert told is None and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGSYS


@pytest.mark.kernel
@pytest.mark.needs("x86_64")
@FOREIGN
def test_a_listener_learns_number_and_architecture_of_what_ends_the_guest(entry: Callable[[], None]) -> None:
    def ask() -> tuple[int, int]:
        program = seccomp.filter_bytes(NUMBERS, NATIVE, end_action=seccomp.RET_USER_NOTIF)
        listener = bpf.install_listening(program, NUMBERS["seccomp"])
        pid = os.fork()
        if pid == 0:
            entry()
            os._exit(0)
        note = fcntl.ioctl(listener, 0xC0502100, bytes(80))  # SECCOMP_IOCTL_NOTIF_RECV
        number, arch = struct.unpack_from("=iI", note, 16)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return number, arch

    told, status = bpf.in_child(ask)
    assert status == 0
    assert told == ([20, lib.sn_audit_arch_other()] if entry is int_0x80 else [NUMBERS["getpid"] | 1 << 30, NATIVE])


PYTHON = """
import multiprocessing as mp, threading, subprocess, asyncio, socket, tempfile, shutil, os, sqlite3
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import shared_memory
def square(x): return x * x
if __name__ == "__main__":
    thread = threading.Thread(target=print, args=("thread",)); thread.start(); thread.join()
    for method in ("fork", "spawn", "forkserver"):
        with mp.get_context(method).Pool(2) as pool: assert pool.map(square, range(3)) == [0, 1, 4]
    with ProcessPoolExecutor(2) as pool: list(pool.map(square, range(3)))
    block = shared_memory.SharedMemory(create=True, size=100); block.close(); block.unlink()
    assert subprocess.run(["/bin/sh", "-c", "echo hi | cat"], capture_output=True).stdout == b"hi\\n"
    async def serve():
        await (await asyncio.create_subprocess_exec("/bin/true")).wait()
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        await reader.read(); writer.close(); server.close()
    asyncio.run(serve())
    socket.getaddrinfo("localhost", 80)
    with tempfile.TemporaryDirectory() as directory:
        open(directory + "/a", "w").write("x"); shutil.copytree(directory, directory + "/b"); os.mkfifo(directory + "/c")
        base = sqlite3.connect(directory + "/d"); base.execute("create table t(a)"); base.commit(); base.close()
    print("done")
"""
NODE = """
const {Worker, isMainThread} = require('worker_threads'), fs = require('fs'), net = require('net');
if (isMainThread) {
  new Worker(__filename);
  require('child_process').execSync('echo hi'); require('crypto').pbkdf2Sync('a', 'b', 10, 8, 'sha1');
  const server = net.createServer(c => c.end()).listen(0, '127.0.0.1', () =>
    net.connect(server.address().port, '127.0.0.1').on('close', () => server.close(() => console.log('done'))).resume());
}
"""
JAVA = """
class Main {
  public static void main(String[] a) throws Exception {
    Thread[] threads = new Thread[4];
    for (int i = 0; i < 4; i++) { threads[i] = new Thread(() -> System.gc()); threads[i].start(); }
    for (Thread thread : threads) thread.join();
    if (new ProcessBuilder("/bin/true").start().waitFor() == 0) System.out.println("done");
  }
}
"""
C = '#include <stdio.h>\nint main(void) { return puts("done") < 0; }\n'
SHELL = 'd=$(mktemp -d) && cp -p /bin/ls "$d/a" && ls -l "$d" | sort >/dev/null; rm -r "$d"; (sleep 0)& wait; echo done'
PROGRAMS = [
    ([sys.executable, "main.py"], "main.py", PYTHON),
    (["sh", "main.sh"], "main.sh", SHELL),
    (["perl", "main.pl"], "main.pl", "print `echo x`; if (!fork) { exit } wait; print 'done'"),
    (["node", "main.js"], "main.js", NODE),
    (["java", "Main.java"], "Main.java", JAVA),
    (["sh", "-c", "cc -O2 main.c -o dynamic && cc -static main.c -o static && ./dynamic && ./static"], "main.c", C),
]


@pytest.mark.slow
@pytest.mark.parametrize("argv,name,source", [pytest.param(*program, id=program[1]) for program in PROGRAMS])
def test_programs_start_and_work(argv: list[str], name: str, source: str, tmp_path: Path, needs: Callable[[str], None]) -> None:
    needs({"main.c": "cc"}.get(name, argv[0]))
    (tmp_path / name).write_text(source)
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, timeout=120, preexec_fn=lambda: bpf.install(FILTER))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.rstrip().endswith("done")


@pytest.mark.slow
@pytest.mark.needs("musl-gcc")
def test_a_musl_program_with_threads_starts(tmp_path: Path) -> None:
    source = "#include <pthread.h>\n#include <stdio.h>\nvoid *f(void *p) { return p; }\n" + (
        'int main(void) { pthread_t t; return pthread_create(&t, 0, f, 0) || pthread_join(t, 0) || puts("done") < 0; }\n'
    )
    (tmp_path / "main.c").write_text(source)
    subprocess.run(["musl-gcc", "-static", "main.c", "-o", "main"], cwd=tmp_path, check=True)
    assert bpf.run_filtered([str(tmp_path / "main")], FILTER).stdout == "done\n"
