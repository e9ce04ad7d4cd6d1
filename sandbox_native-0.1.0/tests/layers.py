"""Boxes from plans and requests made by hand, one step below Sandbox: for the tests of what the launcher mounts."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from boxes import become_plain
from launched import Failed
from scope import succeeds

from sandbox_native._native import ffi, lib
from sandbox_native.backends.engine import Engine
from sandbox_native.errors import SetupError
from sandbox_native.features import launcher_path
from sandbox_native.plan import INSIDE_UID, Identity, Op, Plan
from sandbox_native.view import SYSTEM

MIB = 1 << 20
BOX_UID = 0x2B5A0001  # nobody's on the host
KEEP, IDMAP = lib.SN_REQUEST_CHANGES, lib.SN_OP_IDMAP
SAFE = lib.SN_OP_NOSUID | lib.SN_OP_NODEV
READ_ONLY = SAFE | lib.SN_OP_RDONLY
CHANGES, EMPTY, ASIDE, WORKSPACE = "/.changes", "/.empty", "/.roots", "/workspace"


@dataclass(frozen=True, kw_only=True)
class Guard:
    name: str
    flags: int = lib.SN_GUARD_RDONLY
    device: int = 0
    inode: int = 0


@dataclass(frozen=True, kw_only=True)
class Ran:
    """How a run ended; descriptors are closed with the `running` that gave it."""

    exit_code: int
    stdout: str
    stderr: str
    held: int
    changes: int  # descriptor of the directory of changes, -1: none
    workspace: int

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


def identity() -> Identity:
    uid, gid = os.geteuid(), os.getegid()
    if uid:
        return Identity(root=False, box_uid=uid, box_gid=gid, owner_uid=uid, owner_gid=gid)
    return Identity(root=True, box_uid=BOX_UID, box_gid=BOX_UID, owner_uid=uid, owner_gid=gid)


def _system() -> Iterator[Op]:
    for path in SYSTEM:
        if os.path.islink(path):
            yield Op(lib.SN_OP_SYMLINK, path, data=os.readlink(path).encode())
        elif os.path.isdir(path):
            yield Op(lib.SN_OP_BIND, path, READ_ONLY, source=path)


def plan(template: Sequence[Op] = (), box: Sequence[Op] = (), tmp_bytes: int = 4 * MIB) -> Plan:
    """A root with the system's programs, a /tmp and a private workspace, and what is given on top of them. No filter."""
    directories = ("/tmp", WORKSPACE, CHANGES, ASIDE, "/etc")
    owner = f"mode=0755,uid={INSIDE_UID},gid={INSIDE_UID},nr_inodes=4096".encode()
    return Plan(
        identity=identity(),
        template=[
            *_system(),
            *(Op(lib.SN_OP_BIND, path, lib.SN_OP_NOSUID, source=path) for path in ("/dev/null", "/dev/zero")),
            Op(lib.SN_OP_BIND, "/proc", SAFE, source="/proc"),
            *(Op(lib.SN_OP_DIR, path, mode=0o755) for path in directories),
            Op(lib.SN_OP_DIR, f"{EMPTY}/dir"),
            Op(lib.SN_OP_FILE, f"{EMPTY}/file"),
            *template,
        ],
        box=[
            Op(lib.SN_OP_TMPFS, "/tmp", SAFE | lib.SN_OP_SIZED, data=b"mode=1777"),
            Op(lib.SN_OP_TMPFS, WORKSPACE, SAFE | lib.SN_OP_SIZED, data=owner),
            Op(lib.SN_OP_PROC, "/proc", SAFE),
            *box,
        ],
        workspace=WORKSPACE,
        hostname="box",
        tmp_bytes=tmp_bytes,
        seccomp=None,
        changes=CHANGES,
    )


@contextmanager
def engine(made: Plan) -> Iterator[Engine]:
    """What its template could not do raises Failed."""
    try:
        started = Engine(launcher_path(), None, made.encode())
    except SetupError as error:
        raise _failed(error) from error
    try:
        yield started
    finally:
        started.close()


def _failed(error: SetupError) -> Failed:
    """With the stage as a number."""
    why = ffi.new("struct sn_failure *", {"stage": getattr(lib, f"SN_STAGE_{error.stage.upper()}"), "error": error.errno or 0})
    why.item = os.fsencode(error.item)[: lib.SN_ITEM_BYTES - 1]
    return Failed(-1, why)


@contextmanager
def mounted(used: Engine, path: Path | str, flags: int = 0) -> Iterator[int]:
    """A detached mount of a host directory, its owner the guest."""
    here = os.stat(path)
    flags |= SAFE | lib.SN_OP_NORECURSE | (lib.SN_OP_IDMAP if os.geteuid() == 0 else 0)
    fd = used.bind(str(path), flags, here.st_dev, here.st_ino)
    try:
        yield fd
    finally:
        os.close(fd)


def body(argv: Sequence[str], guards: Sequence[Guard], files: dict[str, bytes]) -> bytes:
    """cwd, one candidate, argv, the environment, file and guard records."""
    words = ["/", argv[0], *argv, "PATH=/usr/bin:/bin"]
    data = b"".join(os.fsencode(word) + b"\0" for word in words)
    for name, content in files.items():
        encoded = os.fsencode(name) + b"\0"
        data += bytes(-len(data) % 8) + struct.pack("=QII", len(content), len(encoded), 0o644) + encoded + content
    for guard in guards:
        encoded = os.fsencode(guard.name) + b"\0"
        data += bytes(-len(data) % 8) + struct.pack("=QQII", guard.device, guard.inode, guard.flags, len(encoded)) + encoded
    return data


@contextmanager
def running(
    used: Engine,
    argv: Sequence[str],
    *,
    flags: int = 0,
    workspace: int = -1,
    upper: int = -1,
    guards: Sequence[Guard] = (),
    files: dict[str, bytes] | None = None,
    tmp_bytes: int = 4 * MIB,
    data: bytes | None = None,
) -> Iterator[Ran]:
    """One run to its end. What we could not do raises Failed."""
    files = files or {}
    data = body(argv, guards, files) if data is None else data
    request = ffi.new("struct sn_request *")
    request.version, request.flags = lib.SN_WIRE_VERSION, flags
    request.wall_ns, request.tmp_bytes, request.cpus = 60 * 10**9, tmp_bytes, 1
    request.candidates, request.argc, request.envc = 1, len(argv), 1
    request.files, request.guards, request.body_bytes = len(files), len(guards), len(data)
    box, why = ffi.new("struct sn_box *"), ffi.new("struct sn_failure *")
    lib.sn_box_init(box)
    box.out.bound = box.err.bound = MIB
    given = ffi.new("struct sn_given *", (workspace, upper, -1, 0))
    slot = used.take()
    try:
        if lib.sn_box_start(box, slot.process, request, data, given, 1000, why) < 0:
            raise Failed(-1, why)
        while (done := lib.sn_box_wait(box, -1, why)) == 0:
            pass
        if done < 0:
            raise Failed(done, why)
        if box.report.kind == lib.SN_REPORT_FAILED:
            raise Failed(-1, box.report.failure)
        yield Ran(
            exit_code=os.waitstatus_to_exitcode(box.report.wait_status),
            stdout=_text(box.out),
            stderr=_text(box.err),
            held=box.report.held,
            changes=box.changes_fd,
            workspace=box.workspace_fd,
        )
    finally:
        lib.sn_box_close(box)
        used.put(slot)


def _text(stream: Any) -> str:
    return bytes(ffi.buffer(stream.data, stream.end)).decode() if stream.end else ""


def refused(used: Engine, **options: Any) -> tuple[int, int, str]:
    """Stage, errno and item of a run that must not start."""
    with pytest.raises(Failed) as caught:
        with running(used, ["/bin/true"], **options):
            pass
    return caught.value.stage, caught.value.errno, caught.value.item


def template_refused(*ops: Op) -> tuple[int, int, str]:
    """The same of a template."""
    with pytest.raises(Failed) as caught:
        with engine(plan(ops)):
            pass
    return caught.value.stage, caught.value.errno, caught.value.item


# ---- who the host is ----

Work = Callable[[Path], None]
Host = Callable[[Work], None]


def as_host(plain: bool, work: Work) -> None:
    """Runs `work(directory)` as root or as a plain user, with a directory of its own that anybody may reach."""
    directory = Path(tempfile.mkdtemp(prefix="layers-"))
    directory.chmod(0o755)
    try:
        if plain and os.geteuid() == 0:
            succeeds(lambda: _as_plain(directory, work))
        else:
            work(directory)
    finally:
        _remove(directory)


def _remove(directory: Path) -> None:
    """An overlay leaves a directory without any permission."""
    for path, directories, _ in os.walk(directory):
        for name in directories:
            if not os.path.islink(os.path.join(path, name)):
                os.chmod(os.path.join(path, name), 0o700)
    shutil.rmtree(directory)


def _as_plain(directory: Path, work: Work) -> None:
    os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(shutil.copy(launcher_path(), directory / "launcher"))
    home = directory / "home"
    home.mkdir()
    home.chmod(0o777)
    become_plain()
    work(home)


def hosts(*needed: str) -> Any:
    """A fixture, of root's host and of a plain user's: `host(work)` runs `work(directory)` there."""

    @pytest.fixture(params=["root", "plain"])
    def host(request: pytest.FixtureRequest, needs: Callable[[str], None]) -> Host:
        for name in needed:
            if (name, request.param) != ("overlay", "root"):
                needs(name)
        if os.geteuid():
            needs(request.param)
        return lambda work: as_host(request.param == "plain", work)

    return host
