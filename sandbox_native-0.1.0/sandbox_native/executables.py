"""Which file argv[0] is in a box, found on the host before anything runs. Host process.

Called by request.py for a run whose program is not known yet. What is found travels to init with its device and inode, and init
compares them with what it opens in the box. Where only the box can know (its private places, /etc, /proc) nothing is refused here
and nothing compared; the kernel's answer is explained afterwards (missing.py).
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass
from typing import Final, Self

from sandbox_native import headers, paths
from sandbox_native.environment import WORKSPACE, Environment, candidates
from sandbox_native.errors import ExecError, PolicyError
from sandbox_native.inside import Inside, Place, Spot, first_bytes
from sandbox_native.missing import no_interpreter, no_program
from sandbox_native.policy import Policy
from sandbox_native.rules import Access

_LINES: Final = 5  # interpreter lines that lead to each other; one more is ELOOP (fs/exec.c, exec_binprm)
_KEPT: Final = 256
_CAPABILITIES: Final = "security.capability"
_SET_ID: Final = (
    "the guest could not have the identity that it is marked with (no_new_privs), and such programs then fail in odd ways: "
    "leave it out, or show a copy without the mark"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Executable:
    """A program as a box of a policy shows it, and as the host found it."""

    program: str
    """As it was asked for."""
    path: str
    """In the box: absolute, or relative to the working directory as it was asked for. What is executed."""
    real: str = ""
    """In the box, with every link followed."""
    host: str = ""
    """The same file on the host; empty where only the box has it."""
    device: int = 0
    inode: int = 0
    interpreters: tuple[str, ...] = ()
    """What its `#!` lines lead to, then the loader of an ELF program, as paths in the box."""
    by_run: bool = False
    """The way leads into /workspace, which is another in each run."""
    _watched: str = ""
    _changed_ns: int = 0

    @classmethod
    def at(cls, program: str, path: str, spot: Spot, interpreters: tuple[str, ...]) -> Self:
        """Of a file that the host has."""
        status = spot.status
        assert status is not None
        return cls(
            program=program,
            path=path,
            real=spot.path,
            host=spot.host,
            device=status.st_dev,
            inode=status.st_ino,
            interpreters=interpreters,
            by_run=spot.by_run,
            _watched=_same_by_name(path, spot),
            _changed_ns=status.st_ctime_ns,
        )

    def unchanged(self) -> bool:
        """Whether the host still has that file there, and has not touched it. One stat; True where the host has none."""
        if not self.host:
            return True
        try:
            now = os.stat(self._watched)
        except OSError:
            return False
        return (now.st_ino, now.st_dev, now.st_ctime_ns) == (self.inode, self.device, self._changed_ns)


class ExecutableResolver:
    """Finds programs as a box of `policy` would: by name in the box's PATH, or by path. Looks at the host anew each time.

    A name is found only where the guest cannot write: never in a writable root, the workspace or /tmp, and not through a link
    to there. A program in such a place is started when it is written as a path.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        if policy is not None and not isinstance(policy, Policy):
            raise PolicyError("not a Policy", field="policy", value=policy, remedy="give a Policy or None")
        self._policy = policy or Policy.strict()
        self._inside = Inside(self._policy)
        self._interpreters = _Interpreters()
        self._search = Environment(path=self._policy.path).search
        # Another user than the file's, in none of its groups: its last three bits count.
        self._is_other = os.geteuid() == 0

    def resolve(
        self, program: str | os.PathLike[str], *, cwd: str | None = None, workspace: str | os.PathLike[str] | None = None
    ) -> Executable:
        """What would be started for argv[0], in the directory `cwd` of the box, with `workspace` shown as /workspace.

        `ExecError`, with the kernel's errno, for a program that is not there or not executable, set-user-id, set-group-id or
        with file capabilities, for another machine, or with an interpreter of which one of these is true. `Executable.host` is
        empty where only the box can tell.
        """
        name = os.fspath(program)
        if not isinstance(name, str) or not name or "\0" in name:
            raise PolicyError("not a program's name", field="program", value=program, remedy="give a name or a path")
        where = WORKSPACE if cwd is None else paths.absolute("cwd", cwd)
        shown = None if workspace is None else os.path.realpath(paths.absolute("workspace", os.path.abspath(workspace)))
        return self.find(name, where, shown)

    def find(self, program: str, cwd: str, workspace: str | None) -> Executable:
        """As `resolve`, of values that were checked."""
        inside = self._inside.of_run(workspace)
        path, spot = self._found(program, cwd, inside)
        if not spot.host:
            return Executable(program=program, path=path, by_run=spot.by_run)
        return Executable.at(program, path, spot, self._interpreters.of(spot, inside, cwd))

    def _found(self, program: str, cwd: str, inside: Inside) -> tuple[str, Spot]:
        if "/" in program:
            spot = inside.look(program, cwd)
            if spot.place is Place.NONE:
                raise no_program(program, None, inside, self._search)
            return program, spot
        writable: Spot | None = None
        not_allowed: tuple[str, Spot] | None = None
        for path in candidates(program, self._search):
            spot = inside.look(path)
            if spot.place is Place.BOX:
                return path, spot
            if spot.status is None or not stat.S_ISREG(spot.status.st_mode):
                continue
            if inside.access(spot) is not Access.READABLE:
                writable = writable or spot
            elif self._may_run(spot):
                return path, spot
            else:
                not_allowed = not_allowed or (path, spot)
        if not_allowed is None:
            raise no_program(program, writable, inside, self._search)
        return not_allowed  # as execvp: what may not be run counts for more than what is missing

    def _may_run(self, spot: Spot) -> bool:
        if self._is_other:
            return spot.status is not None and bool(spot.status.st_mode & stat.S_IXOTH)
        return os.access(spot.host, os.X_OK, effective_ids=True)


class _Interpreters:
    """What a program's `#!` line leads to, its interpreter's, and so on, to the loader of the ELF program at its end.

    What was found for an interpreter is kept as long as the host does not touch it: scripts in a workspace, which is another in
    each run, mostly have the same.
    """

    def __init__(self) -> None:
        self._known: dict[str, tuple[Executable, int]] = {}  # with the number of its own lines

    def of(self, spot: Spot, inside: Inside, cwd: str) -> tuple[str, ...]:
        """As paths of the box. ExecError for one that is not there or may not be run."""
        return self._of(spot, inside, cwd, 0)[0]

    def _of(self, spot: Spot, inside: Inside, cwd: str, lines: int) -> tuple[tuple[str, ...], int]:
        """With the number of lines that follow; `lines` came before."""
        _check(spot)
        data = first_bytes(spot)
        elf = headers.read_elf(data)
        if elf is not None:
            name = _loader(spot, elf, data)
            return (self._next(spot, name, inside, cwd, None)[0], 0) if name else ((), 0)
        script = headers.read_script(data)
        if script is None:
            return (), 0
        found, more = self._next(spot, os.fsdecode(script.interpreter), inside, cwd, lines + 1)
        if lines + 1 + more > _LINES:
            raise ExecError("exec", errno.ELOOP, spot.path, f"more than {_LINES} `#!` lines lead to each other")
        return found, more + 1

    def _next(self, of: Spot, name: str, inside: Inside, cwd: str, lines: int | None) -> tuple[tuple[str, ...], int]:
        """`lines`: None for a loader, of which nothing is asked but that it is there."""
        known = self._known.get(name)
        if known is not None and known[0].unchanged():
            return (name, *known[0].interpreters), known[1]
        spot = inside.look(name, cwd)
        if spot.place is Place.NONE:
            raise no_interpreter(of.path, name, inside)
        if lines is not None and lines > _LINES:
            return (name,), 0
        found, more = self._of(spot, inside, cwd, lines) if spot.host and lines is not None else ((), 0)
        if spot.host and name.startswith("/") and not spot.by_run:
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[name] = Executable.at(name, name, spot, found), more
        return (name, *found), more


def _loader(spot: Spot, elf: headers.Elf, data: bytes) -> str:
    """Of an ELF program, if it names one. ExecError for one that no kernel here starts."""
    refusal = elf.refusal(os.uname().machine)
    if refusal is None:
        return os.fsdecode(elf.loader(data))
    if not _is_handled(data):
        raise ExecError("exec", errno.ENOEXEC, spot.path, refusal)
    return ""


def _check(spot: Spot) -> None:
    """No program of which the kernel, or the guest's lack of privileges, would make something else."""
    assert spot.status is not None
    mode = spot.status.st_mode
    if not stat.S_ISREG(mode):
        raise ExecError("exec", errno.EACCES, spot.path, "it is no regular file")
    marks = [name for bit, name in ((stat.S_ISUID, "set-user-id"), (stat.S_ISGID, "set-group-id")) if mode & bit]
    if _has_capabilities(spot.host):
        marks.append("file capabilities")
    if marks:
        raise ExecError("exec", errno.EPERM, spot.path, f"it is a program with {' and '.join(marks)}: {_SET_ID}")


def _has_capabilities(host: str) -> bool:
    try:
        return bool(os.getxattr(host, _CAPABILITIES, follow_symlinks=False))
    except OSError:  # none, or a file system without them
        return False


def _same_by_name(path: str, spot: Spot) -> str:
    """The name under which a change of a link on the way is seen too, if the host has the program by it."""
    assert spot.status is not None
    if path.startswith("/"):
        try:
            if os.path.samestat(os.stat(path), spot.status):
                return path
        except OSError:
            pass
    return spot.host


_HANDLERS: Final = "/proc/sys/fs/binfmt_misc"


def _is_handled(data: bytes) -> bool:
    """Whether the kernel was told of an emulator, opened beforehand (flag F), for files that begin so."""
    try:
        names = os.listdir(_HANDLERS)
        for name in names:
            with open(os.path.join(_HANDLERS, name), encoding="ascii", errors="replace") as file:
                if _matches(file.read(), data):
                    return True
    except OSError:  # not mounted, or not for this user
        pass
    return False


def _matches(handler: str, data: bytes) -> bool:
    lines = handler.splitlines()
    fields = dict(line.partition(" ")[::2] for line in lines)
    if not lines or lines[0] != "enabled" or "magic" not in fields or "F" not in fields.get("flags:", ""):
        return False
    magic = bytes.fromhex(fields["magic"])
    mask = bytes.fromhex(fields["mask"]) if "mask" in fields else b"\xff" * len(magic)
    there = data[int(fields.get("offset", "0")) :][: len(magic)]
    return len(there) == len(magic) and all((a ^ b) & m == 0 for a, b, m in zip(there, magic, mask, strict=True))
