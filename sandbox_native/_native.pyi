"""Types of the extension that csrc/ffi_build.py describes: its functions, constants and structs, for the type checker.

tests/test_native.py compares this file with the built extension.
"""

from typing import Any, Final, Literal, overload

from sandbox_native._native_types import (
    Box,
    Buffer,
    CData,
    Failure,
    Op,
    Plan,
    Probes,
    Process,
    Report,
    Request,
    Rlimit,
    Stream,
    Syscall,
)

class _FFI:
    NULL: Final[CData]
    @overload
    def new(self, cdecl: Literal["struct sn_failure *"]) -> Failure: ...
    @overload
    def new(self, cdecl: Literal["struct sn_op *"]) -> Op: ...
    @overload
    def new(self, cdecl: Literal["struct sn_plan *"]) -> Plan: ...
    @overload
    def new(self, cdecl: Literal["struct sn_rlimit *"]) -> Rlimit: ...
    @overload
    def new(self, cdecl: Literal["struct sn_request *"]) -> Request: ...
    @overload
    def new(self, cdecl: Literal["struct sn_report *"]) -> Report: ...
    @overload
    def new(self, cdecl: Literal["struct sn_probes *"]) -> Probes: ...
    @overload
    def new(self, cdecl: Literal["struct sn_process *"]) -> Process: ...
    @overload
    def new(self, cdecl: Literal["struct sn_stream *"]) -> Stream: ...
    @overload
    def new(self, cdecl: Literal["struct sn_box *"]) -> Box: ...
    @overload
    def new(self, cdecl: Literal["struct sn_syscall *"]) -> Syscall: ...
    @overload
    def new(self, cdecl: str, init: object = ...) -> CData: ...
    def buffer(self, cdata: CData, size: int = ...) -> Buffer: ...
    def from_buffer(self, source: object) -> CData: ...
    def memmove(self, dest: object, src: object, n: int) -> None: ...
    def sizeof(self, cdecl: str | CData) -> int: ...
    def string(self, cdata: CData, maxlen: int = ...) -> bytes: ...
    def unpack(self, cdata: CData, length: int) -> Any: ...
    def addressof(self, cdata: CData, *fields: str | int) -> Any: ...
    def cast(self, cdecl: str, value: object) -> CData: ...

class _Lib:
    SN_WIRE_VERSION: Final[int]
    SN_ITEM_BYTES: Final[int]
    SN_INLINE_BYTES: Final[int]
    SN_MAX_RLIMITS: Final[int]
    SN_MAX_GAUGES: Final[int]
    SN_MAX_DENIALS: Final[int]
    SN_DENIAL_PATH: Final[int]
    SN_STAGE_NONE: Final[int]
    SN_STAGE_SPAWN: Final[int]
    SN_STAGE_CHANNEL: Final[int]
    SN_STAGE_PLAN: Final[int]
    SN_STAGE_USERNS: Final[int]
    SN_STAGE_MOUNTNS: Final[int]
    SN_STAGE_MOUNT: Final[int]
    SN_STAGE_PIVOT: Final[int]
    SN_STAGE_CREDS: Final[int]
    SN_STAGE_NETNS: Final[int]
    SN_STAGE_CGROUP: Final[int]
    SN_STAGE_CLONE: Final[int]
    SN_STAGE_HOSTNAME: Final[int]
    SN_STAGE_RLIMIT: Final[int]
    SN_STAGE_SECCOMP: Final[int]
    SN_STAGE_KEYRING: Final[int]
    SN_STAGE_FILES: Final[int]
    SN_STAGE_WORKSPACE: Final[int]
    SN_STAGE_CWD: Final[int]
    SN_STAGE_STDIO: Final[int]
    SN_STAGE_EXEC: Final[int]
    SN_STAGE_REQUEST: Final[int]
    SN_STAGE_LOST: Final[int]
    SN_STAGE_SESSION: Final[int]
    SN_STAGE_IDMAP: Final[int]
    SN_STAGE_LANDLOCK: Final[int]
    SN_STAGE_OVERLAY: Final[int]
    SN_STAGE_GUARD: Final[int]
    SN_STAGE_WARM: Final[int]
    SN_STAGE_EXPLAIN: Final[int]
    SN_START: Final[int]
    SN_SLOT: Final[int]
    SN_BIND: Final[int]
    SN_EXPLAIN: Final[int]
    SN_GAUGE_NONE: Final[int]
    SN_GAUGE_PROCS: Final[int]
    SN_GAUGE_GROUP: Final[int]
    SN_GAUGE_CPU_NS: Final[int]
    SN_GAUGE_CPU_USER_NS: Final[int]
    SN_GAUGE_CPU_SYS_NS: Final[int]
    SN_GAUGE_CPU_STAT: Final[int]
    SN_GAUGE_MEMORY_STAT: Final[int]
    SN_GAUGE_OOM_CONTROL: Final[int]
    SN_GAUGE_OOM_EVENT: Final[int]
    SN_GAUGE_MEMORY_EVENTS: Final[int]
    SN_GAUGE_PIDS: Final[int]
    SN_GAUGE_CPU_GROUP: Final[int]
    SN_REQUEST_CPU_GROUP: Final[int]
    SN_GAUGE_PEAK: Final[int]
    SN_PLAN_PROBE: Final[int]
    SN_PROBE_USERNS: Final[int]
    SN_PROBE_MOUNT: Final[int]
    SN_PROBE_PROC: Final[int]
    SN_PROBE_PROC_SUBSET: Final[int]
    SN_PROBE_NETNS: Final[int]
    SN_PROBE_SECCOMP: Final[int]
    SN_PROBE_LISTENER: Final[int]
    SN_PROBE_PIDFD: Final[int]
    SN_PROBE_CLOSE_RANGE: Final[int]
    SN_PROBE_OPENAT2: Final[int]
    SN_PROBE_MOUNT_SETATTR: Final[int]
    SN_PROBE_IDMAP: Final[int]
    SN_PROBE_LANDLOCK: Final[int]
    SN_PROBE_CGROUPNS: Final[int]
    SN_PROBE_RESOURCE: Final[int]
    SN_PROBE_KEYRING: Final[int]
    SN_PROBE_OVERLAY: Final[int]
    SN_PROBE_CHANGES: Final[int]
    SN_PROBE_NPROC: Final[int]
    SN_PROBE_COUNT: Final[int]
    SN_PLAN_ROOT: Final[int]
    SN_PLAN_WARM: Final[int]
    SN_PLAN_BARE: Final[int]
    SN_OP_DIR: Final[int]
    SN_OP_FILE: Final[int]
    SN_OP_SYMLINK: Final[int]
    SN_OP_BIND: Final[int]
    SN_OP_TMPFS: Final[int]
    SN_OP_PROC: Final[int]
    SN_OP_MASK: Final[int]
    SN_OP_OVERLAY: Final[int]
    SN_OP_CHANGES: Final[int]
    SN_OP_MQUEUE: Final[int]
    SN_OP_GUARD: Final[int]
    SN_OP_RDONLY: Final[int]
    SN_OP_NOSUID: Final[int]
    SN_OP_NODEV: Final[int]
    SN_OP_NOEXEC: Final[int]
    SN_OP_OPTIONAL: Final[int]
    SN_OP_IDMAP: Final[int]
    SN_OP_SIZED: Final[int]
    SN_OP_NORECURSE: Final[int]
    SN_RULE_OPTIONAL: Final[int]
    SN_RULE_SELF: Final[int]
    SN_RULE_OWNED: Final[int]
    SN_REQUEST_BODY_FD: Final[int]
    SN_REQUEST_WORKSPACE: Final[int]
    SN_REQUEST_COLLECT: Final[int]
    SN_REQUEST_SAMPLE: Final[int]
    SN_REQUEST_CHANGES: Final[int]
    SN_REQUEST_UPPER: Final[int]
    SN_REQUEST_EXPLAIN: Final[int]
    SN_RLIMIT_KEEP: Final[int]
    SN_GUARD_RDONLY: Final[int]
    SN_GUARD_MASK: Final[int]
    SN_END_CANCEL: Final[int]
    SN_END_OUTPUT: Final[int]
    SN_REPORT_STARTED: Final[int]
    SN_REPORT_FAILED: Final[int]
    SN_REPORT_ENDED: Final[int]
    SN_REPORT_CHANGES: Final[int]
    SN_BY_EXIT: Final[int]
    SN_BY_WALL: Final[int]
    SN_BY_CPU: Final[int]
    SN_BY_MEMORY: Final[int]
    SN_BY_CANCEL: Final[int]
    SN_BY_OUTPUT: Final[int]
    SN_BY_FILTER: Final[int]
    SN_HELD_USER: Final[int]
    SN_HELD_MOUNT: Final[int]
    SN_HELD_PID: Final[int]
    SN_HELD_IPC: Final[int]
    SN_HELD_UTS: Final[int]
    SN_HELD_NET: Final[int]
    SN_HELD_CGROUP_NS: Final[int]
    SN_HELD_ROOT: Final[int]
    SN_HELD_PROC: Final[int]
    SN_HELD_CAPS: Final[int]
    SN_HELD_NO_NEW_PRIVS: Final[int]
    SN_HELD_SECUREBITS: Final[int]
    SN_HELD_SECCOMP: Final[int]
    SN_HELD_RLIMITS: Final[int]
    SN_HELD_KEYRING: Final[int]
    SN_HELD_SESSION: Final[int]
    SN_HELD_FDS: Final[int]
    SN_HELD_GROUP: Final[int]
    SN_HELD_PROC_SUBSET: Final[int]
    SN_HELD_LISTENER: Final[int]
    SN_HELD_NO_GROUPS: Final[int]
    SN_HELD_NET_UNUSED: Final[int]
    SN_HELD_LANDLOCK: Final[int]
    SN_HELD_CHANGES: Final[int]
    SN_HELD_GUARDS: Final[int]
    SN_HELD_SUBREAPER: Final[int]
    SN_HELD_EXPLAIN: Final[int]
    SN_HELD_PARKED: Final[int]
    SN_DENIALS_OPEN: Final[int]
    SN_DENIALS_DONE: Final[int]
    SN_DENIAL_ENDED: Final[int]
    SN_KILL_LATE: Final[int]
    SN_KILL_FIRST: Final[int]
    SN_KILL_NEVER: Final[int]
    SN_STREAM_OPEN: Final[int]
    SN_STREAM_FLOW: Final[int]
    SN_BOX_NEW: Final[int]
    SN_BOX_RUNNING: Final[int]
    SN_BOX_DONE: Final[int]
    SN_BOX_MERGE: Final[int]
    SN_BOX_KILL_ON_OVERFLOW: Final[int]
    SN_BOX_STDIN_PIPE: Final[int]
    def sn_launcher_start(self, path: bytes | CData, launcher: Process, why: Failure) -> int: ...
    def sn_launcher_plan(
        self,
        launcher: Process,
        plan_fd: int,
        template_control: CData,
        timeout_ms: int,
        why: Failure,
    ) -> int: ...
    def sn_launcher_probe(
        self,
        launcher: Process,
        plan_fd: int,
        out: Probes,
        timeout_ms: int,
        why: Failure,
    ) -> int: ...
    def sn_launcher_bind(
        self,
        launcher: Process,
        path: bytes | CData,
        flags: int,
        device: int,
        inode: int,
        timeout_ms: int,
        why: Failure,
    ) -> int: ...
    def sn_launcher_explain(
        self,
        launcher: Process,
        socket: int,
        denials: int,
        timeout_ms: int,
        why: Failure,
    ) -> int: ...
    def sn_slot_open(
        self,
        template: Process,
        gauges: CData,
        fds: CData,
        count: int,
        idle_seconds: int,
        hold_us: int,
        slot: Process,
        timeout_ms: int,
        why: Failure,
    ) -> int: ...
    def sn_process_hang_up(self, process: Process) -> None: ...
    def sn_process_close(self, process: Process, timeout_ms: int, kill: int) -> int: ...
    def sn_box_init(self, box: Box) -> None: ...
    def sn_box_start(
        self,
        box: Box,
        slot: Process,
        request: Request,
        body: bytes | bytearray | CData,
        given: CData,
        grace_ms: int,
        why: Failure,
    ) -> int: ...
    def sn_box_wait(self, box: Box, timeout_ms: int, why: Failure) -> int: ...
    def sn_box_end(self, box: Box, verb: int) -> int: ...
    def sn_box_write(self, box: Box, data: bytes | bytearray | CData, size: int) -> int: ...
    def sn_box_close_stdin(self, box: Box) -> None: ...
    def sn_stream_take(self, stream: Stream, into: bytes | bytearray | CData, size: int) -> int: ...
    def sn_box_close(self, box: Box) -> None: ...
    def sn_box_abandon(self, box: Box) -> None: ...
    def sn_batch_add(self, epoll: int, box: Box, place: int) -> int: ...
    def sn_batch_remove(self, epoll: int, box: Box) -> int: ...
    def sn_batch_wake_by(self, epoll: int, fd: int) -> int: ...
    def sn_batch_wait(self, epoll: int, boxes: CData, count: int, done: CData, timeout_ms: int) -> int: ...
    def sn_syscalls(self) -> CData: ...
    def sn_syscalls_other(self) -> CData: ...
    def sn_audit_arch(self) -> int: ...
    def sn_audit_arch_other(self) -> int: ...

ffi: _FFI
lib: _Lib
