"""The Linux backend: from policy, limits and features to a plan, a launcher, and a box for each run. Host process.

Everything that is decided once for a Sandbox is decided in `_Ground`; the run path takes a slot, fills a request and starts it.
"""

from __future__ import annotations

import atexit
import errno
import functools
import math
import os
import resource
import threading
import weakref
from dataclasses import replace
from typing import Any, Final

from sandbox_native import hosttree, view
from sandbox_native._native import ffi, lib
from sandbox_native.backends.base import Job
from sandbox_native.backends.box import LinuxBox
from sandbox_native.backends.engine import Engine
from sandbox_native.backends.native import strict_filter
from sandbox_native.cgroup import Group, Hierarchy, discover, make_group, release, sweep
from sandbox_native.environment import WORKSPACE
from sandbox_native.errors import SetupError, UnsupportedError
from sandbox_native.features import Feature, Features, launcher_path, probe
from sandbox_native.limits import Limits
from sandbox_native.plan import Identity, Plan
from sandbox_native.policy import Policy, Rung
from sandbox_native.receipt import Ground, Receipts
from sandbox_native.remedies import PURPOSE, Machine, remedy
from sandbox_native.request import rlimits
from sandbox_native.result import Result
from sandbox_native.workspace import Workspace, open_workspace

_RLIMITS: Final = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "fsize": resource.RLIMIT_FSIZE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "stack": resource.RLIMIT_STACK,
}
_KEEP: Final = 1  # struct sn_rlimit.flags
_NS: Final = 1_000_000_000
_KNOWN_REQUESTS: Final = 64


class LinuxBackend:
    """Safe in threads. What it holds after a fork is the parent's; the child makes its own at its first run."""

    def __init__(self, policy: Policy, limits: Limits, cgroup: str | None) -> None:
        self._policy, self._limits, self._cgroup = policy, limits, cgroup
        self._reset()
        _LIVE.add(self)
        self._open()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._boxes: set[LinuxBox] = set()
        self._requests: dict[Limits, bytes] = {}
        self._closed = False

    # ---- once for each launcher ----

    def _open(self) -> Engine:
        """The engine, made anew where there is none or its launcher has gone."""
        with self._lock:
            if self._closed:
                raise SetupError("spawn", errno.EPIPE, "sandbox", "it was closed: make a new one")
            if self._engine is None:
                self._engine = self._make_engine()
            return self._engine

    def _make_engine(self) -> Engine:
        features = probe()
        _require(features)
        hierarchy = _hierarchy(self._cgroup, os.getpid())
        self._rung = _rung(hierarchy, self._policy)
        self._identity = _identity()
        sweep(hierarchy)
        grouped = self._rung is Rung.FULL
        group = make_group(hierarchy, box_uid=self._identity.box_uid if self._identity.root else None) if grouped else None
        tree = hosttree.read_tree(self._policy)
        plan = Plan(
            identity=self._identity,
            template=view.template_ops(self._policy, tree, self._identity.root),
            box=view.box_ops(self._policy, tree),
            workspace=WORKSPACE,
            hostname=self._policy.hostname,
            tmp_bytes=self._limits.tmp_bytes,
            seccomp=strict_filter(features.works(Feature.LISTENER)) if self._policy.preset == "strict" else None,
        )
        if group is not None:
            plan = replace(plan, groups=group.paths(), enter=_entrance(group))
        engine = Engine(launcher_path(), group, plan.encode())
        try:
            slot = engine.take()  # what a slot cannot do is found out here rather than in the first run
            engine.put(slot)
        except BaseException:
            engine.close()
            raise
        self._receipts = Receipts(
            Ground(
                rung=self._rung,
                policy=self._policy,
                plan=plan,
                group=hierarchy.detail,
                swap_limited=getattr(slot.group, "swap_limited", False),
            )
        )
        return engine

    # ---- every run ----

    def run(self, job: Job) -> Result:
        box = self.start(job)
        try:
            with box.turns:
                box.pump_to_end()
                return box.result()
        finally:
            box.close()

    def start(self, job: Job) -> LinuxBox:
        engine = self._engine or self._open()
        if job.limits.cpus is not None and self._rung is not Rung.FULL:
            raise UnsupportedError("limits.cpus needs a control group", ("a control group",), "leave cpus=None, or see doctor")
        try:
            slot = engine.take()
        except SetupError:
            self._suspect(engine)
            raise
        box = LinuxBox(job, slot, self._receipts, self._give_back)
        self._boxes.add(box)
        mount = -1
        try:
            slot.prepare(job.limits)
            shown = None
            if job.workspace is not None:
                shown, mount = self._show(engine, job.workspace)
            box.start(self._request(job, shown), mount, shown)
        except BaseException:
            box.close()
            raise
        finally:
            if mount >= 0:
                os.close(mount)
        return box

    def _show(self, engine: Engine, path: str) -> tuple[Workspace, int]:
        """A host directory as a detached mount for one run; what the guest makes there is to be the caller's."""
        shown = open_workspace(path)
        flags = lib.SN_OP_NOSUID | lib.SN_OP_NODEV
        try:
            try:
                idmap = lib.SN_OP_IDMAP if self._identity.root else 0
                return shown, engine.bind(shown.path, flags | idmap, shown.device, shown.inode)
            except SetupError as error:
                if error.stage != "idmap" or self._policy.workspace_owner != "chown":
                    raise
            identity = self._identity
            shown.hand_over((identity.owner_uid, identity.owner_gid), (identity.box_uid, identity.box_gid))
            return shown, engine.bind(shown.path, flags, shown.device, shown.inode)
        except BaseException:
            shown.close()
            raise

    def _request(self, job: Job, shown: Workspace | None) -> Any:
        """A struct sn_request: the part that follows from the limits is kept."""
        known = self._requests.get(job.limits)
        if known is None:
            if len(self._requests) >= _KNOWN_REQUESTS:
                self._requests.clear()
            known = self._requests[job.limits] = _limits_part(job.limits, self._rung)
        request, body = ffi.new("struct sn_request *"), job.body
        ffi.memmove(request, known, len(known))
        if job.collect is not None and shown is None:
            request.flags |= lib.SN_REQUEST_COLLECT
        request.body_bytes = len(body.data)
        request.candidates, request.argc, request.envc, request.files = body.candidates, body.argc, body.envc, body.files
        return request

    def _give_back(self, box: LinuxBox, usable: bool) -> None:
        self._boxes.discard(box)
        engine = box.slot.engine
        if usable:
            engine.put(box.slot)
        else:
            engine.drop(box.slot)
            self._suspect(engine)

    def _suspect(self, engine: Engine) -> None:
        """Something of ours failed: if the launcher is gone, the next run gets another."""
        if engine.alive:
            return
        with self._lock:
            if self._engine is engine:
                self._engine = None
        engine.close()

    # ---- the end ----

    def close(self) -> None:
        with self._lock:
            self._closed = True
            engine, self._engine = self._engine, None
        for box in list(self._boxes):
            box.settle()
        if engine is not None:
            engine.close()

    def abandon(self) -> None:
        """In a forked child of the host: closes descriptors, ends nothing."""
        boxes, engine, closed = self._boxes, self._engine, self._closed
        self._reset()
        self._closed = closed
        for box in boxes:
            box.slot.abandon()
            box.abandon()
        if engine is not None:
            engine.abandon()


_LIVE: Final[weakref.WeakSet[LinuxBackend]] = weakref.WeakSet()


def _after_fork() -> None:
    for backend in list(_LIVE):
        backend.abandon()


os.register_at_fork(after_in_child=_after_fork)


@functools.lru_cache(maxsize=8)
def _hierarchy(cgroup: str | None, pid: int) -> Hierarchy:
    """Where groups may be made; asked once, since finding out may move this process (v2), which is undone at its end."""
    hierarchy = discover(cgroup)
    atexit.register(release, hierarchy)
    return hierarchy


def _require(features: Features) -> None:
    missing = features.missing
    if not missing:
        return
    machine = Machine.here(launcher_path())
    words = [remedy(feature, features.errors[feature], machine) for feature in missing]
    raise UnsupportedError(
        "no rung that the policy allows can be reached on this machine",
        tuple(PURPOSE[feature] for feature in missing),
        "; ".join(dict.fromkeys(word for word in words if word)),
    )


def _rung(hierarchy: Hierarchy, policy: Policy) -> Rung:
    rung = Rung.FULL if hierarchy.usable else Rung.NAMESPACES
    if rung < policy.minimum_rung:
        raise UnsupportedError(
            f"the policy asks for rung {policy.minimum_rung.value} and this machine reaches {rung.value}",
            (f"a control group ({hierarchy.reason})",),
            hierarchy.remedy,
        )
    return rung


def _entrance(group: Group) -> str:
    """On v2 init must not be in the guest's leaf; on v1 every slot enters its own groups."""
    return os.path.join(group.paths()[0], "launcher", "cgroup.procs") if group.version == 2 else ""


def _identity() -> Identity:
    uid, gid = os.geteuid(), os.getegid()
    box = hosttree.free_id() if uid == 0 else None
    if box is None:
        return Identity(root=False, box_uid=uid, box_gid=gid, owner_uid=uid, owner_gid=gid)
    return Identity(root=True, box_uid=box, box_gid=box, owner_uid=uid, owner_gid=gid)


def _limits_part(limits: Limits, rung: Rung) -> bytes:
    request = ffi.new("struct sn_request *")
    request.version = lib.SN_WIRE_VERSION
    request.wall_ns = round(limits.wall_seconds * _NS)
    request.cpu_ns = round((limits.cpu_seconds or 0) * _NS)
    request.memory_bytes, request.tmp_bytes = limits.memory_bytes, limits.tmp_bytes
    cores = len(os.sched_getaffinity(0))
    request.cpus = min(cores, limits.processes, math.ceil(limits.cpus or cores))
    request.flags = 0 if rung is Rung.FULL else lib.SN_REQUEST_SAMPLE
    chosen = rlimits(limits, rung is not Rung.FULL)
    request.rlimit_count = len(chosen)
    for at, limit in enumerate(chosen):
        one = request.rlimits[at]
        one.resource, one.flags, one.value = _RLIMITS[limit.name], _KEEP, limit.value
    return bytes(ffi.buffer(request))
