"""The plan: policy, limits and features lowered to the bytes that csrc/common/wire.h describes. Pure.

The last decision about a box is made here and in view.py; the launcher obeys. Made once for each launcher, by
backends/prepare.py; numbers and layouts are the compiled header's own, so neither is written down twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sandbox_native._native import ffi, lib
from sandbox_native.limits import CORE_BYTES

INSIDE_UID: Final = 1000
_ALIGN: Final = 8
# Half of what a user has by default (fs.inotify.max_user_instances is 128): the host keeps the rest.
_INOTIFY_INSTANCES: Final = 64


@dataclass(frozen=True, slots=True)
class Op:
    """One struct sn_op; `data` is a file's bytes, a link's text or a file system's options."""

    kind: int
    target: str
    flags: int = 0
    mode: int = 0
    source: str = ""
    data: bytes = b""
    device: int = 0
    inode: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Whose files are whose, as ids of the host."""

    root: bool  # the host is root: the box gets an id of its own
    box_uid: int  # what the guest is on the host
    box_gid: int
    owner_uid: int  # the caller, who owns what the guest makes in a host directory
    owner_gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule:
    """One struct sn_rule: what Landlock permits at and beneath a path in the box."""

    path: str
    access: int
    flags: int = 0
    device: int = 0  # what was looked at when the plan was made; with inode 0: any
    inode: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruleset:
    """What Landlock is told: `handled` is denied but for the rules, `scoped` cuts abstract sockets and signals off."""

    handled: int
    scoped: int = 0
    workspace: int = 0  # access at the workspace that a run brings
    rules: Sequence[PathRule] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """What is started in the root, once, for guests to be clones of."""

    argv: Sequence[str]
    environment: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Everything the launcher is told before the first run."""

    identity: Identity
    template: Sequence[Op]  # the root, made once
    box: Sequence[Op]  # what each box mounts on top of it
    workspace: str
    hostname: str
    tmp_bytes: int
    seccomp: bytes | None  # an array of struct sock_filter; None: no filter
    groups: Sequence[str] = ()  # control groups that the launcher removes at its end
    enter: str = ""  # the cgroup.procs file by which the template leaves the host's own group
    bare: bool = False  # rung landlock: no namespaces, and no operations
    changes: str = ""  # where a box keeps the changes of overlays while they are mounted; empty: there are none
    landlock: Ruleset | None = None
    interpreter: Interpreter | None = None
    explain: bytes | None = None  # an array of struct sock_filter: what the supervisor of refused calls answers

    def encode(self) -> bytes:
        """The whole message; every offset counts from its start."""
        return _Encoder(self).message()


class _Encoder:
    """The header and its tables first, so that they are aligned; then strings and data, each once."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.ops_at = ffi.sizeof("struct sn_plan")
        self.pool_at = self.ops_at + ffi.sizeof("struct sn_op") * (len(plan.template) + len(plan.box))
        self.pool = bytearray()
        self.known: dict[bytes, int] = {}

    def message(self) -> bytes:
        plan = self.plan
        ops = ffi.new("struct sn_op[]", [self._op(op) for op in (*plan.template, *plan.box)])
        header = ffi.new("struct sn_plan *")
        header.version = lib.SN_WIRE_VERSION
        header.flags = (lib.SN_PLAN_ROOT if plan.identity.root else 0) | (lib.SN_PLAN_BARE if plan.bare else 0)
        header.box_uid, header.box_gid = plan.identity.box_uid, plan.identity.box_gid
        header.owner_uid, header.owner_gid = plan.identity.owner_uid, plan.identity.owner_gid
        header.inside_uid = header.inside_gid = INSIDE_UID
        header.template_at, header.template_count = self.ops_at, len(plan.template)
        header.box_at = self.ops_at + ffi.sizeof("struct sn_op") * len(plan.template)
        header.box_count = len(plan.box)
        header.filter_at, header.filter_count = self._filter(plan.seccomp)
        header.explain_at, header.explain_count = self._filter(plan.explain)
        header.changes_at = self._string(plan.changes) if plan.changes else 0
        if plan.landlock is not None:
            header.landlock_handled, header.landlock_scoped = plan.landlock.handled, plan.landlock.scoped
            header.landlock_workspace = plan.landlock.workspace
            header.rules_at, header.rules_count = self._rules(plan.landlock.rules), len(plan.landlock.rules)
        header.groups_at, header.groups_count = self._offsets(plan.groups), len(plan.groups)
        if plan.interpreter is not None:
            header.flags |= lib.SN_PLAN_WARM
            strings = (*plan.interpreter.argv, *plan.interpreter.environment)
            header.warm_at, header.warm_argc = self._offsets(strings), len(plan.interpreter.argv)
            header.warm_envc = len(plan.interpreter.environment)
        header.hostname_at = self._string(plan.hostname)
        header.workspace_at = self._string(plan.workspace)
        header.enter_at = self._string(plan.enter) if plan.enter else 0
        header.core_bytes = CORE_BYTES
        header.tmp_bytes = plan.tmp_bytes
        header.inotify_instances = 0 if plan.identity.root else _INOTIFY_INSTANCES
        header.size = self.pool_at + len(self.pool)
        return bytes(ffi.buffer(header)) + bytes(ffi.buffer(ops)) + bytes(self.pool)

    def _op(self, op: Op) -> dict[str, int]:
        return {
            "kind": op.kind,
            "flags": op.flags,
            "mode": op.mode,
            "source": self._string(op.source) if op.source else 0,
            "target": self._string(op.target),
            "data": self._put(op.data) if op.data or op.kind == lib.SN_OP_FILE else 0,
            "size": len(op.data),
            "device": op.device,
            "inode": op.inode,
        }

    def _filter(self, code: bytes | None) -> tuple[int, int]:
        return (0, 0) if code is None else (self._put(code), len(code) // 8)

    def _rules(self, rules: Sequence[PathRule]) -> int:
        if not rules:
            return 0
        table = ffi.new("struct sn_rule[]", len(rules))
        for one, rule in zip(table, rules, strict=True):
            one.access, one.path, one.flags = rule.access, self._string(rule.path), rule.flags
            one.device, one.inode = rule.device, rule.inode
        return self._put(bytes(ffi.buffer(table)))

    def _offsets(self, strings: Iterable[str]) -> int:
        offsets = ffi.new("uint32_t[]", [self._string(text) for text in strings])
        return self._put(bytes(ffi.buffer(offsets))) if len(offsets) else 0

    def _string(self, text: str) -> int:
        return self._put(text.encode("utf-8", "surrogateescape"))

    def _put(self, data: bytes) -> int:
        """Where it begins. A NUL follows, so that data is a string too."""
        at = self.known.get(data)
        if at is None:
            at = self.known[data] = self.pool_at + len(self.pool)
            self.pool += data + bytes(1 + -(len(data) + 1) % _ALIGN)
        return at
