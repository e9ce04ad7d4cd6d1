"""Rung `landlock`: what is out of reach though the guest has the same user: processes, sockets, shared memory."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
import without_namespaces
from boxes import Guests
from running import PYTHON, sh
from without_namespaces import Try, attempts, own

from sandbox_native import Policy, Rung, Sandbox

pytestmark = without_namespaces.MARKS


# ---- other processes ----


@pytest.fixture
def victim() -> Iterator[int]:
    """A process of the plain user's, with a secret in its environment."""
    process = subprocess.Popen(
        ["/bin/sleep", "60"], env={"TOKEN": "victims-secret"}, user=boxes.PLAIN_USER, group=boxes.PLAIN_USER, extra_groups=[]
    )
    yield process.pid
    assert process.poll() is None, "the guest ended or stopped it"
    assert process.pid and f"{process.pid} (sleep) S" in Path(f"/proc/{process.pid}/stat").read_text()
    process.kill()
    process.wait()


def test_nobody_outside_the_tree_can_be_signalled(with_box: Try, public: Guests, victim: int) -> None:
    def work(box: Sandbox) -> None:
        numbers = (0, signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT)
        targets = (victim, os.getpid(), os.getppid())
        words = " , ".join(f"kill {pid} {number}" for pid in targets for number in numbers)
        assert set(attempts(box, public, words).values()) <= {errno.EPERM}
        code = (
            "import os, signal, sys; import ctypes; call = ctypes.CDLL(None, use_errno=True).syscall; v = int(sys.argv[1]);"
            "group = lambda: os.killpg(os.getpgid(v), 9); pidfd = lambda: signal.pidfd_send_signal(os.pidfd_open(v), 9)\n"
            "ways = [lambda: os.kill(v, 9), group, pidfd]\n"
            "for way in ways:\n try: way(); print('sent')\n except PermissionError: pass\n"
            "for number in (200, 129):\n  print(call(number, v, 9, 0))\n"  # tkill, rt_sigqueueinfo
            "print(call(234, v, v, 9))\n"  # tgkill
            "try: os.kill(-1, 9)\nexcept PermissionError: pass\n"
        )
        assert set(box.run([PYTHON, "-c", code, str(victim)]).text.split()) == {"-1"}

    with_box(work)


def test_other_processes_cannot_be_read_traced_or_changed(with_box: Try, public: Guests, victim: int) -> None:
    def work(box: Sandbox) -> None:
        files = ("environ", "mem", "maps", "fd", "cmdline", "status", "cwd/", "root/etc/passwd", "ns/net", "oom_score_adj")
        for pid in (victim, os.getpid()):
            words = f"ptrace {pid} , vmread {pid} , " + " , ".join(f"read /proc/{pid}/{name}" for name in files)
            told = attempts(box, public, words)
            assert (
                set(told.values()) <= {errno.EPERM, errno.EACCES, errno.EISDIR} and told[f"read /proc/{pid}/fd"] == errno.EACCES
            ), told
        words = (
            f"syscall 302 {victim} 7 0 0 , syscall 203 {victim} 8 1 , syscall 142 {victim} 0 , syscall 144 {victim} 0 0 ,"
            f" syscall 141 0 {victim} 5 , syscall 141 2 {os.getuid()} 5 , syscall 251 1 {victim} 0 , syscall 434 {victim} 0 ,"
            f" syscall 438 3 0 0 , syscall 312 {victim} {victim} 0 0 0"
        )
        told = attempts(box, public, words)
        assert told.pop(f"syscall 434 {victim} 0") in (0, errno.EPERM)  # a descriptor of it says whether it lives, no more
        assert set(told.values()) == {errno.EPERM}, told

    with_box(work)


def test_no_listing_of_processes_and_only_its_own_directory(with_box: Try, public: Guests) -> None:
    def work(box: Sandbox) -> None:
        assert box.run(sh("ls /proc || exit 7")).exit_code == 7
        code = (
            "import os; print(open('/proc/self/status').readline().split()[1]);"
            "os.listdir('/proc/self/fd'); open('/proc/self/comm', 'w').write('x')"
        )
        assert box.run([PYTHON, "-c", code]).text == "python3\n"
        assert own(box, "exec 3< /proc/meminfo; read a b <&3; echo $a") == "MemTotal:\n"

    with_box(work)


# ---- sockets and what is shared ----


def test_sockets_are_refused_but_for_pairs_of_streams(with_box: Try, public: Guests, secret: Path) -> None:
    name = f"rung-{os.getpid()}"
    path = secret / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as there, socket.socket(socket.AF_UNIX) as abstract:
        there.bind(str(path))
        path.chmod(0o777)
        abstract.bind("\0" + name)
        abstract.listen()

        def work(box: Sandbox) -> None:
            families = " , ".join(f"socket {family}" for family in (1, 2, 10, 16, 17, 40))
            assert set(attempts(box, public, families).values()) == {errno.EAFNOSUPPORT}
            words = f"connect {path} , connect-abstract {name} , inet 127.0.0.1 9"
            assert 0 not in attempts(box, public, words).values()
            code = (
                "import socket, sys, fcntl\n"
                "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'\n"
                "for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):\n"
                " try: socket.socketpair(socket.AF_UNIX, kind); print('made')\n except OSError: pass\n"
                "for pair in (socket.socketpair(), socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)):\n"
                " for way in ('sendto', 'sendmsg', 'connect', 'bind'):\n"
                "  try:\n"
                "   if way == 'sendto': pair[0].sendto(b'x', sys.argv[1])\n"
                "   if way == 'sendmsg': pair[0].sendmsg([b'x'], [], 0, sys.argv[1])\n"
                "   if way == 'connect': pair[0].connect(sys.argv[1])\n"
                "   if way == 'bind': pair[0].bind('bound')\n"
                "  except OSError: pass\n"
                "try: print(len(fcntl.ioctl(a, 0x8912, bytes(16))))\nexcept OSError as error: print(error.errno)\n"
            )
            assert box.run([PYTHON, "-c", code, str(path)]).text == f"{errno.ENOTTY}\n"

        with_box(work)
        there.setblocking(False)
        with pytest.raises(BlockingIOError):
            there.recv(1)
        abstract.setblocking(False)
        with pytest.raises(BlockingIOError):
            abstract.accept()


def test_shared_memory_and_queues_of_the_user_are_not_there(with_box: Try, public: Guests) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    key = 0x5A000000 | os.getpid()
    made = libc.shmget(key, 4096, 0o1666)
    assert made >= 0

    def work(box: Sandbox) -> None:
        words = (
            f"syscall 29 {key} 0 0 , syscall 64 {key} 0 0 , syscall 68 {key} 0 , syscall 30 {made} 0 0 , syscall 240 /queue 0 0 0"
        )
        assert set(attempts(box, public, words).values()) == {errno.ENOSYS}

    try:
        with_box(work)
    finally:
        libc.shmctl(made, 0, None)


def test_nothing_is_watched_outside(with_box: Try, public: Guests, secret: Path) -> None:
    def work(box: Sandbox) -> None:
        told = attempts(box, public, f"syscall 294 0 , syscall 254 3 {secret} 4095 , syscall 300 0 0")
        assert told[f"syscall 254 3 {secret} 4095"] == errno.EACCES and told["syscall 300 0 0"] == errno.EPERM

    with_box(work)


# ---- attributes of files, and leases ----

ATTRIBUTES = {
    "FS_IOC_SETFLAGS": "0x40086602 0xC8",  # nodump, noatime, sync
    "FS_IOC32_SETFLAGS": "0x40046602 0xC8",
    "FS_IOC_SETVERSION": "0x40087602 77",
    "EXT4_IOC_SETVERSION": "0x40086604 77",
    "FS_IOC_FSSETXATTR": "0x401C5820 0x20",
    "FS_IOC_ENABLE_VERITY": "0x40806685 1",
    "BTRFS_IOC_SUBVOL_SETFLAGS": "0x4008941A 2",
    "F2FS_IOC_SET_PIN_FILE": "0x4004F50D 1",
    "FIDEDUPERANGE": "0xC0189436 0",
    "TIOCSETD": "0x5423 3",
}


def test_attributes_of_a_file_that_may_be_read_cannot_be_set(public: Guests, secret: Path) -> None:
    """Landlock knows no right for these either, and to own the file is all that the kernel asks."""
    shown = [str(public["attempts"]), str(secret)]

    def work() -> None:
        with Sandbox(Policy.strict(readable=shown, minimum_rung=Rung.LANDLOCK)) as box:
            for path in (secret, secret / "file"):
                words = " , ".join(f"ioctl {path} {asked}" for asked in ATTRIBUTES.values())
                assert set(attempts(box, public, words).values()) == {errno.ENOTTY}
            assert attempts(box, public, f"ioctl {secret}/file 0x541B 0") == {f"ioctl {secret}/file 0x541B 0": 0}  # FIONREAD

    without_namespaces.in_a_plain_host(public, work)


def test_no_lease_makes_the_host_wait(public: Guests, secret: Path) -> None:
    shown = [str(public["attempts"]), str(secret)]

    def work() -> None:
        with Sandbox(Policy.strict(readable=shown, minimum_rung=Rung.LANDLOCK)) as box:
            leases = " , ".join(f"fcntl {secret}/file 1024 {kind}" for kind in (0, 1))
            watches = f"fcntl {secret} 1026 0x80000001 , fcntl {secret} 1040 0"
            assert set(attempts(box, public, f"{leases} , {watches}").values()) == {errno.EINVAL}
            assert set(attempts(box, public, f"fcntl {secret}/file 1025 0 , fcntl {secret}/file 1 0").values()) == {0}

    without_namespaces.in_a_plain_host(public, work)
