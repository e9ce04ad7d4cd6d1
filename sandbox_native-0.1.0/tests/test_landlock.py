"""Landlock's rights and rules as values: no kernel is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox_native import Deletion, Policy, landlock
from sandbox_native._native import ffi, lib
from sandbox_native.plan import Identity, Plan, Ruleset
from sandbox_native.rules import Access
from sandbox_native.shown import HostTree, Shown

ABIS = range(1, 8)
REMOVE = 0x10 | 0x20 | 0x2000
HEADER = Path("/usr/include/linux/landlock.h")


def tree(*writable: str) -> HostTree:
    return HostTree(shown=tuple(Shown(kind="bind", inside=path, source=path, access=Access.WRITABLE) for path in writable))


def layer(abi: int, *writable: str, deletion: Deletion = Deletion.ALLOW) -> Ruleset:
    made = landlock.ruleset(Policy.strict(deletion=deletion), tree(*writable), abi)
    assert made is not None
    return made


def rights(ruleset: Ruleset, path: str) -> int:
    """What the kernel would permit at a path: rights add up along it."""
    found = 0
    for rule in ruleset.rules:
        if path == rule.path or path.startswith(rule.path.rstrip("/") + "/"):
            found |= rule.access
    return found


def test_every_right_has_a_bit_of_its_own() -> None:
    numbers = [bit for bit, _ in landlock.RIGHTS.values()]
    assert numbers == list(range(len(numbers)))


@pytest.mark.skipif(not HEADER.exists(), reason="needs linux/landlock.h: the kernel's headers are not installed")
def test_the_bits_are_those_of_the_headers() -> None:
    words = HEADER.read_text().split("#define LANDLOCK_ACCESS_FS_")[1:]
    said = {word.split()[0].lower(): int(word.split("<<")[1].split(")")[0]) for word in words}
    assert said
    assert {name: landlock.RIGHTS[name][0] for name in said} == said


def test_what_each_abi_has() -> None:
    """Of the kernel's Documentation/userspace-api/landlock.rst."""
    handled = {abi: landlock.bits(landlock.RIGHTS, abi) for abi in ABIS}
    assert (handled[1], handled[2], handled[3], handled[4], handled[5]) == (0x1FFF, 0x3FFF, 0x7FFF, 0x7FFF, 0xFFFF)
    assert handled[6] == handled[7] == handled[5]
    assert [landlock.scopes(abi) for abi in ABIS] == [0, 0, 0, 0, 0, 3, 3]


def test_below_abi_2_there_is_no_layer_and_light_has_none() -> None:
    assert landlock.ruleset(Policy.strict(), tree(), 1) is None
    assert landlock.ruleset(Policy.strict(), tree(), 0) is None
    assert landlock.ruleset(Policy.light(), tree(), 7) is None
    assert landlock.ruleset(Policy.strict(deletion=Deletion.DENY), tree(), 0) is None


@pytest.mark.parametrize("abi", [2, 3, 5, 6])
def test_no_rule_permits_what_is_not_handled(abi: int) -> None:
    """The kernel answers EINVAL."""
    for deletion in Deletion:
        made = layer(abi, "/data", deletion=deletion)
        assert all(rule.access and not rule.access & ~made.handled for rule in made.rules)
        assert not made.workspace & ~made.handled


def test_only_what_is_writable_can_be_written() -> None:
    made = layer(7, "/data")
    write, make = landlock.bits(["write_file"], 7), landlock.bits(["make_reg", "make_dir", "remove_file", "truncate"], 7)
    for path in ("/usr/bin", "/etc", "/home", "/", "/data2"):
        assert rights(made, path) == landlock.bits(["execute", "read_file", "read_dir"], 7), path
    for path in ("/tmp/x", "/home/guest", "/workspace/a", "/dev/shm", "/data", "/data/below"):
        assert rights(made, path) & (write | make) == write | make, path
    assert rights(made, "/proc/self/comm") & (write | make) == write | landlock.bits(["truncate"], 7)
    devices = landlock.bits(["make_char", "make_block"], 7)
    assert not any(rule.access & devices for rule in made.rules) and made.handled & devices == devices


@pytest.mark.parametrize("abi", ABIS)
@pytest.mark.parametrize("preset", ["strict", "light"])
def test_deletion_is_denied_in_roots_and_the_workspace(abi: int, preset: str) -> None:
    make = Policy.strict if preset == "strict" else Policy.light
    made = landlock.ruleset(make(deletion=Deletion.DENY), tree("/data"), abi)
    assert made is not None and made.handled & REMOVE == REMOVE & landlock.bits(landlock.RIGHTS, abi)
    for path in ("/data/x", "/workspace/x", "/usr/x"):
        assert not rights(made, path) & REMOVE, path
    assert not made.workspace & REMOVE
    for path in ("/tmp/x", "/home/guest/x", "/dev/shm/x"):
        assert rights(made, path) & REMOVE == made.handled & REMOVE, path


@pytest.mark.parametrize("root", ["/tmp", "/tmp/a", "/home/guest/a/b", "/dev/shm/a"])
def test_a_scratch_place_with_a_root_in_it_is_not_free(root: str) -> None:
    for make in (Policy.strict, Policy.light):
        made = landlock.ruleset(make(deletion=Deletion.DENY), tree(root), 7)
        assert made is not None and not rights(made, f"{root}/x") & REMOVE


def test_light_refuses_deletion_and_nothing_else() -> None:
    made = landlock.ruleset(Policy.light(deletion=Deletion.DENY), tree(), 7)
    assert made is not None and (made.handled, made.scoped, made.workspace) == (REMOVE, 0, 0)


def test_the_plan_carries_the_rules() -> None:
    """As csrc/common/plan.h has them."""
    made = layer(7, "/data")
    identity = Identity(root=False, box_uid=1, box_gid=1, owner_uid=1, owner_gid=1)
    plan = Plan(
        identity=identity, template=(), box=(), workspace="/w", hostname="h", tmp_bytes=0, seccomp=None, bare=True, landlock=made
    )
    data = plan.encode()
    head = ffi.from_buffer("struct sn_plan *", data)
    table = ffi.cast("struct sn_rule *", ffi.addressof(ffi.from_buffer("char[]", data), head.rules_at))
    assert (head.landlock_handled, head.landlock_scoped, head.landlock_workspace) == (made.handled, made.scoped, made.workspace)
    assert head.flags & lib.SN_PLAN_BARE and head.rules_count == len(made.rules)
    for at, rule in enumerate(made.rules):
        path = data[table[at].path : data.index(b"\0", table[at].path)].decode()
        assert (path, table[at].access, table[at].device, table[at].inode) == (rule.path, rule.access, 0, 0)
