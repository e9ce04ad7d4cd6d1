"""Types of what the extension hands out: cffi's objects and the structs of csrc/common/wire.h and csrc/decl.h.

For the type checker only: at run time there is no such module, and every one of these is cffi's CData.
"""

from collections.abc import Iterator
from typing import Any

class CData:
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, at: int | slice) -> Any: ...
    def __setitem__(self, at: int, value: Any) -> None: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...

class Buffer:
    def __getitem__(self, at: slice) -> bytes: ...
    def __setitem__(self, at: slice, value: bytes) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Failure(CData):
    stage: int
    error: int
    item: CData

class Op(CData):
    kind: int
    flags: int
    mode: int
    source: int
    target: int
    data: int
    size: int
    reserved: int
    device: int
    inode: int

class Plan(CData):
    version: int
    size: int
    flags: int
    box_uid: int
    box_gid: int
    owner_uid: int
    owner_gid: int
    inside_uid: int
    inside_gid: int
    template_at: int
    template_count: int
    box_at: int
    box_count: int
    filter_at: int
    filter_count: int
    groups_at: int
    groups_count: int
    hostname_at: int
    workspace_at: int
    enter_at: int
    warm_at: int
    warm_argc: int
    warm_envc: int
    reserved: int
    core_bytes: int
    tmp_bytes: int
    inotify_instances: int
    changes_at: int
    landlock_handled: int
    landlock_scoped: int
    landlock_workspace: int
    rules_at: int
    rules_count: int
    explain_at: int
    explain_count: int

class Rlimit(CData):
    resource: int
    flags: int
    value: int

class Request(CData):
    version: int
    flags: int
    wall_ns: int
    cpu_ns: int
    memory_bytes: int
    tmp_bytes: int
    cpus: int
    rlimit_count: int
    rlimits: CData
    body_bytes: int
    candidates: int
    argc: int
    envc: int
    files: int
    guards: int
    core: int
    exec_device: int
    exec_inode: int

class Report(CData):
    version: int
    kind: int
    ended_by: int
    wait_status: int
    wall_ns: int
    cpu_ns: int
    user_ns: int
    system_ns: int
    rusage_user_ns: int
    rusage_system_ns: int
    maxrss_bytes: int
    sampled_bytes: int
    group_peak_bytes: int
    oom_kills: int
    voluntary_switches: int
    involuntary_switches: int
    rlimits_kept: int
    killed: int
    peak_processes: int
    held: int
    forbidden_arch: int
    forbidden_nr: int
    reserved: int
    failure: Failure

class Probes(CData):
    version: int
    error: CData

class Process(CData):
    pid: int
    pidfd: int
    control: int
    reserved: int

class Stream(CData):
    fd: int
    flags: int
    data: CData
    bound: int
    start: int
    end: int
    total: int

class Box(CData):
    state: int
    flags: int
    epoll: int
    channel: int
    pidfd: int
    stdin_fd: int
    stdin_source: int
    workspace_fd: int
    changes_fd: int
    handed_in: int
    handed_out: int
    reserved: int
    stdin_data: CData
    stdin_size: int
    stdin_done: int
    started_ns: int
    deadline_ns: int
    relay_at: int
    relay_end: int
    relay: CData
    ending: int
    kill: int
    out: Stream
    err: Stream
    report: Report

class Syscall(CData):
    name: CData
    number: int
