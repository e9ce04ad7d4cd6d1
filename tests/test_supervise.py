"""The supervisor of refused calls (csrc/launcher/supervise.c): what a guest is answered, what is noted, and how both end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from boxes import MIB, PATIENCE, Guests, become_plain, in_a_host, layer, public, until
from running import kill_all, launchers, sh
from test_seccomp_kernel import ANSWERS, NUMBERS

from sandbox_native import Denial, Limits, Policy, Result, Sandbox, SetupError, Status

EVERYWHERE = "/asked"
LIMITS = Limits(wall_seconds=20, processes=80)
pytestmark = pytest.mark.kernel


def policy(guest: Guests, *, explain: bool = True, **fields: object) -> Policy:
    readable = [(str(guest[name]), f"{EVERYWHERE}/{name}") for name in ("asks", "attempts")]
    return Policy.strict(readable=readable, explain=explain, **fields)  # type: ignore[arg-type]


@pytest.fixture
def box(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(policy(guest), LIMITS) as sandbox:
        yield sandbox


def asks(sandbox: Sandbox, words: str) -> Result:
    return sandbox.run([f"{EVERYWHERE}/asks", *words.split()])


def answers(result: Result) -> dict[str, str]:
    assert result.status is Status.OK, (result.status, result.hint, result.stderr)
    return dict(line.split(" ", 1) for line in result.text.splitlines())


def told(result: Result, name: str) -> Denial:
    (one,) = [denial for denial in result.denials if denial.name == name]
    return one


# ---- the guest is answered as without it ----

PATHS = """/etc/shadow /etc/passwd /usr/bin/env /nothing /root/.bashrc /proc/1/status /proc/self/maps /dev/null /dev/kvm /usr /etc
    /workspace/x /tmp /usr/bin/env/x /proc/1/root/etc/passwd"""
OTHERS = """tiocsti , tioclinux , tty , mount , clone3 , setuid 0 , setuid 1000 , chroot / , setns /proc/self/ns/net ,
    sethostname , keyctl , ptrace 1 , kill 1 9 , kill 2 0 , vmread 1 , link /etc/passwd /tmp/l , link /etc /usr/l ,
    connect /run/nothing , connect-abstract nothing , inet 127.0.0.1 1 , inet 192.0.2.1 80 , hog-fds"""
TRIED = [
    *(f"{verb} {path}" for path in PATHS.split() for verb in ("read", "write", "create", "mkdir", "mknod", "chown")),
    *(f"socket {family}" for family in range(46)),
    *(f"unshare {1 << bit}" for bit in range(32)),
    *(f"clone {1 << bit}" for bit in (7, 17, *range(25, 31))),
    *OTHERS.split(","),
]


def raw(name: str, arguments: tuple[int, ...]) -> str:
    signed = [value - (1 << 64) if value >= 1 << 63 else value for value in arguments]
    return " ".join(map(str, ["syscall", NUMBERS.get(name, name), *signed]))


def test_every_attempt_is_answered_as_without_a_supervisor(guest: Guests, box: Sandbox) -> None:
    words = " , ".join([*TRIED, *(raw(name, arguments) for name, arguments, _ in ANSWERS)])
    command = [f"{EVERYWHERE}/attempts", *words.split()]
    with Sandbox(policy(guest, explain=False), LIMITS) as plain:
        expected = plain.run(command)
    explained = box.run(command)
    assert (explained.status, explained.text.splitlines()) == (Status.OK, expected.text.splitlines())
    assert len(explained.text.splitlines()) == len(TRIED) + len(ANSWERS)
    assert len(explained.denials) > 60 and expected.denials == ()


@pytest.mark.needs("x86_64")
@pytest.mark.parametrize("entry", ["int80 20", "x32 39"])
def test_another_architectures_call_ends_the_tree_and_is_told(box: Sandbox, entry: str) -> None:
    result = box.run([f"{EVERYWHERE}/attempts", *entry.split()])
    assert (result.status, result.text) == (Status.FORBIDDEN_SYSCALL, "")
    assert "getpid" in (result.hint or "") and told(result, "getpid").count == 1


def test_a_guest_waits_for_its_answer_though_signals_come(box: Sandbox) -> None:
    result = asks(box, "signals 2000")
    others = int(answers(result)["signals"].split()[0].removeprefix("others="))
    # A signal before the supervisor has taken the call interrupts it, as any wait; then it was not answered, nor counted.
    assert told(result, "socket").count == 2000 - others and others < 400


# ---- what is noted ----


def test_refused_calls_are_named_and_counted(box: Sandbox) -> None:
    words = "syscall 0 , " + " , ".join(
        raw(name, arguments) for name, arguments in (("keyctl", (11,)), ("bpf", (5,)), ("keyctl", (11,)), ("unshare", (1 << 28,)))
    )
    result = box.run([f"{EVERYWHERE}/attempts", *words.split()])
    found = {(one.name, one.arguments): one.count for one in result.denials}
    assert found == {("keyctl", "KEYCTL_READ"): 2, ("bpf", "BPF_PROG_LOAD"): 1, ("unshare", "CLONE_NEWUSER"): 1}


def test_a_call_that_works_is_no_denial(box: Sandbox) -> None:
    result = box.run(sh("echo x >/tmp/a; mkdir /workspace/b; cat /tmp/a; ls /usr/bin >/dev/null; test -e /usr/nothing"))
    assert result.text == "x\n" and result.denials == ()


def test_threads_and_children_are_heard(box: Sandbox) -> None:
    result = asks(box, "threads 8 50 , children 8 50")
    assert answers(result) == {"threads": "errno=0", "children": "errno=0"}
    assert told(result, "socket").count == 800


def test_a_storm_is_one_denial(box: Sandbox) -> None:
    result = asks(box, "refused 100000")
    assert answers(result) == {"refused": "errno=97"}
    assert [one.count for one in result.denials] == [100_000]


def test_their_number_is_bounded_and_what_had_no_room_is_counted(box: Sandbox) -> None:
    result = asks(box, "kinds 1000")
    assert len(result.denials) == 257 and sum(one.count for one in result.denials) == 1000
    assert told(result, "others").count == 1000 - 256


def test_paths_leave_room_for_refused_calls(box: Sandbox) -> None:
    script = "for n in $(seq 400); do test -e /root/$n; done; exec /asked/asks refused 2"
    result = box.run(sh(script))
    assert told(result, "socket").count == 2


def test_what_is_missing_on_the_host_too_takes_no_room(box: Sandbox) -> None:
    script = "for n in $(seq 400); do test -e /usr/lib/$n -o -e /workspace/$n; done; cat /etc/shadow"
    assert [one.name for one in box.run(sh(script)).denials] == ["/etc/shadow"]


def test_paths_are_absolute_as_the_guest_sees_them(box: Sandbox) -> None:
    result = asks(box, "relative /usr ../etc/shadow , relative / ./etc//shadow")
    assert {(one.kind, one.name, one.count) for one in result.denials} == {("path", "/etc/shadow", 4)}


def test_a_link_is_followed_as_the_guest_would(box: Sandbox) -> None:
    result = box.run(sh("cat /etc/mtab /dev/stdin >/dev/null; ln -s ../etc/shadow /tmp/s; ln -s s /tmp/t; cat /tmp/t"))
    assert [(one.name, one.count) for one in result.denials] == [("/etc/shadow", 1)]
    result = box.run(sh("ln -s /usr/bin /tmp/here; test -e /tmp/here/env && cat /tmp/here/nothing; : >/tmp/here/x"))
    assert [(one.name, one.arguments) for one in result.denials] == [("/tmp/here/x", "openat O_WRONLY|O_CREAT|O_TRUNC")]


# ---- hostile guests ----


@pytest.mark.parametrize("words", ["edge", "unmapped", "endless", "removed", "hidden", "unix /run/nothing", "exec /nothing"])
def test_strange_paths_hurt_nobody(guest: Guests, box: Sandbox, words: str) -> None:
    with Sandbox(policy(guest, explain=False), LIMITS) as plain:
        expected = asks(plain, words).text
    result = asks(box, f"{words} , refused 1")
    assert result.text == expected + "refused errno=97\n"
    assert told(result, "socket").count == 1


def test_a_path_that_ends_with_its_page_is_read(box: Sandbox) -> None:
    assert told(asks(box, "edge"), "/etc/shadow").count == 1


def test_one_that_hides_its_memory_is_read_too(box: Sandbox) -> None:
    assert told(asks(box, "hidden"), "/etc/shadow").count == 1


def test_what_is_read_decides_nothing(box: Sandbox) -> None:
    """The guest changes the path under the supervisor's eyes, and opens what the box lets it open."""
    result = asks(box, "racing /etc/shadow /usr/bin/env 3000")
    assert result.status is Status.OK and "opened=0" not in result.text
    assert {one.name for one in result.denials} <= {"/etc/shadow", "clone3"}


def test_a_guest_cannot_listen_itself(guest: Guests) -> None:
    with Sandbox(policy(guest, syscalls=["seccomp"]), LIMITS) as sandbox:
        result = asks(sandbox, "listener")
    assert result.text == "listener errno=16\n"  # EBUSY


# ---- ends ----


def supervisors() -> list[int]:
    """Processes of ours that hold a listener."""
    found = []
    for pid in launchers():
        try:
            links = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
        except FileNotFoundError:
            continue
        found += [pid] if "anon_inode:seccomp notify" in links else []
    return found


@contextmanager
def asking(sandbox: Sandbox) -> Iterator[int]:
    """A run in which calls are refused until nobody answers; its supervisor."""
    before = set(supervisors())
    with sandbox.spawn([f"{EVERYWHERE}/asks", "until-enosys"], stdin=b"") as process:
        assert process.stdout.readline() == b"asking errno=0\n"
        (supervisor,) = set(supervisors()) - before
        yield supervisor
        process.wait()


def test_without_its_supervisor_a_guest_gets_nothing_and_the_run_is_none(box: Sandbox) -> None:
    started = time.monotonic()
    with pytest.raises(SetupError) as caught, asking(box) as supervisor:
        kill_all([supervisor])
    assert (caught.value.stage, caught.value.item) == ("explain", "supervisor")
    assert time.monotonic() - started < LIMITS.wall_seconds / 2  # the guest saw ENOSYS and ended
    assert told(asks(box, "refused 1"), "socket").count == 1


def test_the_supervisor_has_no_capability_and_the_guests_own_id(box: Sandbox) -> None:
    with pytest.raises(SetupError), asking(box) as supervisor:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{supervisor}/status").read_text().splitlines())
        assert [int(status[name], 16) for name in ("CapEff", "CapPrm", "CapInh")] == [0, 0, 0]
        assert status["NoNewPrivs"].strip() == "1" and status["Groups"].split() == []
        if os.geteuid() == 0:
            assert "0" not in status["Uid"].split() + status["Gid"].split()
        kill_all([supervisor])


def test_it_ends_with_its_run_whatever_ends_it(guest: Guests) -> None:
    endings = (
        (["/bin/true"], LIMITS, Status.OK),
        (["/bin/sleep", "9"], Limits(wall_seconds=0.05), Status.WALL_LIMIT),
        (sh("yes"), Limits(wall_seconds=5, cpu_seconds=0.05), Status.CPU_LIMIT),
        (sh("kill -SEGV $$"), LIMITS, Status.SIGNALED),
    )
    with Sandbox(policy(guest), LIMITS) as sandbox:
        for argv, limits, status in endings:
            assert sandbox.run(argv, limits=limits).status is status
        with pytest.raises(SetupError):
            sandbox.run(["/nothing"])
        with sandbox.spawn(["/bin/sleep", "9"], stdin=b"") as process:
            until(lambda: len(supervisors()) == 1, PATIENCE, "a supervisor")
            process.kill()
            assert process.wait().status is Status.CANCELLED
        until(lambda: supervisors() == [], PATIENCE, "no supervisor")


def test_it_ends_when_the_host_is_killed(guest: Guests, tmp_path: Path) -> None:
    def host() -> None:
        with Sandbox(policy(guest), LIMITS) as sandbox, sandbox.spawn(["/bin/sleep", "9"], stdin=b""):
            until(lambda: supervisors() != [], PATIENCE, "a supervisor")
            (tmp_path / "pid").write_text(str(supervisors()[0]))
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(AssertionError, match="wait status 9"):
        in_a_host(host)
    supervisor = (tmp_path / "pid").read_text()
    until(lambda: not Path("/proc", supervisor).exists(), PATIENCE, "no supervisor")


def test_many_runs_have_one_each(guest: Guests) -> None:
    with Sandbox(policy(guest), LIMITS) as sandbox, ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda count: asks(sandbox, f"refused {count}"), range(1, 33)))
    assert [told(result, "socket").count for result in results] == list(range(1, 33))


def test_workspaces_are_bound_while_supervisors_serve(guest: Guests, tmp_path: Path) -> None:
    with Sandbox(policy(guest), LIMITS) as sandbox, sandbox.spawn([f"{EVERYWHERE}/asks", "refused", "20000"], stdin=b"") as busy:
        for _ in range(5):
            result = sandbox.run(sh("echo x >>/workspace/file"), workspace=tmp_path)
            assert result.status is Status.OK
        assert told(busy.wait(), "socket").count == 20_000
    assert (tmp_path / "file").read_text() == "x\n" * 5


def test_a_plain_user_is_told_the_same(guest: Guests) -> None:
    with public(guest, "asks") as found:

        def host() -> None:
            become_plain()
            os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(found["launcher"])
            with Sandbox(policy(found), LIMITS) as sandbox:
                result = asks(sandbox, "refused 3 , edge , hidden")
                assert layer(result, "explain").held
                assert (told(result, "socket").count, told(result, "/etc/shadow").count) == (3, 2)
                assert asks(sandbox, "foreign").status is Status.FORBIDDEN_SYSCALL

        in_a_host(host)


def test_memory_that_it_takes_is_not_the_guests(box: Sandbox) -> None:
    assert asks(box, "kinds 1000").usage.peak_memory_bytes < 4 * MIB
