"""What a box is from inside (guests in C) and from outside (the host's /proc, the receipt). What runs share: test_no_trace.py."""

from __future__ import annotations

import errno
import os
import resource
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
from boxes import SHOWN, Guests, verbs
from capabilities import landlock_abi, not_held

from sandbox_native import Limits, Policy, Result, Sandbox, Status

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
REQUESTED = (
    *("user", "groups", "mount", "root", "pid", "proc", "ipc", "uts", "net", "cgroup_namespace", "capabilities", "no_new_privs"),
    *("securebits", "session", "descriptors", "keyring", "seccomp", "rlimits", "memory", "processes", "wall_seconds"),
)
# NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE, all locked; KEEP_CAPS locked
SECUREBITS = 0x1 | 0x2 | 0x4 | 0x8 | 0x20 | 0x40 | 0x80
NEW_NAMESPACES = (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)


@pytest.fixture
def box(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(boxes.strict(guest)) as sandbox:
        yield sandbox


def told(box: Sandbox, *argv: str) -> list[str]:
    result = box.run(argv)
    assert result.status is Status.OK, (result.status, result.stderr)
    return result.text.splitlines()


def status_of(box: Sandbox, command: str) -> int | None:
    return box.run(["/bin/sh", "-c", command]).exit_code


# ---- namespaces and identity ----


def test_every_namespace_is_another_than_the_hosts(box: Sandbox) -> None:
    script = f"for n in {' '.join(NAMESPACES)}; do echo $n $(readlink /proc/self/ns/$n); done"
    inside = dict(line.split() for line in told(box, "/bin/sh", "-c", script))
    assert sorted(inside) == sorted(NAMESPACES)
    shared = [name for name in NAMESPACES if inside[name] == os.readlink(f"/proc/self/ns/{name}")]
    assert shared == []


def test_two_runs_share_no_namespace_but_an_unused_network(box: Sandbox) -> None:
    with box.spawn(verbs("pause")) as one, box.spawn(verbs("pause")) as two:
        boxes.until(lambda: len(outside(verbs("pause"))) == 2, boxes.PATIENCE, "two guests")
        first, second = ({name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES} for pid in outside(verbs("pause")))
        assert not {name for name in NAMESPACES if first[name] == second[name]}
        for process in (one, two):
            process.kill()


def outside(argv: list[str]) -> list[int]:
    """The host's pids of the guests that run this."""
    wanted = "\0".join([*argv, ""]).encode()
    return [int(pid) for pid in filter(str.isdigit, os.listdir("/proc")) if boxes.command_line(int(pid)) == wanted]


def test_the_guest_is_nobody_on_the_host(box: Sandbox) -> None:
    """As root: an id that owns nothing here. As a plain user: the caller."""
    with box.spawn(verbs("pause")) as process:
        boxes.until(lambda: bool(outside(verbs("pause"))), boxes.PATIENCE, "the guest")
        (pid,) = outside(verbs("pause"))
        status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        uids, gids = {*map(int, status["Uid"].split())}, {*map(int, status["Gid"].split())}
        process.kill()
    if os.geteuid() != 0:
        assert (uids, gids) == ({os.geteuid()}, {os.getegid()})
        return
    (uid,), (gid,) = uids, gids
    known = [line.split(":")[2] for path in ("/etc/passwd", "/etc/group") for line in Path(path).read_text().splitlines()]
    assert uid > 65536 and gid > 65536 and not {str(uid), str(gid)} & set(known)
    assert status["Groups"].strip() == ""


def test_who_the_guest_is(box: Sandbox) -> None:
    found = boxes.facts(box.run([f"{SHOWN}/inside"]))
    assert (found["uids"], found["gids"]) == (["1000 1000 1000"], ["1000 1000 1000"])
    assert os.geteuid() != 0 or found["groups"] == ["0"]
    assert [found[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")] == [["0" * 16]] * 5
    assert (found["no_new_privs"], found["securebits"], found["Seccomp"]) == (["1"], [str(SECUREBITS)], ["2"])
    assert (found["umask"], found["hostname"], found["cwd"]) == (["022"], ["sandbox"], ["/workspace"])
    assert told(box, "/usr/bin/id", "-un") == ["guest"]


@pytest.mark.needs("root")
def test_supplementary_groups_of_the_host_are_gone(guest: Guests) -> None:
    def work() -> None:
        os.setgroups([0, 4, 27, 1000])
        with Sandbox(boxes.strict(guest)) as grouped:
            assert boxes.facts(grouped.run([f"{SHOWN}/inside"]))["groups"] == ["0"]

    boxes.in_a_host(work)


def test_the_guest_is_a_child_of_init_in_a_session_of_its_own_without_a_terminal(box: Sandbox) -> None:
    found = boxes.facts(box.run([f"{SHOWN}/inside"]))
    assert found["ppid"] == ["1"]
    assert found["sid"] == found["pgrp"] == found["pid"]
    assert found["tty"] in ([str(errno.ENXIO)], [str(errno.ENOENT)])


@pytest.mark.parametrize("how", [signal.SIG_IGN, signal.default_int_handler])
def test_signals_are_default_and_unblocked_whatever_the_hosts_are(how: object, box: Sandbox) -> None:
    changed = (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE, signal.SIGUSR1, signal.SIGCHLD)
    before = {number: signal.signal(number, how) for number in changed}  # type: ignore[arg-type]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2, signal.SIGTERM})
    try:
        with Sandbox(box.policy) as made_meanwhile:
            found = boxes.facts(made_meanwhile.run([f"{SHOWN}/inside"]))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "handled" not in found and "blocked" not in found
    assert {found[name][0] for name in ("SigBlk", "SigIgn", "SigCgt", "SigPnd", "ShdPnd")} == {"0" * 16}


def test_only_three_descriptors_whatever_the_host_has_open(box: Sandbox) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    os.set_inheritable(writing, True)
    try:
        with Sandbox(box.policy) as made_meanwhile:
            found = boxes.facts(made_meanwhile.run([f"{SHOWN}/inside"]))
    finally:
        os.close(reading)
        os.close(writing)
    assert [line.split()[0] for line in found["fd"]] == ["0", "1", "2"]
    assert found["fd"][0] == "0 /dev/null" and all("pipe:" in line for line in found["fd"][1:])


def test_rlimits_are_those_of_limits(box: Sandbox) -> None:
    limits = Limits(open_files=77, file_bytes=1 << 20, address_space_bytes=1 << 30, stack_bytes=1 << 20)
    found = boxes.facts(box.run([f"{SHOWN}/inside"], limits=limits))
    wanted = {"nofile": 77, "fsize": 1 << 20, "as": 1 << 30, "stack": 1 << 20, "core": 1}
    assert {name: found[f"rlimit_{name}"] for name in wanted} == {name: [f"{value} {value}"] for name, value in wanted.items()}
    assert boxes.attempts(box, "hog-fds", limits) == {"hog-fds": errno.EMFILE}


def test_a_guest_may_lower_its_core_limit_and_no_crash_starts_a_helper_all_the_same(box: Sandbox) -> None:
    """Any value but 1 would, where kernel.core_pattern is a pipe."""
    code = (
        "import resource as r, subprocess; r.setrlimit(r.RLIMIT_CORE, (0, 0)); print(r.getrlimit(r.RLIMIT_CORE));"
        "r.setrlimit(r.RLIMIT_NOFILE, (50, 60)); print(r.getrlimit(r.RLIMIT_NOFILE));"
        "subprocess.run(['/bin/sh', '-c', 'ulimit -c 0 && ulimit -c'])"
    )
    result = box.run(["/usr/bin/python3", "-u", "-c", code])
    assert (result.text, result.stderr) == ("(1, 1)\n(50, 60)\n0\n", b"")  # the shell counts in blocks


def test_a_hard_limit_of_the_hosts_stays_and_the_receipt_says_so(guest: Guests) -> None:
    """Nobody in a user namespace of its own may raise one (CAP_SYS_RESOURCE of the machine's)."""

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
        with Sandbox(boxes.strict(guest)) as starved:
            result = starved.run([f"{SHOWN}/inside"], limits=Limits(open_files=300))
        assert boxes.facts(result)["rlimit_nofile"] == ["200 200"]
        told = boxes.layer(result, "rlimits")
        assert told.held and told.detail.endswith("which stays: nofile")

    boxes.in_a_host(work)


def test_the_environment_is_ours(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    found = boxes.facts(box.run([f"{SHOWN}/inside"], env={"MINE": "1"}))
    names = {line.partition("=")[0]: line.partition("=")[2] for line in found["env"]}
    assert set(names) == {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "MINE"}
    assert (names["HOME"], names["LANG"]) == ("/home/guest", "C.UTF-8")


def test_the_receipt_says_that_every_requested_layer_held(box: Sandbox) -> None:
    result = box.run(["/bin/true"])
    assert {name for name in REQUESTED if boxes.layer(result, name).held is not True} == not_held()
    assert boxes.layer(result, "landlock").held is (True if landlock_abi() >= 2 else None)


# ---- other processes ----


def test_init_cannot_be_touched(box: Sandbox) -> None:
    reads, writes = ("environ", "maps"), ("mem", "oom_score_adj", "timerslack_ns")
    files = [f"read /proc/1/{name}" for name in reads] + [f"write /proc/1/{name}" for name in writes]
    tried = boxes.attempts(box, " , ".join(["ptrace 1", "vmread 1", *files]))
    assert set(tried.values()) <= {errno.EPERM, errno.EACCES}, tried
    for path in ("root", "cwd", "exe", "fd/0", "ns/mnt"):
        assert status_of(box, f"readlink /proc/1/{path} >/dev/null || exit 7") == 7
    assert status_of(box, "ls /proc/1/fd /proc/1/map_files /proc/1/root || exit 7") == 7
    writable = told(box, "/usr/bin/find", "/proc/1", "-maxdepth", "1", "-type", "f", "-writable")
    assert writable == ["/proc/1/timerslack_ns"]  # tried above: it asks for a capability


def test_init_outlives_every_signal_and_still_keeps_the_deadline(box: Sandbox) -> None:
    every = " , ".join(f"kill 1 {number}" for number in signal.valid_signals())
    assert set(boxes.attempts(box, every)) == {"kill"}
    result = box.run(["/bin/sh", "-c", "kill -STOP 1; kill -KILL 1; kill -KILL -1; sleep 30"], limits=Limits(wall_seconds=0.2))
    assert result.status is Status.WALL_LIMIT


def test_only_its_own_processes_are_seen(box: Sandbox) -> None:
    pids = [name for name in told(box, "/bin/ls", "/proc") if name.isdigit()]
    assert pids == ["1", "2"]


def test_no_way_to_new_namespaces_or_mounts(box: Sandbox) -> None:
    words = [f"unshare {flag} , clone {flag}" for flag in NEW_NAMESPACES if flag != 0x80] + ["unshare 0x80"]
    tried = boxes.attempts(box, " , ".join(words))
    assert tried == {"unshare": errno.EPERM, "clone": errno.EPERM}
    refused = boxes.attempts(box, "mount , chroot / , sethostname , keyctl , setuid 0 , mknod /tmp/null , clone3")
    wanted = dict.fromkeys(("mount", "chroot", "sethostname", "keyctl", "mknod"), errno.EPERM)
    assert refused == {**wanted, "setuid": errno.EINVAL, "clone3": errno.ENOSYS}


# ---- network and terminals ----


def test_lo_is_up_and_there_is_nothing_else(box: Sandbox) -> None:
    found = boxes.facts(box.run([f"{SHOWN}/inside"]))
    assert (found["interface"], found["lo_up"]) == (["lo"], ["1"])
    assert boxes.attempts(box, "inet 127.0.0.1 9") == {"inet": errno.ECONNREFUSED}
    assert boxes.attempts(box, "inet 192.0.2.1 80") == {"inet": errno.ENETUNREACH}


def test_a_listener_of_the_hosts_is_not_there(box: Sandbox) -> None:
    name = f"sandbox-native-test-{os.getpid()}"
    with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind("\0" + name)
        abstract.listen()
        tried = boxes.attempts(box, f"inet 127.0.0.1 {tcp.getsockname()[1]} , connect-abstract {name}")
    assert tried == {"inet": errno.ECONNREFUSED, "connect-abstract": errno.ECONNREFUSED}


def test_sockets_are_unix_and_inet_only(box: Sandbox) -> None:
    families = {int(getattr(socket, name)) for name in dir(socket) if name.startswith("AF_")} - {0, 1, 2, 10}
    assert len(families) > 10
    assert set(boxes.attempts(box, " , ".join(f"socket {family}" for family in families)).values()) == {errno.EAFNOSUPPORT}
    for family in (1, 2, 10):
        assert boxes.attempts(box, f"socket {family}") == {"socket": 0}


def test_nothing_is_typed_into_a_terminal(box: Sandbox) -> None:
    assert boxes.attempts(box, "tiocsti , tioclinux") == {"tiocsti": errno.EPERM, "tioclinux": errno.EPERM}


@pytest.mark.needs("root")
def test_under_light_too_init_and_host_are_out_of_reach(guest: Guests) -> None:
    """No filter there: what holds is the kernel's own."""
    with Sandbox(Policy.light(readable=boxes.shown(guest))) as box:
        words = "ptrace 1 , vmread 1 , read /proc/1/ns/net , write /proc/1/mem , mount , chroot / , sethostname"
        tried = boxes.attempts(box, words)
        assert set(tried.values()) <= {errno.EPERM, errno.EACCES}, tried
        result: Result = box.run(["/bin/sh", "-c", "kill -KILL 1; kill -KILL -1; exit 3"])
        assert (result.status, result.exit_code) == (Status.NONZERO_EXIT, 3)
        assert boxes.layer(result, "seccomp").held is None
