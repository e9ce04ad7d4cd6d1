"""The rung without namespaces as values: what it refuses, its rules, its filter and its requests. No kernel is asked."""

from __future__ import annotations

import errno
from typing import Any

import bpf
import pytest
from planned import NO_GROUPS, PLAIN, facts, features

from sandbox_native import Limits, Policy, ReadPolicy, Rung, UnsupportedError, Writes, bare, seccomp
from sandbox_native._native import lib
from sandbox_native.backends.bare import _renamed
from sandbox_native.plan import PathRule
from sandbox_native.planning import plan
from sandbox_native.request import Encoder
from sandbox_native.rules import Access
from sandbox_native.seccomp import AUDIT_ARCH_X86_64, RET_ALLOW, RET_ERRNO, RET_USER_NOTIF
from sandbox_native.shown import HostTree, Shown
from sandbox_native.syscalls_bare import BARE

NUMBERS = bpf.header_numbers()
FILTER = bpf.instructions(seccomp.filter_bytes(NUMBERS, AUDIT_ARCH_X86_64, end_action=RET_USER_NOTIF, instead=BARE))
NONE = features(userns=errno.EPERM, root=False, abi=7)
POLICY = Policy.strict(minimum_rung=Rung.LANDLOCK)


def answer(name: str, *arguments: int) -> int:
    return bpf.run(FILTER, NUMBERS[name], AUDIT_ARCH_X86_64, arguments).action


# ---- whether it serves ----


def test_it_serves_where_there_are_no_namespaces_and_the_policy_accepts_it() -> None:
    planned = plan(POLICY, Limits(), NONE, facts(identity=PLAIN, hierarchy=NO_GROUPS))
    assert (planned.rung, planned.plan.bare, planned.plan.identity.root) == (Rung.LANDLOCK, True, False)
    assert not planned.plan.template and not planned.plan.box
    assert planned.held & lib.SN_HELD_SUBREAPER and planned.held & lib.SN_HELD_LANDLOCK
    assert not planned.held & (lib.SN_HELD_USER | lib.SN_HELD_MOUNT | lib.SN_HELD_PID | lib.SN_HELD_NET | lib.SN_HELD_ROOT)
    with pytest.raises(UnsupportedError):
        plan(Policy.strict(), Limits(), NONE, facts(identity=PLAIN, hierarchy=NO_GROUPS))


def test_a_stronger_rung_is_taken_where_there_is_one() -> None:
    assert plan(POLICY, Limits(), features(), facts()).rung is Rung.FULL


MACHINES: list[tuple[dict[str, Any], str]] = [
    *(({"abi": abi}, f"ABI {bare.ABI} (ABI {abi} here)") for abi in range(1, 6)),
    ({"abi": 0}, "no Landlock here"),
    ({"seccomp": errno.EINVAL}, "system call filters"),
    ({"listener": errno.EBUSY}, "notifications"),
    ({"pidfd": errno.ENOSYS}, "process descriptors"),
]


@pytest.mark.parametrize(("lacking", "named"), MACHINES)
def test_a_machine_that_cannot_hold_it_is_refused(lacking: dict[str, Any], named: str) -> None:
    found = features(**{"userns": errno.EPERM, "root": False, "abi": 7, **lacking})
    with pytest.raises(UnsupportedError) as refusal:
        plan(POLICY, Limits(), found, facts(identity=PLAIN, hierarchy=NO_GROUPS))
    assert named in str(refusal.value.missing) and "user namespaces" in str(refusal.value.missing)


GUARD = Shown(kind="guard", inside="/w/.git", access=Access.PROTECTED, field="Policy.protected[0]")
MASK = Shown(kind="mask", inside="/w/secret", access=Access.HIDDEN, field="Policy.hidden[0]")
POLICIES: list[tuple[dict[str, Any], tuple[Shown, ...], str]] = [
    ({"read": ReadPolicy.HOST}, (), "Policy.read=ReadPolicy.HOST"),
    ({"readable": [("/data", "/elsewhere")]}, (), "Policy.readable[0]"),
    ({"writable": ["/same", ("/data", "/elsewhere")]}, (), "Policy.writable[1]"),
    ({"symlinks": [("/link", "/usr")]}, (), "Policy.symlinks"),
    ({"writes": Writes.COMMIT, "writable": ["/w"]}, (), "Writes.COMMIT"),
    ({"syscalls": ["ptrace"]}, (), "Policy.syscalls"),
    ({"explain": True}, (), "Policy.explain"),
    ({"writable": ["/w"]}, (GUARD,), "Policy.protected[0]"),
    ({"writable": ["/w"]}, (MASK, GUARD), "Policy.hidden[0]"),
]


@pytest.mark.parametrize(("fields", "shown", "named"), POLICIES)
def test_a_policy_that_needs_mounts_is_refused(fields: dict[str, Any], shown: tuple[Shown, ...], named: str) -> None:
    policy = Policy.strict(minimum_rung=Rung.LANDLOCK, **fields)
    lacks = list(bare.lacks(policy, Limits(), NONE, HostTree(shown=shown)))
    assert len(lacks) == 1 and named in lacks[0].what and lacks[0].remedy
    assert list(bare.lacks(POLICY, Limits(), NONE, HostTree())) == []


def test_a_share_of_the_processors_needs_a_group() -> None:
    assert ["Limits.cpus" in lack.what for lack in bare.lacks(POLICY, Limits(cpus=0.5), NONE, HostTree())] == [True]


# ---- its rules ----


def test_roots_are_named_with_what_was_looked_at() -> None:
    shown = (
        Shown(kind="bind", inside="/r", source="/r", device=1, inode=2),
        Shown(kind="overlay", inside="/s", source="/s", device=1, inode=3),
        Shown(kind="bind", inside="/w", source="/w", access=Access.WRITABLE, device=1, inode=4),
    )
    made = bare.ruleset(POLICY, HostTree(shown=shown, directories=frozenset({"/usr", "/etc/alternatives"})), 7)
    rules = {rule.path: rule for rule in made.rules}
    read = rules["/usr"].access
    assert rules["/r"] == PathRule(path="/r", access=read, device=1, inode=2)
    assert rules["/s"] == PathRule(path="/s", access=read, device=1, inode=3)
    assert (rules["/w"].flags, rules["/w"].inode, rules["/w"].access == made.workspace) == (lib.SN_RULE_OWNED, 4, True)
    assert rules["/etc/alternatives"].access == read and "/etc" not in rules and "/" not in rules and "/proc" not in rules
    assert {rule.path for rule in made.rules if rule.flags & lib.SN_RULE_SELF} == {"/proc/self"}
    assert all(not rule.access & ~made.handled for rule in made.rules) and made.scoped == 3


def test_without_the_system_only_what_is_declared_is_there() -> None:
    tree = HostTree(directories=frozenset({"/usr", "/etc/alternatives"}))
    paths = {rule.path for rule in bare.ruleset(Policy.strict(system=False, minimum_rung=Rung.LANDLOCK), tree, 7).rules}
    assert not any(path.startswith(("/usr", "/etc")) for path in paths)


# ---- its filter ----

ATTRIBUTES_SET = (
    *(0x40086602, 0x40046602, 0x40087602, 0x40047602, 0x40086604, 0x401C5820),  # flags, versions, project
    *(0x40806685, 0x800C6613, 0x400C6615, 0xC0506617),  # verity, encryption
    *(0x4008941A, 0x5000940E, 0x4004F501, 0x0000F500),  # btrfs, f2fs
)
CLOSED = {
    "socket": [(1, 1, 0), (2, 1, 6), (16, 3, 0)],
    "connect": [(3, 0, 0)],
    "bind": [(3, 0, 0)],
    "listen": [(3, 1)],
    "socketpair": [(1, 2, 0), (2, 1, 0), (1, 3, 0)],
    "shmget": [(1, 0, 0)],
    "msgget": [(1, 0)],
    "semget": [(1, 0, 0)],
    "mq_open": [(0, 0, 0, 0)],
    "inotify_add_watch": [(3, 0, 0)],
    "chown": [(0, 0, 0)],
    "setxattr": [(0, 0, 0)],
    "getxattr": [(0, 0, 0)],
    "prlimit64": [(1, 7, 0, 0), (99, 4, 0, 0), (99, 7, 1, 0)],
    "sched_setaffinity": [(99, 8, 0)],
    "sched_setscheduler": [(99, 0, 0), (0, 1, 0)],
    "sched_setparam": [(99, 0)],
    "setpriority": [(0, 99, 1), (1, 0, 1), (2, 0, 1)],
    "ioprio_set": [(1, 99, 0), (2, 0, 0), (3, 0, 0)],
    "ioctl": [(0, asked, 0) for asked in (0x8912, 0x8927, 0x5412, 0x5423, *ATTRIBUTES_SET, 0xC0189436, 0x1, 0xFFFFFFFF)],
    "fcntl": [(0, 1024, 0), (0, 1024, 1), (0, 1024, 2), (0, 1026, 1), (0, 1040, 1)],
    "prctl": [(4, 0), (22, 1)],
    "chmod": [(0, 0o4755), (0, 0o2755)],
    "fchmodat": [(0, 0, 0o6755)],
    "ptrace": [(16, 99)],
    "process_vm_readv": [(99, 0)],
    "unshare": [(0x10000000,)],
    "kcmp": [(99, 99, 0)],
}
OPEN = {
    "socketpair": [(1, 1, 0), (1, 5, 0), (1, 1 | 0o2000000, 0)],
    "prlimit64": [(0, 7, 0, 0)],
    "sched_setaffinity": [(0, 8, 0)],
    "setpriority": [(0, 0, 5)],
    "ioprio_set": [(1, 0, 0)],
    "ioctl": [
        (0, asked, 0)
        for asked in (
            *(0x5401, 0x5402, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x5452, 0x802C542A),
            *(0x80086601, 0x801C581F, 0x40049409),
        )
    ],
    "fcntl": [(0, command, 0) for command in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 36, 37, 38, 1025, 1030, 1031, 1032, 1033, 1034)],
    "kill": [(99, 9)],  # Landlock's to decide
    "openat": [(0, 0, 0)],
    "inotify_init1": [(0,)],
    "prctl": [(15, 0)],
}
ASKED = {"chmod": (0, 0o755), "fchmod": (3, 0o755), "fchmodat": (0, 0, 0o755), "utimensat": (0, 0, 0, 0), "utime": (0, 0)}


@pytest.mark.parametrize("name", [name for name in CLOSED if name in NUMBERS])
def test_what_landlock_does_not_know_of_is_closed(name: str) -> None:
    for arguments in CLOSED[name]:
        assert answer(name, *arguments) & 0xFFFF0000 == RET_ERRNO, arguments


@pytest.mark.parametrize("name", [name for name in OPEN if name in NUMBERS])
def test_what_is_a_process_of_its_own_affair_is_open(name: str) -> None:
    for arguments in OPEN[name]:
        assert answer(name, *arguments) == RET_ALLOW, arguments


@pytest.mark.parametrize("name", [name for name in ASKED if name in NUMBERS])
def test_modes_and_times_are_asked_of_init(name: str) -> None:
    assert answer(name, *ASKED[name]) == RET_USER_NOTIF


def test_nothing_that_the_strict_filter_refuses_is_open_here() -> None:
    strict = bpf.instructions(seccomp.filter_bytes(NUMBERS, AUDIT_ARCH_X86_64, end_action=RET_USER_NOTIF))
    values = (0, 1, 2, 3, 5, 16, 0x5401, 0x5412, 0x10000000, 0o4755, 0xFFFFFFFF)
    for name, number in NUMBERS.items():
        for first in values:
            for second in values:
                arguments = (first, second, first, second, 0, 0)
                if bpf.run(FILTER, number, AUDIT_ARCH_X86_64, arguments).action == RET_ALLOW:
                    assert bpf.run(strict, number, AUDIT_ARCH_X86_64, arguments).action == RET_ALLOW, (name, arguments)


# ---- its requests ----


def test_the_boxs_own_places_have_other_names_there() -> None:
    body = Encoder().body(
        ["/workspace/run", "/workspace/kept"], {"MINE": "/tmp"}, "/workspace/sub", {"f": b"data"}, {"KEY": "secret"}
    )
    moved = {"/workspace": "/d/w", "/home/guest": "/d/h", "/tmp": "/d/t", "/tmp/root": "/tmp/root"}
    made = _renamed(body, moved)
    strings = made.data.split(b"\0")[:-1]
    assert made.files == 0 and len(strings) == 1 + made.candidates + made.argc + made.envc
    assert strings[:4] == [b"/d/w/sub", b"/d/w/run", b"/workspace/run", b"/workspace/kept"]
    entries = dict(entry.split(b"=", 1) for entry in strings[4:])
    assert (entries[b"HOME"], entries[b"TMPDIR"], entries[b"MINE"], entries[b"KEY"]) == (b"/d/h", b"/d/t", b"/tmp", b"secret")
    shown = _renamed(Encoder().body(["/tmp/root/program"]), moved).data.split(b"\0")
    assert shown[:2] == [b"/d/w", b"/tmp/root/program"]
