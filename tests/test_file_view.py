"""The file tree that a guest sees: what is there, what is not, what may be written and how much of it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import boxes
import pytest
from boxes import MIB, Guests

from sandbox_native import Limits, Policy, Sandbox, Status

pytestmark = pytest.mark.needs("userns")
PRIVATE = ("/tmp", "/home/guest", "/workspace", "/dev/shm", "/dev/mqueue")


@pytest.fixture
def box(guest: Guests) -> Iterator[Sandbox]:
    with Sandbox(boxes.strict(guest)) as sandbox:
        yield sandbox


def shell(box: Sandbox, command: str, limits: Limits | None = None) -> list[str]:
    result = box.run(["/bin/sh", "-c", command], limits=limits)
    assert result.status in (Status.OK, Status.NONZERO_EXIT), (result.status, result.hint)
    return result.text.splitlines()


def mounts(box: Sandbox) -> dict[str, tuple[set[str], str]]:
    """Mount point -> its options and file system."""
    found = {}
    for line in shell(box, "cat /proc/self/mountinfo"):
        fields, _, tail = line.partition(" - ")
        found[fields.split()[4]] = set(fields.split()[5].split(",")), tail.split()[0]
    return found


@pytest.mark.kernel
def test_the_root_is_ours_and_the_old_one_is_gone(box: Sandbox) -> None:
    entries = set(shell(box, "ls -A /"))
    assert {"usr", "bin", "lib", "etc", "dev", "proc", "tmp", "home", "workspace", "run", "var"} <= entries
    assert not entries & {"boot", "root", "srv", "mnt", "media", "sys", "old", "new"}
    assert shell(box, "cd /; cd ..; pwd; ls -d /proc/1/root/boot 2>/dev/null") == ["/"]
    assert not [place for place in mounts(box) if "old" in place]


@pytest.mark.kernel
def test_everything_but_private_places_is_read_only_and_nothing_is_setuid_or_a_device(box: Sandbox) -> None:
    found = mounts(box)
    writable = {place for place, (options, _) in found.items() if "ro" not in options}
    assert writable == {*PRIVATE, "/proc"}
    assert not [place for place, (options, _) in found.items() if "nosuid" not in options]
    devices = {place for place, (options, _) in found.items() if "nodev" not in options}
    assert devices == {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")}
    assert not [place for place in ("/proc", "/dev/shm") if "noexec" not in found[place][0]]


@pytest.mark.kernel
def test_nothing_is_made_outside_the_private_places(box: Sandbox) -> None:
    places = ("", "/usr", "/etc", "/opt", "/dev", "/run", "/home", "/var", "/bin", "/proc")
    worst = boxes.attempts(box, " , ".join(f"create {place}/x" for place in places))
    assert worst["create"] in (errno.EROFS, errno.EACCES, errno.ENOENT)


@pytest.mark.kernel
def test_private_places_are_the_guests_and_empty(box: Sandbox) -> None:
    assert shell(box, f"ls -A {' '.join(PRIVATE)} | grep -v : | tr -d '\\n'") == []
    words = " , ".join(f"create {place}/x" for place in PRIVATE)
    assert boxes.attempts(box, words) == {"create": 0}
    assert shell(box, "cd ~ && pwd && stat -c '%u %a' /home/guest /workspace") == ["/home/guest", "1000 700", "1000 755"]


@pytest.mark.kernel
def test_etc_is_made_up(box: Sandbox) -> None:
    assert shell(box, "cut -d: -f1,3 /etc/passwd") == ["root:0", "guest:1000", "nobody:65534"]
    assert shell(box, "cat /etc/hostname") == ["sandbox"]
    hidden = ("shadow", "gshadow", "sudoers", "machine-id", "ssh", "fstab", "crontab", "resolv.conf", "hostname.bak")
    assert not set(shell(box, "ls -A /etc")) & set(hidden)
    assert "localhost" in shell(box, "getent hosts localhost || cat /etc/hosts")[0]


@pytest.mark.kernel
def test_dev_has_what_programs_need_and_no_more(box: Sandbox) -> None:
    there = {"null", "zero", "full", "random", "urandom", "fd", "stdin", "stdout", "stderr", "shm", "mqueue"}
    assert set(shell(box, "ls /dev")) == there
    assert shell(box, "head -c 3 /dev/zero | od -An -tx1; head -c 4 /dev/urandom | wc -c") == [" 00 00 00", "4"]
    assert shell(box, "echo x > /dev/null; echo x > /dev/full || echo full") == ["full"]


@pytest.mark.kernel
def test_the_standard_streams_open_by_name(box: Sandbox) -> None:
    """The pipes are the host user's, and the guest is another."""
    result = box.run(["/bin/sh", "-c", "cat /dev/stdin > /dev/stdout; echo err > /dev/stderr; cat /dev/fd/0"], stdin=b"in\n")
    assert (result.status, result.stdout, result.stderr) == (Status.OK, b"in\n", b"err\n")


@pytest.mark.kernel
def test_proc_is_the_boxs_own(box: Sandbox) -> None:
    pids = [name for name in shell(box, "ls /proc") if name.isdigit()]
    assert pids == ["1", "2", "3"]  # init, sh, ls


@pytest.mark.kernel
def test_what_proc_tells_of_the_host_is_masked(box: Sandbox) -> None:
    for name in ("keys", "key-users", "kallsyms", "cmdline", "sched_debug", "modules", "kcore", "kmsg", "timer_list", "slabinfo"):
        if Path("/proc", name).exists():
            assert boxes.attempts(box, f"read /proc/{name}")["read"] in (errno.EACCES, errno.EPERM), name
    if Path("/proc/pressure").exists():
        assert shell(box, "ls /proc/pressure; echo $?")[-1] != "0"


@pytest.mark.kernel
def test_nothing_of_the_hosts_proc_can_be_written(box: Sandbox) -> None:
    """By name and by trying: sysctls, sysrq, cgroup and the like."""
    found = shell(box, "find /proc -path '/proc/[0-9]*' -prune -o \\( -type f -writable -print \\) 2>/dev/null")
    assert found in ([], ["/proc/sys/kernel/ns_last_pid"])  # 0666, and asks for a capability
    sysctls = ("kernel/ns_last_pid", "kernel/core_pattern", "vm/drop_caches", "net/ipv4/ip_forward", "fs/file-max")
    for path in ("/proc/sysrq-trigger", *(f"/proc/sys/{name}" for name in sysctls)):
        if Path(path).exists():
            assert boxes.attempts(box, f"write {path}")["write"] in (errno.EACCES, errno.EPERM, errno.EROFS), path


@pytest.mark.kernel
def test_files_of_the_host_are_not_there(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    secrets = ("/root/.bashrc", "/sys/kernel", "/var/log", "/boot", f"/proc/{os.getpid()}/environ")
    for path in (str(tmp_path / "secret"), __file__, *secrets):
        assert boxes.attempts(box, f"read {path}")["read"] in (errno.ENOENT, errno.EACCES), path


@pytest.mark.kernel
@pytest.mark.needs("root")
def test_a_file_of_roots_in_view_cannot_be_opened(guest: Guests, tmp_path: Path) -> None:
    """Were the guest uid 0 on the host, it would."""
    closed, opened = tmp_path / "closed", tmp_path / "open"
    closed.write_text("secret")
    opened.write_text("shown")
    closed.chmod(0o600)
    opened.chmod(0o644)
    tmp_path.chmod(0o755)
    with Sandbox(Policy.strict(readable=[*boxes.shown(guest), (str(tmp_path), "/data")])) as box:
        assert boxes.attempts(box, "read /data/closed") == {"read": errno.EACCES}
        assert boxes.attempts(box, "chown /data/closed")["chown"] in (errno.EPERM, errno.EINVAL, errno.EROFS)
        assert shell(box, "cat /data/open") == ["shown"]


@pytest.mark.kernel
def test_what_is_readable_is_not_writable(guest: Guests, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("before")
    os.chmod(tmp_path / "file", 0o666)
    tmp_path.chmod(0o777)
    with Sandbox(Policy.strict(readable=[*boxes.shown(guest), (str(tmp_path), "/data")])) as box:
        tried = boxes.attempts(box, "write /data/file , create /data/new , mkdir /data/dir , chown /data/file")
        assert tried["create"] == tried["mkdir"] == tried["write"] == errno.EROFS
    assert os.listdir(tmp_path) == ["file"] and (tmp_path / "file").read_text() == "before"


@pytest.mark.kernel
@pytest.mark.needs("idmap")
def test_what_a_guest_makes_in_a_writable_directory_is_the_callers(guest: Guests, tmp_path: Path) -> None:
    with Sandbox(Policy.strict(writable=[(str(tmp_path), "/data")])) as box:
        shell(box, "mkdir /data/d && echo new > /data/d/file && chmod 700 /data/d")
    made = (tmp_path / "d/file").stat()
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (os.geteuid(), os.getegid(), 0o644)


@pytest.mark.parametrize("place", ["/tmp", "/home/guest", "/workspace"])
def test_a_private_place_is_bounded_in_bytes(place: str, box: Sandbox) -> None:
    limits = Limits(tmp_bytes=4 * MIB)
    told = shell(box, f"head -c 20000000 /dev/zero > {place}/full 2>/dev/null; stat -c %s {place}/full", limits)
    assert int(told[0]) == 4 * MIB


def test_a_file_is_bounded_wherever_it_is(box: Sandbox) -> None:
    result = box.run(["/bin/dd", "if=/dev/zero", "of=/tmp/big", "bs=1M", "count=8"], limits=Limits(file_bytes=MIB))
    assert result.status is Status.SIGNALED and result.hint is not None and "file_bytes" in result.hint


@pytest.mark.kernel
def test_shared_memory_is_there_and_bounded(box: Sandbox) -> None:
    told = shell(box, "head -c 100000000 /dev/zero > /dev/shm/full 2>/dev/null; stat -c %s /dev/shm/full")
    assert 0 < int(told[0]) <= 64 * MIB
    assert shell(box, "/usr/bin/python3 -c 'import multiprocessing as m; m.Lock(); print(1)'") == ["1"]


@pytest.mark.slow
@pytest.mark.parametrize("place", PRIVATE[:4])
def test_a_private_place_is_bounded_in_inodes(place: str, box: Sandbox) -> None:
    code = f"import os\ntry:\n for i in range(200000): os.symlink('x', '{place}/%d' % i)\nexcept OSError as e: print(i, e.errno)"
    result = box.run(["/usr/bin/python3", "-I", "-S", "-c", code], limits=Limits(wall_seconds=60))
    made, error = map(int, result.text.split())
    assert made < 70_000 and error == errno.ENOSPC


@pytest.mark.kernel
def test_light_shows_the_hosts_etc_and_no_more(guest: Guests) -> None:
    with Sandbox(Policy.light(readable=boxes.shown(guest))) as box:
        same = shell(box, "cat /etc/passwd")
        assert same == Path("/etc/passwd").read_text().splitlines()
        assert boxes.attempts(box, "create /etc/x")["create"] in (errno.EROFS, errno.EACCES)
        assert os.geteuid() != 0 or boxes.attempts(box, "read /etc/shadow") == {"read": errno.EACCES}
        assert "boot" not in shell(box, "ls /")
