"""The plan: the same facts give the same bytes, and the bytes say what the header's layout says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sandbox_native import Policy
from sandbox_native._native import ffi, lib
from sandbox_native.plan import Identity, Op, Plan
from sandbox_native.rules import Access
from sandbox_native.view import HostTree, Shown, box_ops, masked_paths, template_ops

ROOT = Identity(root=True, box_uid=1879049192, box_gid=1879049192, owner_uid=0, owner_gid=0)
TREE = HostTree(
    links={"/bin": "usr/bin"},
    directories=frozenset({"/usr", "/lib64", "/opt", "/etc/ssl/certs"}),
    files={"/etc/localtime": b"TZif"},
    proc=frozenset({"/proc/keys", "/proc/pressure"}),
)


def plan(policy: Policy | None = None, tree: HostTree = TREE, root: bool = True, **more: Any) -> Plan:
    policy = policy or Policy.strict()
    return Plan(
        identity=replace(ROOT, root=root),
        template=template_ops(policy, tree, root),
        box=box_ops(policy, tree),
        workspace="/workspace",
        hostname=policy.hostname,
        tmp_bytes=1 << 20,
        seccomp=bytes(range(16)) if policy.preset == "strict" else None,
        **more,
    )


class Read:
    """A plan as the launcher reads it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.keep = ffi.new("char[]", data)
        self.head: Any = ffi.cast("struct sn_plan *", self.keep)

    def text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def ops(self, at: int, count: int) -> list[Any]:
        table = ffi.cast("struct sn_op *", ffi.cast("char *", self.keep) + at)  # type: ignore[operator]
        return [table[number] for number in range(count)]


def test_the_bytes_say_what_the_plan_says() -> None:
    made = plan(groups=("/sys/fs/cgroup/a", "/sys/fs/cgroup/b"), enter="/sys/fs/cgroup/a/launcher/cgroup.procs")
    read = Read(made.encode())
    head = read.head
    assert (head.version, head.size) == (lib.SN_WIRE_VERSION, len(read.data))
    assert head.flags == lib.SN_PLAN_ROOT
    assert (head.box_uid, head.box_gid, head.owner_uid, head.inside_uid) == (1879049192, 1879049192, 0, 1000)
    assert read.text(head.hostname_at) == "sandbox"
    assert read.text(head.workspace_at) == "/workspace"
    assert read.text(head.enter_at) == made.enter
    assert read.data[head.filter_at : head.filter_at + 8 * head.filter_count] == bytes(range(16))
    offsets = [int.from_bytes(read.data[head.groups_at + 4 * n :][:4], "little") for n in range(head.groups_count)]
    assert [read.text(at) for at in offsets] == list(made.groups)
    found = [*read.ops(head.template_at, head.template_count), *read.ops(head.box_at, head.box_count)]
    for op, raw in zip((*made.template, *made.box), found, strict=True):
        assert (raw.kind, raw.flags, raw.mode, raw.device, raw.inode) == (op.kind, op.flags, op.mode, op.device, op.inode)
        assert read.text(raw.target) == op.target
        assert (read.text(raw.source) if raw.source else "") == op.source
        assert read.data[raw.data : raw.data + raw.size] == op.data
        if raw.data:
            assert read.data[raw.data + raw.size] == 0


def test_tables_and_data_are_aligned() -> None:
    head = Read(plan(groups=("/a", "/bb")).encode()).head
    for at in (head.template_at, head.box_at, head.filter_at, head.groups_at):
        assert at % 8 == 0


def test_the_same_facts_give_the_same_bytes() -> None:
    assert plan().encode() == plan().encode()
    assert plan().encode() != plan(Policy.strict(hostname="other")).encode()


def test_light_has_no_filter() -> None:
    head = Read(plan(Policy.light()).encode()).head
    assert (head.filter_at, head.filter_count) == (0, 0)


def bound(source: str, inside: str, device: int, inode: int, access: Access = Access.READABLE) -> Shown:
    return Shown(kind="bind", inside=inside, source=source, access=access, device=device, inode=inode)


def by_target(ops: list[Op]) -> dict[str, Op]:
    return {op.target: op for op in ops}


def test_everything_of_the_host_is_read_only_without_set_id_and_devices() -> None:
    shown = bound("/data", "/data", 1, 2), bound("/rw", "/mnt/rw", 3, 4, Access.WRITABLE)
    for op in template_ops(Policy.strict(), replace(TREE, shown=shown), True):
        if op.kind != lib.SN_OP_BIND:
            continue
        assert op.flags & lib.SN_OP_NOSUID, op
        assert op.flags & lib.SN_OP_RDONLY or op.target in ("/proc", "/mnt/rw"), op
        assert op.flags & lib.SN_OP_NODEV or op.target.startswith("/dev/"), op


@pytest.mark.parametrize("root", [True, False])
def test_what_the_policy_shows_is_bound_as_it_was_looked_at(root: bool) -> None:
    shown = bound("/data", "/mnt/data", 1, 2), bound("/rw", "/mnt/rw", 3, 4, Access.WRITABLE)
    ops = by_target(template_ops(Policy.strict(), replace(TREE, shown=shown), root))
    assert (ops["/mnt/data"].source, ops["/mnt/data"].device, ops["/mnt/data"].inode) == ("/data", 1, 2)
    assert bool(ops["/mnt/rw"].flags & lib.SN_OP_IDMAP) == root
    assert not ops["/mnt/data"].flags & lib.SN_OP_IDMAP


def test_an_outer_path_is_bound_before_an_inner_one() -> None:
    shown = bound("/b", "/mnt/a/b", 1, 2), bound("/a", "/mnt/a", 3, 4)
    targets = [op.target for op in template_ops(Policy.strict(), replace(TREE, shown=shown), True)]
    assert targets.index("/mnt/a") < targets.index("/mnt/a/b")


def test_a_merged_usr_stays_merged() -> None:
    ops = by_target(template_ops(Policy.strict(), TREE, True))
    assert (ops["/bin"].kind, ops["/bin"].data) == (lib.SN_OP_SYMLINK, b"usr/bin")
    assert (ops["/lib64"].kind, ops["/usr"].kind) == (lib.SN_OP_BIND, lib.SN_OP_BIND)
    assert "/sbin" not in ops


def test_strict_makes_an_etc_up_and_light_shows_the_hosts() -> None:
    strict = by_target(template_ops(Policy.strict(), TREE, True))
    light = by_target(template_ops(Policy.light(), TREE, True))
    assert b"guest:x:1000:1000:" in strict["/etc/passwd"].data
    assert (strict["/etc/localtime"].data, "/etc" in strict) == (b"TZif", False)
    assert (light["/etc"].kind, "/etc/passwd" in light) == (lib.SN_OP_BIND, False)


def test_strict_masks_what_is_there_and_light_nothing() -> None:
    masks = [op.target for op in box_ops(Policy.strict(), TREE) if op.kind == lib.SN_OP_MASK]
    assert masks == ["/proc/keys", "/proc/pressure"]
    assert not [op for op in box_ops(Policy.light(), TREE) if op.kind == lib.SN_OP_MASK]
    assert set(masks) < set(masked_paths())


def test_every_private_file_system_is_bounded() -> None:
    for op in box_ops(Policy.strict(), TREE):
        if op.kind == lib.SN_OP_TMPFS:
            assert b"nr_inodes=" in op.data
            assert op.flags & lib.SN_OP_SIZED or b"size=" in op.data
            assert op.flags & lib.SN_OP_NOSUID
            assert op.flags & lib.SN_OP_NODEV
