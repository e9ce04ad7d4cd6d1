"""Nothing passes from one run to the next in a slot, also where the network namespace is handed on (csrc/launcher/netns.c)."""

from __future__ import annotations

import ast
import ctypes
import errno
import json
import subprocess
from collections.abc import Iterator
from typing import Any

import boxes
import pytest

from sandbox_native import Policy, Sandbox, Status

pytestmark = pytest.mark.needs("userns")
PY = ["/usr/bin/python3", "-I", "-S", "-c"]
SLOTS = 2  # served in turn
START = "import array, ctypes, fcntl, os, socket, struct, sys, time\n"

# What can be read of a network namespace without a capability. Files that count for the whole machine are left out.
LOOK = (
    START
    + """
import json
names = ("dev dev_mcast dev_snmp6/lo snmp snmp6 netstat unix igmp igmp6 mcfilter mcfilter6 anycast6 ip6_flowlabel rt6_stats "
         "ipv6_route if_inet6 fib_trie fib_triestat route arp tcp tcp6 udp udp6 raw raw6 packet xfrm_stat").split()
seen = {"": os.readlink("/proc/self/ns/net")}
for name in names:
    try: seen[name] = open("/proc/net/" + name).read()
    except OSError as problem: seen[name] = str(problem.errno)
for top, _, files in os.walk("/proc/sys/net"):
    for name in files:
        try: seen[top + "/" + name] = open(top + "/" + name).read()
        except OSError as problem: seen[top + "/" + name] = str(problem.errno)
print(json.dumps(seen))
"""
)
MACHINE_WIDE = ("nf_conntrack_count", "/sys/net/core/", "nf_log")

LABEL = "socket.inet_pton(socket.AF_INET6, '::1') + struct.pack('!I', {}) + struct.pack('=BBHHHI', 0, 255, 3, 0, 100, 0)"
SOURCE = "socket.inet_aton('239.1.2.3') + socket.inet_aton('127.0.0.1') + socket.inet_aton('10.9.8.7')"
GROUP6 = "socket.inet_pton(socket.AF_INET6, 'ff05::7') + struct.pack('=i', 1)"
# Each ends with _exit: what the kernel sends later, from a timer, it sends when nobody is left.
NETWORK = {
    "a packet on lo": "a = socket.socket(2, 2); a.sendto(b'x', ('127.0.0.1', 9))",
    "a refused connect": "a = socket.socket(2, 1); a.connect_ex(('127.0.0.1', 9))",
    "a connect to nowhere": "a = socket.socket(2, 1); a.connect_ex(('192.0.2.1', 9))",
    "a connection": "a = socket.create_server(('127.0.0.1', 0)); b = socket.create_connection(a.getsockname()); b.send(b'x')",
    "a route that was looked up": "a = socket.socket(10, 2); a.connect(('::1', 9))",
    "one for each processor": """
for cpu in os.sched_getaffinity(0): os.sched_setaffinity(0, [cpu]); a = socket.socket(10, 2); a.connect(('::1', 9))""",
    "a flow label": f"a = socket.socket(10, 2); a.setsockopt(41, 32, {LABEL.format('0x12345')})",
    "many flow labels": f"a = socket.socket(10, 2); [a.setsockopt(41, 32, {LABEL.format('i')}) for i in range(1, 20)]",
    "an IPv4 group": f"a = socket.socket(2, 2); a.setsockopt(0, 39, {SOURCE})",
    "an IPv6 group": f"a = socket.socket(10, 2); a.setsockopt(41, 20, {GROUP6})",
    "a listener": "a = socket.socket(2, 1); a.bind(('127.0.0.1', 5000)); a.listen()",
    "a fast open key": "a = socket.socket(2, 1); a.setsockopt(6, 23, 5); a.bind(('127.0.0.1', 5000)); a.listen()",
    "an abstract name": "a = socket.socket(1, 1); a.bind('\\0kept'); a.listen()",
    "an automatic name": "a = socket.socket(1, 2); a.bind('')",
    "a listener in its own queue": """
a, b = socket.socketpair(); c = socket.socket(1, 1); c.bind('\\0kept'); c.listen()
d = socket.socket(2, 1); d.bind(('127.0.0.1', 5000)); d.listen()
for one in (a, b, c, d): a.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [one.fileno()]))])""",
}


# Also on other kernels: the rest are their brothers.
SOME = ("a packet on lo", "a route that was looked up", "a flow label", "an IPv4 group", "an IPv6 group")


@pytest.fixture
def box() -> Iterator[Sandbox]:
    with Sandbox() as sandbox:
        yield sandbox


def run(box: Sandbox, code: str) -> str:
    result = box.run([*PY, code])
    assert result.status is Status.OK, (result.status, result.stderr)
    return result.text


def look(box: Sandbox) -> tuple[str, dict[str, Any]]:
    """The namespace's name, and what is to be read in it."""
    seen = json.loads(run(box, LOOK))
    return seen.pop(""), {name: text for name, text in seen.items() if not any(part in name for part in MACHINE_WIDE)}


@pytest.mark.kernel
def test_a_network_namespace_that_nobody_used_is_handed_on(box: Sandbox) -> None:
    first = [look(box)[0] for _ in range(SLOTS)]
    assert [look(box)[0] for _ in range(SLOTS)] == first


@pytest.mark.parametrize("what", [pytest.param(what, marks=pytest.mark.kernel if what in SOME else ()) for what in NETWORK])
def test_the_next_run_does_not_see(what: str, box: Sandbox) -> None:
    fresh = [look(box)[1] for _ in range(SLOTS)]
    run(box, f"{START}try:\n{indented(NETWORK[what])}\nexcept OSError as problem: print(problem)\nos._exit(0)")
    for _ in range(SLOTS):
        seen = look(box)[1]
        names = fresh[0].keys() | seen.keys()
        assert {name: (fresh[0].get(name), seen.get(name)) for name in names if fresh[0].get(name) != seen.get(name)} == {}


def indented(code: str) -> str:
    return "\n".join(f" {line}" for line in code.strip().splitlines())


def test_what_was_bound_is_free_again(box: Sandbox) -> None:
    bind = NETWORK["an abstract name"] + "\n" + NETWORK["a listener"]
    for _ in range(2 * SLOTS):
        run(box, START + bind + "\nos._exit(0)")


# Everything but the network: left in one run, looked for in the next ones.
LEAVE = (
    START
    + """
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget(0x5a5a, 4096, 0o1666) >= 0 and libc.semget(0x5a5a, 1, 0o1666) >= 0 and libc.msgget(0x5a5a, 0o1666) >= 0
assert libc.mq_open(b"/kept", os.O_CREAT | os.O_RDWR, 0o666, None) >= 0
for place in ("/tmp", "/home/guest", "/workspace", "/dev/shm"): open(place + "/kept", "w").write("x")
os.nice(5); os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); os.umask(0)
lock = open("/usr/bin/env"); fcntl.flock(lock, fcntl.LOCK_EX)
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
"""
)
LEFT = (
    START
    + """
libc = ctypes.CDLL(None, use_errno=True)
print("shm", libc.shmget(0x5a5a, 0, 0), "sem", libc.semget(0x5a5a, 0, 0), "msg", libc.msgget(0x5a5a, 0))
print("mq", libc.mq_open(b"/kept", os.O_RDWR, 0, None))
for place in ("/tmp", "/home/guest", "/workspace", "/dev/shm"): print(place, os.listdir(place))
fcntl.flock(open("/usr/bin/env"), fcntl.LOCK_EX | fcntl.LOCK_NB)
print("nice", os.nice(0), "cpus", sorted(os.sched_getaffinity(0)), "umask", os.umask(0), "pid", os.getpid(), "at", os.getcwd())
print([name for name in os.listdir("/proc") if name.isdigit()], open("/proc/self/oom_score_adj").read())
"""
)


@pytest.mark.kernel
def test_nothing_else_is_left_either(box: Sandbox) -> None:
    before = [run(box, LEFT) for _ in range(SLOTS)]
    assert before[0] == before[1] and "shm -1 sem -1 msg -1\nmq -1\n" in before[0]
    for _ in range(SLOTS):
        run(box, LEAVE)
    assert [run(box, LEFT) for _ in range(SLOTS)] == before


ADD_KEY, KEYCTL, JOIN_SESSION, SEARCH = 248, 250, 1, 10  # of x86_64
RINGS = (-3, -4, -5)  # session, user, user session
KEYS = START + "call = ctypes.CDLL(None, use_errno=True).syscall\n"
ADD = f"assert call({ADD_KEY}, b'user', b'kept', b'x', 1, ctypes.c_long({{ring}})) > 0 or ctypes.get_errno() == 38\n"
FIND = f"print(call({KEYCTL}, {SEARCH}, ctypes.c_long({{ring}}), b'user', b'kept', 0))\n"


@pytest.mark.needs("x86_64")
def test_a_key_that_a_run_left_is_not_found_by_the_next() -> None:
    """Under light, where nothing stands between the guest and the keyrings: they are those of its user namespace."""
    with Sandbox(Policy.light()) as box:
        run(box, KEYS + "".join(ADD.format(ring=ring) for ring in RINGS))
        for _ in range(SLOTS):
            assert set(run(box, KEYS + "".join(FIND.format(ring=ring) for ring in RINGS)).split()) == {"-1"}


@pytest.mark.needs("x86_64")
def test_a_key_of_the_hosts_session_is_not_the_guests() -> None:
    """Who inherits a session keyring possesses it, whatever its own user is."""

    def work() -> None:
        call = ctypes.CDLL(None, use_errno=True).syscall
        if call(KEYCTL, JOIN_SESSION, None) < 0:
            assert ctypes.get_errno() == errno.ENOSYS
            return
        assert call(ADD_KEY, b"user", b"kept", b"x", 1, ctypes.c_long(RINGS[0])) > 0
        assert call(KEYCTL, SEARCH, ctypes.c_long(RINGS[0]), b"user", b"kept", 0) > 0
        with Sandbox(Policy.light()) as box:
            assert run(box, KEYS + FIND.format(ring=RINGS[0])) == "-1\n"

    boxes.in_a_host(work)


# ---- what a process is told of itself, and what we tell of it

SPEND = "held = bytearray(96 << 20)\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
COUNTED = (
    START
    + """
import resource
own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
print(own.ru_utime + own.ru_stime, children.ru_utime + children.ru_stime, time.process_time(), own.ru_maxrss)
"""
)
SPENT_SECONDS, SPENT_BYTES = 0.35, 96 << 20


def test_memory_and_time_of_one_run_are_not_in_the_figures_of_the_next(box: Sandbox) -> None:
    for _ in range(SLOTS):
        spent = box.run([*PY, START + SPEND]).usage
        assert spent.cpu_seconds >= SPENT_SECONDS and (spent.peak_memory_bytes or SPENT_BYTES) >= SPENT_BYTES
    for _ in range(2 * SLOTS):
        result = box.run([*PY, COUNTED])
        told = [float(word) for word in result.text.split()]
        assert max(told[:3]) < SPENT_SECONDS and told[1] == 0.0 and told[3] * 1024 < SPENT_BYTES
        assert result.usage.cpu_seconds < SPENT_SECONDS and (result.usage.peak_memory_bytes or 0) < SPENT_BYTES
        assert result.usage.peak_processes == 1


def test_every_run_has_the_same_pid_and_begins_its_counts_anew(box: Sandbox) -> None:
    counts = [box.run(["/bin/cat", "/proc/self/stat"]) for _ in range(2 * SLOTS)]
    assert {result.text.split()[0] for result in counts} == {"2"}
    assert all(result.usage.cpu_seconds < 0.5 and result.usage.peak_processes == 1 for result in counts)


# Looks for a text wherever a process can: in what is told of each process, and in its own memory. The code has it in two parts.
SEEK = (
    START
    + """
head, tail, found = b"kept-of-", b"one-run", []
def look(name, text):
    at = text.find(head)
    while at >= 0:
        if text[at + len(head):at + len(head) + len(tail)] == tail: found.append(name)
        at = text.find(head, at + 1)
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for what in ("environ", "cmdline", "comm"):
        try: look(pid + " " + what, open(f"/proc/{pid}/{what}", "rb").read())
        except PermissionError: continue  # init's
for line in [line for line in open("/proc/self/maps").readlines() if " rw" in line]:
    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        memory.seek(begin)
        look("memory", memory.read(end - begin))
print(sorted(set(found)))
"""
)
GIVEN = "kept-of-one-run"
USE = START + "assert os.environ['A'] == os.environ['B'] == sys.argv[1] == sys.stdin.read() == open('f').read()"
USED: dict[str, Any] = {"env": {"A": GIVEN}, "secrets": {"B": GIVEN}, "stdin": GIVEN.encode(), "files": {"f": GIVEN.encode()}}
SHOW = START + "print(sorted(os.environ), sys.argv, sys.stdin.read())"


def test_environment_arguments_input_and_files_of_one_run_are_not_in_the_memory_of_the_next(box: Sandbox) -> None:
    assert set(ast.literal_eval(box.run([*PY, SEEK], env={"A": GIVEN}).text)) >= {"2 environ", "memory"}  # it is not blind
    fresh = [run(box, SHOW) for _ in range(SLOTS)]
    for _ in range(SLOTS):
        assert box.run([*PY, USE, GIVEN], **USED).ok
    assert {run(box, SEEK) for _ in range(2 * SLOTS)} == {"[]\n"}
    assert [run(box, SHOW) for _ in range(SLOTS)] == fresh


OPEN = (
    START
    + """
for number in range(10, 60): os.dup2(os.memfd_create("kept"), number, inheritable=True)
a, b = socket.socketpair()
a.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", range(10, 60)))])
os.set_inheritable(os.open("/tmp/kept", os.O_CREAT | os.O_RDWR), True)
print(os.readlink("/proc/self/fd/1"))
"""
)
LISTING = "3"  # the descriptor of the listing itself, as nothing else is open
DESCRIPTORS = (
    START
    + f"""
names = [name for name in os.listdir("/proc/self/fd") if name != "{LISTING}"]
print({{int(name): os.readlink("/proc/self/fd/" + name) for name in names}})
"""
)


def test_descriptors_of_one_run_are_not_those_of_the_next(box: Sandbox) -> None:
    pipes = [run(box, OPEN).strip() for _ in range(SLOTS)]
    for _ in range(2 * SLOTS):
        seen = ast.literal_eval(run(box, DESCRIPTORS))
        assert sorted(seen) == [0, 1, 2]
        assert seen[1] not in pipes and seen[1] != seen[2]
        pipes.append(seen[1])


LAYOUT = (
    START
    + """
import json
libc = ctypes.CDLL(None)
libc.getauxval.restype = ctypes.c_ulong
places = {"random": ctypes.string_at(libc.getauxval(25), 16).hex()}
for line in open("/proc/self/maps"):
    fields = line.split()
    if len(fields) > 5: places.setdefault(os.path.basename(fields[5]), fields[0].split("-")[0])
print(json.dumps(places))
"""
)
RUNS = 4 * SLOTS


def test_no_two_runs_have_their_memory_at_the_same_places(box: Sandbox) -> None:
    """Programs are executed anew, so the kernel chooses stack, heap, libraries and the stack protector's secret for each."""
    layouts = [json.loads(run(box, LAYOUT)) for _ in range(RUNS)]
    names = set.intersection(*(set(layout) for layout in layouts))
    assert {"random", "[stack]", "[heap]", "libc.so.6"} <= names
    here = json.loads(subprocess.run([*PY, LAYOUT], capture_output=True, check=True).stdout)
    fixed = {name for name in names if here.get(name) == layouts[0][name]}  # of a program that is linked to one place
    for name in names - fixed:
        assert len({layout[name] for layout in layouts}) == RUNS, name
    assert not {"random", "[stack]", "[heap]", "libc.so.6"} & fixed
