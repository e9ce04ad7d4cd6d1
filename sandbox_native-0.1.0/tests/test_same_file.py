"""Where a file of a box has the device and inode that it has on the host."""

from __future__ import annotations

import pytest

from sandbox_native._native import lib
from sandbox_native.backends.same_file import SameFile
from sandbox_native.plan import Identity, Op, Plan

IDENTITY = Identity(root=True, box_uid=1, box_gid=1, owner_uid=0, owner_gid=0)


def plan(template: list[Op], box: list[Op]) -> Plan:
    return Plan(identity=IDENTITY, template=template, box=box, workspace="/workspace", hostname="h", tmp_bytes=1, seccomp=None)


@pytest.mark.parametrize(
    ("path", "same"),
    [
        ("/usr/bin/env", True),
        ("/usr/local/bin/tool", True),
        ("/over/tool", False),
        ("/over/bound/tool", True),
        ("/overt", True),
        ("/kept/tool", False),
        ("/tmp/shown/tool", True),
        ("/tmp/over/tool", False),
    ],
)
def test_only_an_overlay_has_numbers_of_its_own(path: str, same: bool) -> None:
    template = [
        Op(lib.SN_OP_BIND, "/usr", source="/usr"),
        Op(lib.SN_OP_OVERLAY, "/over", source="/data"),
        Op(lib.SN_OP_BIND, "/over/bound", source="/bound"),
        Op(lib.SN_OP_BIND, "/.roots/0", source="/shown"),
        Op(lib.SN_OP_OVERLAY, "/.roots/1", source="/shown"),
        Op(lib.SN_OP_BIND, "/.roots/2", source="/kept"),
    ]
    box = [
        Op(lib.SN_OP_TMPFS, "/tmp"),
        Op(lib.SN_OP_BIND, "/tmp/shown", source="/.roots/0"),
        Op(lib.SN_OP_BIND, "/tmp/over", source="/.roots/1"),
        Op(lib.SN_OP_CHANGES, "/kept", source="/.roots/2"),
    ]
    there = SameFile(plan(template, box))
    assert [there.at(path), there.at(path)] == [same, same]
