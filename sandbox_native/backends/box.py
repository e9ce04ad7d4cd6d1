"""One run on Linux: a struct sn_box that has been started in a slot, until its Result is made. Host process.

Made by linux.py. All calls that wait go down to C with the GIL released.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from sandbox_native import files, verdict
from sandbox_native._native import ffi, lib
from sandbox_native.backends import tree
from sandbox_native.backends.base import Job, Output
from sandbox_native.backends.box_streams import BoxStreams
from sandbox_native.backends.given import NOTHING, Given
from sandbox_native.backends.native import call_name, failure_of, report_data
from sandbox_native.backends.watched import Watched
from sandbox_native.errors import SandboxError, SetupError
from sandbox_native.missing import View, explain
from sandbox_native.receipt import Receipts
from sandbox_native.result import Result
from sandbox_native.turns import Turns

if TYPE_CHECKING:
    from sandbox_native.backends.slots import Slot

# A signal may be delivered to another thread than the one that waits in C, which then goes on waiting: so it comes up for
# air at this interval, and Python runs its handlers.
_SLICE_MS: Final = 200
_LIGHT_BYTES: Final = 256 << 10
# Failures after which the slot is as good as before: the request was at fault.
_HARMLESS: Final = frozenset({"exec", "files", "cwd", "rlimit", "stdio", "workspace", "idmap", "explain", "guard", "overlay"})


class LinuxBox(BoxStreams):
    """`turns` is for those who share a box between threads; nothing here takes it."""

    __slots__ = (
        *("turns", "slot", "_closing", "_error", "_give_back", "_job", "_receipts", "_result"),
        *("_pid", "_slot_failed", "_watch", "_watched", "_given", "_brought", "core", "__weakref__"),
    )

    def __init__(
        self, job: Job, slot: Slot, receipts: Receipts, give_back: Callable[[LinuxBox, bool], None], given: Given
    ) -> None:
        """`give_back` is called once, when the box is closed; its second argument says whether the slot can be used again.
        `given` is closed with the box."""
        self._closing = threading.RLock()  # a signal handler may end or close what its own thread is just closing
        self._give_back: Callable[[LinuxBox, bool], None] | None = give_back
        self._given, self._brought = given, given.brought
        super().__init__(job)
        self.turns = Turns()
        self.slot = slot
        self._job = replace(job, body=replace(job.body, data=b"")) if job.body.has_secrets else job  # it may outlive the run
        self.core: int | None = None  # that it is pinned to
        self._receipts = receipts
        self._slot_failed = self._watch = False
        self._watched = Watched()
        self._result: Result | None = None
        self._error: SandboxError | None = None
        self._pid = os.getpid()  # last: __del__ has nothing to do before
        slot.lent = given.lent = True  # from here on this gives them back

    @property
    def raw(self) -> Any:
        """struct sn_box *"""
        return self._raw

    @property
    def was_parked(self) -> bool:
        """Whether the box was waiting for this run."""
        return bool(self._raw.report.held & lib.SN_HELD_PARKED)

    @property
    def began(self) -> bool:
        return bool(self._raw.pidfd >= 0)

    @property
    def heavy(self) -> bool:
        kept = sum(stream.end - stream.start for stream in map(self._stream, Output))
        return kept > _LIGHT_BYTES or self._job.collect is not None or self._given is not NOTHING

    @property
    def came_to_nothing(self) -> bool:
        error = self._error
        return isinstance(error, SetupError) and not self._raw.ending and self.slot.engine.slot_was_dead(error)

    @property
    def lost(self) -> bool:
        """Whether a process of ours ended under it."""
        return isinstance(self._error, SetupError) and self._error.stage == "lost"

    @property
    def shows_host(self) -> bool:
        """Whether the guest's workspace is a directory of the host."""
        return self._given.workspace is not None

    def start(self, request: Any, body: bytes) -> None:
        """Starts the run; on failure the C side is closed and nothing runs."""
        self._take_ends(self._job)
        given, why = self._given.descriptors(), ffi.new("struct sn_failure *")
        if lib.sn_box_start(self._raw, self.slot.process, request, body, given, self._given.GRACE_MS, why) < 0:
            self._fail(failure_of(why))

    # ---- while it runs ----

    def pump(self, timeout_ms: int) -> bool:
        if self._error is not None:
            raise self._error
        if self._result is not None:
            return True
        why = ffi.new("struct sn_failure *")
        code = lib.sn_box_wait(self._raw, timeout_ms, why)
        if code < 0 and code != -errno.EINTR:
            self._fail(failure_of(why))
        return bool(code == 1)

    def pump_to_end(self) -> None:
        while not self.pump(_SLICE_MS):
            pass

    def end(self) -> None:
        with self._closing:  # a closed box's descriptors may be somebody else's by now
            lib.sn_box_end(self._raw, lib.SN_END_CANCEL)

    def fileno(self) -> int:
        return max(self._watched.fd, int(self._raw.epoll))

    def pids(self) -> list[int]:
        with self._closing:
            init = tree.pid_of(self._raw.pidfd) if self._raw.pidfd >= 0 else -1
        return list(tree.descendants(init)) if init > 0 else []

    def watch(self) -> None:
        with self._closing:
            self._watch = True
            if self._give_back is None:  # by whoever closes the backend
                self._watched.stand_in()

    def unwatch(self) -> None:
        with self._closing:
            self._watch = False
            self._watched.close()

    # ---- when it is over ----

    def result(self) -> Result:
        if self._error is not None:
            raise self._error
        if self._result is None:
            try:
                self._result = self._make_result()
            except SetupError as error:  # what failed is not asked again, and would be missing in a Result
                self._error = error
                raise
        return self._result

    def _fail(self, error: SetupError) -> NoReturn:
        self._error = error
        self._slot_failed = error.stage not in _HARMLESS and error.errno not in (errno.EMFILE, errno.ENFILE)
        raise error

    def _make_result(self) -> Result:
        raw, limits = self._raw, self._job.limits
        report = report_data(raw.report)
        if report.kind == verdict.Kind.FAILED:
            report = self._explain(report)
        out, stdout, cut_out = self._captured(Output.STDOUT)
        err, stderr, cut_err = self._captured(Output.STDERR)
        overflowed = "stdout" if out.total > out.bound else "stderr" if err.total > err.bound else None
        judged = verdict.judge(report, limits, call_name, overflowed=overflowed)
        cut = {name: stream.total for name, stream, is_cut in (("stdout", out, cut_out), ("stderr", err, cut_err)) if is_cut}
        collected = self._collect()
        changes, refused = self._given.changes(self._raw.changes_fd, self._job.commit)
        return Result(
            status=judged.status,
            exit_code=judged.exit_code,
            signal=judged.signal,
            stdout=stdout,
            stderr=stderr,
            stdout_total=out.total,
            stderr_total=err.total,
            stdout_truncated=cut_out,
            stderr_truncated=cut_err,
            usage=verdict.usage(self.slot.own_peak(report), self.core),
            killed_processes=report.killed,
            enforcement=self._receipts.of(report, limits, self._brought),
            hint=judged.hint or verdict.cut_hint(cut, limits),
            files=collected.files,
            files_refused=collected.refused,
            denials=(*self._given.denials(), *refused),
            changes=changes,
        )

    def _explain(self, report: verdict.ReportData) -> verdict.ReportData:
        """A failure as our exception, but for what the kernel did to init on the guest's account."""
        if report.failure_stage == lib.SN_STAGE_LOST and self._raw.pidfd >= 0 and self.slot.lost_to_oom():
            self._slot_failed = True  # the slot may have gone with it
            return verdict.ReportData(
                kind=verdict.Kind.ENDED,
                ended_by=verdict.EndedBy.MEMORY,
                wall_ns=report.wall_ns,
                cpu_ns=self.slot.cpu_ns(),
                held=report.held,
                oom_kills=1,
            )
        error = verdict.failure(report)
        if error is not None:
            if report.failure_stage == lib.SN_STAGE_LOST and self._given.TREE_OUTLIVES_INIT:
                self._slot_failed = True
                self.slot.end()
            job, policy = self._job, self._receipts.policy
            view = View(policy=policy, path=job.body.path, cwd=job.cwd, workspace=job.workspace, placed=job.files)
            self._fail(explain(error, job.body.program, view))
        return report

    def _collect(self) -> files.Collection:
        wanted = self._job.collect
        if wanted is None:
            return files.Collection()
        shown = self._given.workspace
        root = self._raw.workspace_fd if shown is None or self._given.apart is not None else shown.fd
        if root < 0:  # init was lost before it could hand the workspace over
            return files.Collection(refused={"": "the workspace was lost with its box"})
        return files.collect(root, wanted, self._job.limits)

    def settle(self) -> None:
        """Ends the run and makes its result, for whoever asks later; then closes. For a backend that closes."""
        self.end()
        if self.turns.mine:  # a signal handler of the thread that pumps
            return
        if self._raw.state == lib.SN_BOX_NEW:  # whoever is just starting it ends it
            return
        with self.turns:
            for step in (self._finish, self.close):
                try:
                    step()
                except SandboxError as error:  # kept for whoever asks
                    self._error = error

    def _finish(self) -> None:
        if self._raw.state == lib.SN_BOX_RUNNING:
            self.pump_to_end()
        if self._raw.state == lib.SN_BOX_DONE:
            self.result()

    def close(self) -> None:
        if os.getpid() != self._pid:  # a forked child of the host that has not come to `abandon` yet
            return
        give_back = None
        try:
            with self._closing:
                if self._give_back is None:
                    return
                # A Ctrl-C in between leaves it to __del__, which starts again: every step is harmless when repeated.
                if self._watch and self._raw.epoll >= 0:
                    self._watched.fd = self._raw.epoll
                    self._raw.epoll = -1
                try:
                    try:
                        self._end_run()
                    finally:
                        self._given.close()
                finally:
                    self.slot.lent = False  # what interrupts the rest leaves it to itself
                    give_back, self._give_back = self._give_back, None
        finally:
            if give_back is not None:
                give_back(self, not self._slot_failed)

    def _end_run(self) -> None:
        cut_short = self._raw.state == lib.SN_BOX_RUNNING
        lib.sn_box_close(self._raw)
        self._watched.wake()
        if cut_short and self._given.TREE_OUTLIVES_INIT:  # its init may have been killed
            self.slot.end()

    def __del__(self) -> None:
        """Nobody waits for it any more, or a Ctrl-C came before anybody could close it."""
        if hasattr(self, "_pid"):
            try:
                self.close()
            finally:
                self.unwatch()

    def abandon(self) -> None:
        """In a forked child of the host: the run is the parent's."""
        self._give_back = None
        self._closing, self.turns = threading.RLock(), Turns()
        self._error = SandboxError("this Process belongs to the process that spawned it")
        if self._watched.fd == self._raw.epoll:  # it was just being handed on
            self._watched.fd = -1
        lib.sn_box_abandon(self._raw)
        self.unwatch()
        self._given.abandon()
