"""What a plan's operations make of a path, by the rules of mount(2) and nothing of ours: the last mount whose place covers the
path is what one sees there, and beneath a mount that was made of a kept tree, what that tree shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sandbox_native._native import lib
from sandbox_native.plan import Op

MADE = (lib.SN_OP_DIR, lib.SN_OP_FILE, lib.SN_OP_SYMLINK)


@dataclass(frozen=True)
class Seen:
    """`host`: which file of the host's it is; empty: something of the box's own."""

    access: str  # "rw", "ro", "hidden", "own" (new in each box), "made" (of the read-only root)
    host: str = ""
    device: int = 0
    inode: int = 0


def beneath(path: str, top: str) -> bool:
    return top == "/" or (path + "/").startswith(top + "/")


def seen(template: Sequence[Op], box: Sequence[Op], path: str) -> Seen:
    for at in reversed(range(len(box))):
        op = box[at]
        if not beneath(path, op.target):
            continue
        rest = path[len(op.target) :]
        if op.kind in (lib.SN_OP_TMPFS, lib.SN_OP_PROC):
            return Seen("own")
        if op.kind == lib.SN_OP_BIND:
            return in_template(template, op.source + rest)
        if op.kind == lib.SN_OP_CHANGES:
            # The overlay's lower layer is one mount: what was mounted in it is not there.
            below = seen(template, box[:at], op.source)
            assert below.access == "ro", below
            return Seen("rw", below.host + rest)
        if op.kind == lib.SN_OP_MASK:
            return masked(template, op, rest)
        if op.kind == lib.SN_OP_GUARD:
            below = seen(template, box[:at], path)
            return Seen("ro", below.host) if op.flags & lib.SN_OP_RDONLY else below
        raise AssertionError(op)
    return in_template(template, path)


def in_template(template: Sequence[Op], path: str) -> Seen:
    for op in reversed(template):
        if op.kind in MADE or not beneath(path, op.target):
            continue
        rest = path[len(op.target) :]
        if op.kind in (lib.SN_OP_BIND, lib.SN_OP_OVERLAY):
            return Seen("ro" if op.flags & lib.SN_OP_RDONLY else "rw", op.source + rest, op.device, op.inode)
        if op.kind == lib.SN_OP_MASK:
            return masked(template, op, rest)
        raise AssertionError(op)
    return Seen("made")


def masked(template: Sequence[Op], op: Op, rest: str) -> Seen:
    """Empty, or a directory that leads to what is shown beneath all the same."""
    assert any(one.kind in MADE and one.target == op.source for one in template), f"nothing empty at {op.source}"
    return Seen("hidden")


def mount_points(template: Sequence[Op], box: Sequence[Op]) -> set[str]:
    """Places that nobody in the box can rename or remove."""
    found = {op.target for op in box}
    for op in template:
        if op.kind in MADE:
            continue
        found.add(op.target)
        for kept in box:
            if kept.kind == lib.SN_OP_BIND and beneath(op.target, kept.source):
                found.add(kept.target + op.target[len(kept.source) :])
    return found
