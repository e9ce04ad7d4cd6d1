"""What can go wrong on our side, as exceptions that carry data and a remedy.

An exception of this module means that *we* could not do what was asked; whatever the guest did is a `Result`.
Raised in the host process by every other module; `setup_error` turns the failure record that a process of ours sent
(stage, errno, item: `struct sn_failure` in csrc/common/wire.h) into one of them. All of them can be pickled, so that a
worker process can hand them to its parent.
"""

from __future__ import annotations

import errno as codes
import os
import reprlib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

_SHOWN_CHARACTERS: Final = 160


class SandboxError(Exception):
    """Base of all errors of this package."""


def _show(value: object) -> str:
    # The value may be huge, hostile or not picklable, and an int of more than 4,300 digits has no repr.
    if isinstance(value, int) and value.bit_length() > 256:
        return f"<an integer of {value.bit_length()} bits>"
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = _SHOWN_CHARACTERS
    return short.repr(value)


class PolicyError(SandboxError, ValueError):
    """An argument, a policy or a limit that makes no sense or asks for something unsafe; nothing has run.

    `reason` says why it is refused, `field` names what is (empty where the reason does), `value` is its repr,
    shortened, and `remedy` what to give instead.
    """

    reason: str
    field: str
    value: str
    remedy: str

    def __init__(self, reason: str, *, field: str = "", value: object = None, remedy: str = "") -> None:
        self.reason, self.field, self.value, self.remedy = reason, field, _show(value), remedy
        super().__init__(reason)

    def __str__(self) -> str:
        what = f"{self.field}={self.value}: {self.reason}" if self.field else self.reason
        return f"{what}; {self.remedy}" if self.remedy else what


class UnsupportedError(SandboxError, RuntimeError):
    """This machine cannot enforce what the policy requires; nothing has run.

    `missing` names each thing that is not there, `remedy` how to get it.
    """

    reason: str
    missing: tuple[str, ...]
    remedy: str

    def __init__(self, reason: str, missing: Iterable[str] = (), remedy: str = "") -> None:
        self.reason, self.missing, self.remedy = reason, tuple(missing), remedy
        super().__init__(reason, self.missing, remedy)

    def __str__(self) -> str:
        missing = f"missing: {', '.join(self.missing)}" if self.missing else ""
        return "; ".join(part for part in (self.reason, missing, self.remedy) if part)


class SetupError(SandboxError, OSError):
    """A step of the set-up failed, so the guest did not run (or a process of ours was lost under it).

    `stage` is a name of `STAGES`, `errno` the kernel's answer (0: there was none), `item` what the step worked on
    (a mount's target, a limit's name, a program; empty when there is nothing to name), `hint` the remedy.
    """

    stage: str
    errno: int
    item: str
    hint: str

    def __init__(self, stage: str, errno: int, item: str = "", hint: str = "") -> None:
        # OSError itself swaps classes by errno (FileNotFoundError and kin); its subclasses, such as this one, do not.
        super().__init__(errno, os.strerror(errno) if errno else "no report")
        self.stage, self.errno, self.item, self.hint = stage, errno, item, hint

    def __str__(self) -> str:
        name = codes.errorcode.get(self.errno)
        on = f" on {self.item!r}" if self.item else ""
        what = f"{self.stage} failed{on}: {self.strerror}{f' ({name})' if name else ''}"
        return f"{what}; {self.hint}" if self.hint else what

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.stage, self.errno, self.item, self.hint), dict(self.__dict__))


class ExecError(SetupError):
    """The program could not be started: it is missing, not executable, or its interpreter is."""

    def __str__(self) -> str:
        """What is known of the program, rather than the kernel's words for the errno."""
        if not self.hint:
            return super().__str__()
        name = codes.errorcode.get(self.errno, str(self.errno))
        return f"{self.stage} failed{f' on {self.item!r}' if self.item else ''} ({name}): {self.hint}"


STAGES: Final[Mapping[int, str]] = MappingProxyType(
    {
        1: "spawn",
        2: "channel",
        3: "plan",
        4: "userns",
        5: "mountns",
        6: "mount",
        7: "pivot",
        8: "creds",
        9: "netns",
        10: "cgroup",
        11: "clone",
        12: "hostname",
        13: "rlimit",
        14: "seccomp",
        15: "keyring",
        16: "files",
        17: "workspace",
        18: "cwd",
        19: "stdio",
        20: "exec",
        21: "request",
        22: "lost",
        23: "session",
        24: "idmap",
        25: "landlock",
        26: "overlay",
        27: "guard",
        28: "explain",
        29: "warm",
    }
)
"""Number of a stage (enum sn_stage) -> its name in `SetupError.stage`."""

_DOCTOR: Final = "`python -m sandbox_native doctor` shows what this machine allows"
_MISMATCH: Final = "the launcher and the package differ in version: install the package again, or unset SANDBOX_NATIVE_LAUNCHER"

REMEDIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "spawn": "check that the launcher is there and executable; SANDBOX_NATIVE_LAUNCHER names another copy",
        "channel": "a process of ours did not answer; run again: a new launcher is started",
        "plan": _MISMATCH,
        "userns": f"user namespaces are not allowed here; {_DOCTOR}",
        "mountns": f"mount namespaces are not allowed here; {_DOCTOR}",
        "mount": f"check that the path exists and that the caller may read it; {_DOCTOR}",
        "pivot": f"the new root could not be entered; {_DOCTOR}",
        "creds": f"identities or capabilities could not be changed; {_DOCTOR}",
        "netns": f"network namespaces are not allowed here; {_DOCTOR}",
        "cgroup": f"the control group could not be used; {_DOCTOR}",
        "clone": f"no process could be started in new namespaces; {_DOCTOR}",
        "hostname": "give Policy.hostname another name",
        "rlimit": "the caller's own hard limit is lower: lower the limit of that name in Limits",
        "seccomp": f"the kernel refused the filter; {_DOCTOR}",
        "keyring": f"no session keyring could be made; {_DOCTOR}",
        "files": "check the names and sizes in files=",
        "workspace": "check that the workspace is a directory that the caller may read and write",
        "cwd": "give cwd= a directory that exists in the box, such as /workspace",
        "stdio": "check that stdin= is a readable file or descriptor",
        "exec": "check the program's path inside the box",
        "request": _MISMATCH,
        "lost": "a process of ours was killed from outside; run again: a new launcher is started",
        "session": f"the session could not be made; {_DOCTOR}",
        "idmap": "this kernel or file system has no idmapped mounts: a workspace can be had with "
        'Policy.strict(workspace_owner="chown"), a writable root only on another file system or kernel',
        "landlock": f"the kernel refused the Landlock rules; {_DOCTOR}",
        "overlay": f"the kernel or a file system refused an overlay there; {_DOCTOR}",
        "guard": "the workspace changed while the run began: run again",
        "warm": "leave it out of imports, or look at it with `python -I -c 'import …'` in a Sandbox",
        "explain": f"refused calls cannot be watched here: leave Policy.explain out; {_DOCTOR}",
    }
)
"""Name of a stage -> what to do when it fails, unless errno says more."""

_NO_DESCRIPTORS: Final = "the host has no descriptors left: close some, or raise `ulimit -n`"
_NO_MEMORY: Final = "the machine or the caller's control group is out of memory"

_BY_ERRNO: Final[Mapping[int, str]] = MappingProxyType(
    {
        codes.EMFILE: _NO_DESCRIPTORS,
        codes.ENFILE: "the machine has no descriptors left: raise fs.file-max",
        codes.ENOMEM: _NO_MEMORY,
    }
)

_BY_STAGE_AND_ERRNO: Final[Mapping[tuple[str, int], str]] = MappingProxyType(
    {
        ("spawn", codes.EACCES): (
            "the launcher has no run bit, or lies on a noexec mount: put a copy elsewhere and name it in SANDBOX_NATIVE_LAUNCHER"
        ),
        ("spawn", codes.ENOENT): ("the launcher is not there: install the package again, or correct SANDBOX_NATIVE_LAUNCHER"),
        ("spawn", codes.EAGAIN): (
            "the caller may start no more processes: raise `ulimit -u` or the pids limit of its control group"
        ),
        ("userns", codes.ENOSPC): "too many user namespaces: raise sysctl user.max_user_namespaces (0 forbids them)",
        ("clone", codes.ENOSPC): "too many namespaces: raise the sysctls user.max_*_namespaces (0 forbids them)",
        ("clone", codes.EAGAIN): (
            "no more processes can be started: raise Limits.processes, `ulimit -u` or the pids limit of the "
            "caller's control group"
        ),
        ("mount", codes.ENOSPC): "too many mounts: raise sysctl fs.mount-max",
        ("files", codes.ENOSPC): "files= does not fit the workspace: raise Limits.tmp_bytes",
        ("files", codes.EFBIG): "a file in files= is larger than Limits.file_bytes: raise it",
        ("workspace", codes.ENOENT): "the workspace does not exist: make the directory first",
        ("workspace", codes.ENOTDIR): "the workspace is not a directory",
        ("workspace", codes.ENOSPC): "the disk under the workspace is full",
        ("cgroup", codes.EACCES): f"the caller may not write this control group; {_DOCTOR}",
        ("keyring", codes.EDQUOT): (
            "a user may have 200 keys, and each box that runs at once needs one: raise sysctl kernel.keys.maxkeys, or run fewer"
        ),
        ("exec", codes.ENOENT): (  # missing.py knows more
            "there is no such program in the box, or the interpreter that its `#!` line or ELF header names is missing: "
            "check both against what the policy shows"
        ),
        ("exec", codes.ENOEXEC): (
            "it is neither a program for this machine nor a script with a `#!` line: add one, or name its interpreter in argv"
        ),
        ("exec", codes.EACCES): (
            "it is not executable, is a directory, or lies on a noexec mount: chmod +x it, or name its interpreter in argv"
        ),
        ("exec", codes.EPERM): ("the kernel refuses to run it for the guest: check its set-id bits and file capabilities"),
        ("exec", codes.E2BIG): "arguments and environment are too large together: pass the data by stdin= or files=",
        ("exec", codes.ENAMETOOLONG): "its path is too long",
        ("exec", codes.ENOTDIR): "a part of its path is not a directory",
        ("exec", codes.ELOOP): "its path, or its chain of `#!` lines, goes round in circles",
        ("exec", codes.EISDIR): "it is a directory, or its interpreter is",
        ("exec", codes.ESTALE): (
            "it was replaced while the run began: run again; if that does not help, the box shows an older mount or directory "
            "than the host has now: make a new Sandbox"
        ),
        ("exec", codes.ETXTBSY): "something still holds it open for writing: close it first",
        ("exec", codes.ENOMEM): "it does not fit the memory limit: raise Limits.memory_bytes",
        ("exec", codes.EAGAIN): "the caller's `ulimit -u` is exceeded",
    }
)

_OURS: Final = "a fault of ours, please report it: a request was not what the launcher expects"

_BY_STAGE_AND_ITEM: Final[Mapping[tuple[str, str], str]] = MappingProxyType({("request", "body"): _OURS})


def _hint(stage: str, errno: int, item: str) -> str:
    known = (
        _BY_STAGE_AND_ERRNO.get((stage, errno)),
        _BY_ERRNO.get(errno),
        _BY_STAGE_AND_ITEM.get((stage, item)),
        REMEDIES.get(stage),
    )
    for words in known:
        if words is not None:
            return words
    return ""


def setup_error(stage: int, errno: int, item: str = "") -> SetupError:
    """The error for a failure record: an `ExecError` when the stage is exec, else a `SetupError`."""
    name = STAGES.get(stage, f"stage {stage}")
    kind = ExecError if name == "exec" else SetupError
    return kind(name, errno, item, _hint(name, errno, item))


def as_setup_error(stage: str, error: OSError, item: str = "") -> SetupError:
    """The error for a call of our own that the kernel refused."""
    code = error.errno or 0
    return SetupError(stage, code, item or str(error.filename or ""), _hint(stage, code, item))
