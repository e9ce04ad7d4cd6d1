"""Which file argv[0] is: sought where the guest cannot write, compared with what the box opens, refused with a clear word."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from pathlib import Path

import pytest
from elves import NATIVE, elf, foreign, script

from sandbox_native import ExecError, ExecutableResolver, Policy, PolicyError
from sandbox_native.executables import _LINES, Executable, _matches

SH = os.path.realpath("/bin/sh")
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)  # struct vfs_cap_data: revision 2, effective, CAP_NET_RAW


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    tmp_path.chmod(0o755)
    return tools


def resolver(tools: Path, **fields: object) -> ExecutableResolver:
    return ExecutableResolver(Policy.strict(readable=[(tools, "/mnt/tools")], path=["/mnt/tools"], **fields))  # type: ignore[arg-type]


def refused(found: ExecutableResolver, program: str, **how: str) -> ExecError:
    with pytest.raises(ExecError) as caught:
        found.resolve(program, **how)
    return caught.value


# ---- where a name is sought ----


def test_a_name_is_found_in_the_boxs_path() -> None:
    found = ExecutableResolver().resolve("sh")
    status = os.stat(SH)
    assert found.path == "/usr/bin/sh" and (found.host, found.real) == (SH, SH)
    assert (found.device, found.inode) == (status.st_dev, status.st_ino)
    assert found.interpreters and found.unchanged()


def test_the_policys_directories_come_first(tools: Path) -> None:
    script(tools / "sh")
    found = resolver(tools).resolve("sh")
    assert (found.path, found.host) == ("/mnt/tools/sh", str(tools / "sh"))
    assert found.interpreters[0] == "/bin/sh" and "ld-" in found.interpreters[1]


def test_the_hosts_path_plays_no_part(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tools / "only-here")
    monkeypatch.setenv("PATH", str(tools))
    assert "is not in the box's PATH" in refused(ExecutableResolver(), "only-here").hint


def test_a_name_never_leads_into_a_writable_root(tools: Path, tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    script(tmp_path / "w" / "mine")
    (tools / "mine").symlink_to("/mnt/w/mine")
    found = resolver(tools, writable=[(tmp_path / "w", "/mnt/w")])
    error = refused(found, "mine")
    assert error.errno == errno.ENOENT and "/mnt/w/mine, where the guest can write: name it by its path" in error.hint
    assert found.resolve("/mnt/w/mine").host == found.resolve("/mnt/tools/mine").host == str(tmp_path / "w" / "mine")
    script(tools / "sh").unlink()
    (tools / "sh").symlink_to("/mnt/w/mine")
    assert found.resolve("sh").path == "/usr/bin/sh"  # the next one that may be taken


def test_what_may_not_be_executed_gives_way_to_the_next_directory(tools: Path) -> None:
    script(tools / "sh", mode=0o644)
    script(tools / "only", mode=0o644)
    assert resolver(tools).resolve("sh").path == "/usr/bin/sh"
    assert resolver(tools).resolve("only").path == "/mnt/tools/only"  # the kernel says EACCES, as to a shell


def test_a_path_is_itself(tools: Path) -> None:
    script(tools / "run")
    found = resolver(tools)
    assert found.resolve("./run", cwd="/mnt/tools").host == found.resolve(Path("/mnt/tools/run")).host == str(tools / "run")
    assert found.resolve("./run", cwd="/mnt/tools").path == "./run"
    assert found.resolve("/mnt/tools/../tools/run").real == "/mnt/tools/run"
    assert "no such program" in refused(found, "./run", cwd="/mnt").hint


def test_what_only_the_box_has_is_left_to_it() -> None:
    found = ExecutableResolver()
    for program in ("./placed", "/tmp/x", "/etc/x", "/proc/self/exe"):
        there = found.resolve(program)
        assert (there.host, there.device, there.inode, there.unchanged()) == ("", 0, 0, True)


def test_a_workspace_is_looked_into(tmp_path: Path) -> None:
    script(tmp_path / "run")
    found = ExecutableResolver().resolve("./run", workspace=tmp_path)
    assert found.host == str(tmp_path / "run") and found.by_run
    assert "no such program" in refused(ExecutableResolver(), "./none", workspace=str(tmp_path)).hint


@pytest.mark.parametrize("program", ["", "a\0b", b"sh", None])
def test_what_is_no_name_is_refused(program: str) -> None:
    with pytest.raises((PolicyError, TypeError)):
        ExecutableResolver().resolve(program)


# ---- what is refused ----


@pytest.mark.parametrize(
    ("mode", "said"), [(0o4755, "set-user-id"), (0o2755, "set-group-id"), (0o6755, "set-user-id and set-group-id")]
)
def test_set_id_programs_are_refused(tools: Path, mode: int, said: str) -> None:
    shutil.copy("/bin/true", tools / "su")
    (tools / "su").chmod(mode)
    error = refused(resolver(tools), "su")
    assert (error.errno, error.item) == (errno.EPERM, "/mnt/tools/su") and said in error.hint
    (tools / "su").chmod(0o755)
    assert resolver(tools).resolve("su").host == str(tools / "su")


@pytest.mark.needs("root")
def test_programs_with_file_capabilities_are_refused(tools: Path) -> None:
    shutil.copy("/bin/true", tools / "ping")
    os.setxattr(tools / "ping", "security.capability", CAPABILITY)
    error = refused(resolver(tools), "ping")
    assert error.errno == errno.EPERM and "file capabilities" in error.hint


def test_the_same_is_asked_of_an_interpreter(tools: Path) -> None:
    shutil.copy("/bin/sh", tools / "shell")
    script(tools / "run", "#!/mnt/tools/shell")
    found = resolver(tools)
    assert found.resolve("run").interpreters[0] == "/mnt/tools/shell"
    (tools / "shell").chmod(0o4755)
    error = refused(found, "run")
    assert error.item == "/mnt/tools/shell" and "set-user-id" in error.hint


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("#!/bin/sh\r", "carriage return"),
        ("#!/no/such -x", "its interpreter '/no/such' is not in the box"),
    ],
)
def test_a_missing_interpreter_is_named(tools: Path, line: str, said: str) -> None:
    script(tools / "run", line)
    error = refused(resolver(tools), "run")
    assert (error.errno, error.item) == (errno.ENOENT, "/mnt/tools/run") and said in error.hint


def test_an_interpreter_of_the_host_that_is_not_shown_is_told_so(tools: Path) -> None:
    script(tools / "run", "#!/usr/bin/env python3")
    hint = refused(resolver(tools, hidden=["/usr/bin/env"]), "run").hint
    assert "its interpreter '/usr/bin/env' is not in the box: it is on the host" in hint and "Policy.readable" in hint


def test_interpreter_lines_lead_as_far_as_the_kernels(tools: Path) -> None:
    before = "/bin/sh"
    for number in range(_LINES + 1):
        script(tools / f"s{number}", f"#!{before}")
        before = f"/mnt/tools/s{number}"
    found = resolver(tools)
    assert len(found.resolve(f"s{_LINES - 1}").interpreters) == _LINES + 1  # and the loader
    for _ in range(2):
        assert refused(found, f"s{_LINES}").errno == errno.ELOOP
    script(tools / "round", "#!/mnt/tools/round")
    assert refused(found, "round").errno == errno.ELOOP


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (foreign(), errno.ENOEXEC, "it is an ELF program for 64-bit IBM S/390, big-endian, and this machine is"),
        (elf(NATIVE, kind=1), errno.ENOEXEC, "it is an object file that was not linked, and no program"),
        (elf(NATIVE, loader=b"/lib/ld-nobody.so.1"), errno.ENOENT, "its interpreter '/lib/ld-nobody.so.1' is not in the box"),
    ],
)
def test_an_elf_file_that_cannot_start_is_told_why(tools: Path, data: bytes, error: int, said: str) -> None:
    (tools / "prog").write_bytes(data)
    (tools / "prog").chmod(0o755)
    caught = refused(resolver(tools), "prog")
    assert caught.errno == error and said in str(caught) and "Exec format error" not in str(caught)


def test_a_directory_is_no_program(tools: Path) -> None:
    assert refused(resolver(tools), "/mnt/tools").errno == errno.EACCES


@pytest.mark.parametrize(
    ("handler", "matches"),
    [
        ("enabled\ninterpreter /usr/bin/qemu\nflags: OCF\noffset 0\nmagic 7f454c46\n", True),
        ("enabled\ninterpreter /usr/bin/qemu\nflags: F\noffset 1\nmagic 004c46\nmask 00ffff\n", True),
        ("enabled\ninterpreter /usr/bin/qemu\nflags: OC\noffset 0\nmagic 7f454c46\n", False),  # not opened beforehand
        ("disabled\ninterpreter /usr/bin/qemu\nflags: F\noffset 0\nmagic 7f454c46\n", False),
        ("enabled\ninterpreter /usr/bin/qemu\nflags: F\noffset 0\nmagic 7f454c47\n", False),
        ("enabled\ninterpreter /usr/bin/qemu\nflags: F\nextension .exe\n", False),
        ("enabled\n", False),
        ("", False),
    ],
)
def test_an_emulator_that_the_kernel_knows_makes_foreign_programs_run(handler: str, matches: bool) -> None:
    assert _matches(handler, b"\x7fELF\x02") is matches


# ---- what is kept ----


def test_every_change_of_the_program_is_seen(tools: Path) -> None:
    script(tools / "run")
    (tools / "link").symlink_to("run")
    found = resolver(tools)

    def still(change: object) -> bool:
        before: Executable = found.resolve("/mnt/tools/run")
        assert before.unchanged()
        change()  # type: ignore[operator]
        return before.unchanged()

    assert not still(lambda: (tools / "run").chmod(0o4755))
    (tools / "run").chmod(0o755)
    assert not still(lambda: script(tools / "run", "#!/bin/bash"))
    assert not still(lambda: script(tools / "new").rename(tools / "run"))
    assert not still(lambda: (tools / "run").unlink())
