"""The Linux backend: an engine that is made when it is needed, and a box in one of its slots for each run. Host process.

What is decided once is decided in prepare.py; the run path takes a slot, fills a request and starts it.
"""

from __future__ import annotations

import errno
import math
import os
import resource
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final, TypeVar

from sandbox_native import covers
from sandbox_native._native import ffi, lib
from sandbox_native.backends import bare
from sandbox_native.backends.base import Job, Stats, Upkeep
from sandbox_native.backends.box import LinuxBox
from sandbox_native.backends.cores import CORES
from sandbox_native.backends.crowd import LinuxCrowd
from sandbox_native.backends.engine import Engine
from sandbox_native.backends.given import NOTHING, Given, give, gives_always
from sandbox_native.backends.prepare import open_engine
from sandbox_native.backends.same_file import SameFile
from sandbox_native.errors import SetupError, UnsupportedError
from sandbox_native.limits import Limits
from sandbox_native.policy import Policy, Rung
from sandbox_native.receipt import Ground, Receipts
from sandbox_native.request import rlimits
from sandbox_native.result import Result
from sandbox_native.run_checks import RunChecks

_RLIMITS: Final = {
    "as": resource.RLIMIT_AS,
    "core": resource.RLIMIT_CORE,
    "fsize": resource.RLIMIT_FSIZE,
    "msgqueue": resource.RLIMIT_MSGQUEUE,
    "nofile": resource.RLIMIT_NOFILE,
    "nproc": resource.RLIMIT_NPROC,
    "sigpending": resource.RLIMIT_SIGPENDING,
    "stack": resource.RLIMIT_STACK,
}
_NS: Final = 1_000_000_000
_KNOWN_REQUESTS: Final = 64
_TRIES: Final = 3
_CHANGING: Final = "somebody at work in the directory, such as another guest, keeps changing what is protected there: run again"
_T = TypeVar("_T")


class LinuxBackend:
    """Safe in threads. What it holds after a fork is the parent's; the child makes its own at its first run."""

    def __init__(self, policy: Policy, limits: Limits, cgroup: str | None, keep: Upkeep) -> None:
        self._policy, self._limits, self._cgroup, self._keep = policy, limits, cgroup, keep
        self._gives_always = gives_always(policy)
        self._reset()
        _LIVE.add(self)
        self._open()

    def _reset(self) -> None:
        self._lock = threading.RLock()  # a signal handler may close what its own thread is just opening
        self._engine: Engine | None = None
        self._boxes: weakref.WeakSet[LinuxBox] = weakref.WeakSet()  # one that is forgotten closes itself
        self._requests: dict[Limits, bytes] = {}
        self._closed = False

    # ---- once for each launcher ----

    def _open(self) -> Engine:
        """The engine, made anew where there is none or its launcher has gone."""
        with self._lock:
            self._require_open()
            if self._engine is None:
                self._engine, self._ground = open_engine(self._policy, self._limits, self._cgroup, self._keep)
                self._receipts, self._same_file = Receipts(self._ground), SameFile(self._ground.plan)
                self._checks = RunChecks(self._policy, self._ground.shown)
            return self._engine

    def _require_open(self) -> None:
        if self._closed:
            raise SetupError("spawn", errno.EPIPE, "sandbox", "it was closed: make a new one")

    # ---- every run ----

    def run(self, job: Job) -> Result:
        def whole(box: LinuxBox) -> Result:
            try:
                with box.turns:
                    box.pump_to_end()
                    return box.result()
            finally:
                box.close()

        return self._tried(job, whole)

    def start(self, job: Job) -> LinuxBox:
        return self._tried(job, lambda box: box)

    def _tried(self, job: Job, use: Callable[[LinuxBox], _T]) -> _T:
        """A slot that died while it was idle (a guest before filled its group) costs a second try, not the run; so does a guest
        at work in the same directory that changes what is to be guarded."""
        for left in reversed(range(_TRIES)):
            engine, box = self._engine, None
            try:
                box = self._start_once(job)
                return use(box)
            except SetupError as error:
                if box is None:
                    self._require_open()  # what a run lacks of a launcher that was just closed is no news
                engine = engine if box is None else box.slot.engine
                gone = box is not None and job.stdin.is_read
                changed = error.stage == "guard" and error.errno in (errno.ESTALE, errno.ENOENT)
                if changed and (gone or not left):
                    raise SetupError("guard", error.errno, error.item, error.hint or _CHANGING) from error
                if not left or gone or engine is None or not (changed or engine.slot_was_dead(error)):
                    raise
        raise AssertionError

    def _start_once(self, job: Job) -> LinuxBox:
        if job.limits.cpus is not None and self._ground.rung is not Rung.FULL:
            raise UnsupportedError("limits.cpus needs a control group", ("a control group",), "leave cpus=None, or see doctor")
        engine = self._current()
        if self._ground.plan.bare:
            engine, (job, place) = self._fresh(engine, lambda _: bare.give(job, self._policy, self._checks))
            return self._start(engine, job, place)
        if job.workspace is None and not self._gives_always:
            return self._start(engine, job, NOTHING)
        engine, given = self._fresh(engine, lambda current: give(current, self._ground, self._checks, job.workspace))
        try:
            return self._start(engine, job, given)
        finally:
            given.started()

    def _current(self) -> Engine:
        """The engine; another one where something that is to be hidden is not what it was. SetupError when it does not stay
        so."""
        engine = self._engine or self._open()
        if covers.are_same(self._ground.tree.covers):
            return engine
        engine = self._renew(engine)
        if not covers.are_same(self._ground.tree.covers):
            raise SetupError("guard", errno.ESTALE, "", "what is hidden changes while runs begin: run again")
        return engine

    def _start(self, engine: Engine, job: Job, given: Given) -> LinuxBox:
        try:
            slot = engine.take()
            box = LinuxBox(job, slot, self._receipts, self._give_back, given)  # from here on its own to close
        except BaseException:
            given.close()
            self._suspect(engine)
            raise
        try:
            self._boxes.add(box)
            slot.prepare(job.limits)
            data = given.body(job.body.data)
            request = self._request(job, given, len(data))
            if self._keep.pinned:
                box.core = CORES.lend()
                request.core = box.core + 1
            box.start(request, data)
            if self._closed:  # by a thread that did not find this run, or not begun
                box.end()
        except BaseException:
            box.close()
            raise
        return box

    def _fresh(self, engine: Engine, make: Callable[[Engine], _T]) -> tuple[Engine, _T]:
        try:
            return engine, make(engine)
        except SetupError as error:
            if error.errno not in (errno.ESTALE, errno.ENOENT):
                raise
        # The directory is on a mount that is newer than the launcher's copy of the host's tree, or other files are protected now.
        engine = self._renew(engine)
        return engine, make(engine)

    def _request(self, job: Job, given: Given, size: int) -> Any:
        """A struct sn_request: the part that follows from the limits is kept."""
        known = self._requests.get(job.limits)
        if known is None:
            if len(self._requests) >= _KNOWN_REQUESTS:
                self._requests.clear()
            known = self._requests[job.limits] = _limits_part(job.limits, self._ground)
        request, body = ffi.new("struct sn_request *"), job.body
        ffi.memmove(request, known, len(known))
        if self._ground.plan.bare:
            bare.bound_tasks(request, job.limits.processes)
        if given.apart is not None:
            request.flags |= lib.SN_REQUEST_CHANGES
        if job.collect is not None and (given.workspace is None or given.apart is not None):
            request.flags |= lib.SN_REQUEST_COLLECT
        request.body_bytes, request.guards = size, len(given.guards)
        request.candidates, request.argc, request.envc, request.files = body.candidates, body.argc, body.envc, body.files
        program = body.found
        in_overlay = request.flags & lib.SN_REQUEST_CHANGES and program is not None and program.by_run
        if program is not None and not in_overlay and self._same_file.at(program.real):
            request.exec_device, request.exec_inode = program.device, program.inode
        return request

    def _give_back(self, box: LinuxBox, usable: bool) -> None:
        self._boxes.discard(box)
        engine = box.slot.engine
        engine.tally(box.was_parked)
        if box.core is not None:
            CORES.give_back(box.core)
        if usable and (box.shows_host or self._policy.writable) and box.slot.burdened:
            engine.drop(box.slot)
        elif usable:
            engine.put(box.slot)
        else:
            engine.drop(box.slot)
            self._suspect(engine)
            if engine.bare and box.lost:  # what its slot left came to the launcher, which ends it at its own end
                self._discard(engine)

    def _suspect(self, engine: Engine) -> None:
        """Something of ours failed: if the launcher is gone, the next run gets another."""
        if not engine.alive:
            self._discard(engine)

    def _renew(self, engine: Engine) -> Engine:
        self._discard(engine)
        return self._open()

    def _discard(self, engine: Engine) -> None:
        with self._lock:
            if self._engine is engine:
                self._engine = None
        engine.close()

    def crowd(self, places: int) -> LinuxCrowd:
        return LinuxCrowd(places)

    def stats(self) -> Stats:
        return self._open().stats()

    @property
    def has_idle(self) -> bool:
        return self._engine is not None and self._engine.has_idle

    def open_slot(self) -> None:
        engine = self._open()
        engine.put(engine.new())

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


def _limits_part(limits: Limits, ground: Ground) -> bytes:
    request = ffi.new("struct sn_request *")
    request.version = lib.SN_WIRE_VERSION
    request.wall_ns = round(limits.wall_seconds * _NS)
    request.cpu_ns = round((limits.cpu_seconds or 0) * _NS)
    request.memory_bytes, request.tmp_bytes = limits.memory_bytes, limits.tmp_bytes
    cores = len(os.sched_getaffinity(0))
    request.cpus = min(cores, limits.processes, math.ceil(limits.cpus or cores))
    request.flags = 0 if ground.rung is Rung.FULL else lib.SN_REQUEST_SAMPLE
    if limits.cpus is not None:
        request.flags |= lib.SN_REQUEST_CPU_GROUP
    chosen = rlimits(limits, ground.rlimit_counts)
    request.rlimit_count = len(chosen)
    for at, limit in enumerate(chosen):
        one = request.rlimits[at]
        one.resource, one.flags, one.value = _RLIMITS[limit.name], lib.SN_RLIMIT_KEEP, limit.value
    return bytes(ffi.buffer(request))
