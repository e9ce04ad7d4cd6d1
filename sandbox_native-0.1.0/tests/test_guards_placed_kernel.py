"""How init places guards (csrc/launcher/guard.c): those of a plan, on older kernels, and what it refuses to guard."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from layers import ASIDE, IDMAP, KEEP, SAFE, Guard, Host, as_host, body, engine, hosts, mounted, plan, refused, running
from running import sh
from tampering import GUARDS, HIDE, HOLD, READ, answers, attack, expect, program, repository

from sandbox_native._native import lib
from sandbox_native.features import launcher_path
from sandbox_native.plan import Op

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

host = hosts("workspace")


@pytest.fixture(scope="module")
def tampers(guest: Mapping[str, Path]) -> bytes:
    """The program of tests/probes/tampers.c: a plain user's host cannot read it where it is made."""
    return guest["tampers"].read_bytes()


@pytest.fixture(params=["direct", "overlay"])
def flags(request: pytest.FixtureRequest, needs: Callable[[str], None]) -> int:
    """Of a request: the workspace itself, or an overlay of it."""
    if request.param == "overlay":
        needs("changes")
    return KEEP if request.param == "overlay" else 0


def unguarded(directory: Path, flags: int, *guards: Guard, data: bytes | None = None) -> tuple[int, int, str]:
    """Stage, errno and item of a run that cannot be guarded."""
    with engine(plan()) as used, mounted(used, directory / "work") as mount:
        return refused(used, flags=flags, workspace=mount, guards=guards, data=data)


def test_another_file_than_the_one_that_was_looked_at(host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        status = (made / ".git" / "config").stat()
        right = Guard(name=".git/config", device=status.st_dev, inode=status.st_ino)
        wrong = Guard(name=".git/config", device=status.st_dev, inode=status.st_ino + 1)
        with engine(plan()) as used, mounted(used, made) as mount:
            guards = [Guard(name=".git", flags=HOLD), right]
            with running(used, ["/bin/true"], flags=flags, workspace=mount, guards=guards) as ran:
                assert ran.exit_code == 0
        assert unguarded(directory, flags, wrong) == (lib.SN_STAGE_GUARD, errno.ESTALE, ".git/config")
        hidden = Guard(name=".git/config", flags=HIDE, device=1, inode=1)
        assert unguarded(directory, flags, hidden) == (lib.SN_STAGE_GUARD, errno.ESTALE, ".git/config")

    host(work)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("absent", errno.ENOENT),
        ("../work", errno.EXDEV),
        ("/etc", errno.EXDEV),
        ("link/hooks", errno.ELOOP),
        (".bashrc/x", errno.ENOTDIR),
    ],
)
def test_a_name_that_leads_elsewhere(host: Host, flags: int, name: str, error: int) -> None:
    def work(directory: Path) -> None:
        (repository(directory) / "link").symlink_to(".git")
        for kind in (HOLD, READ, HIDE):
            assert unguarded(directory, flags, Guard(name=name, flags=kind)) == (lib.SN_STAGE_GUARD, error, name)

    host(work)


@pytest.mark.parametrize("cut", [1, 9, 20, 40])
def test_records_that_are_cut_short(host: Host, cut: int) -> None:
    def work(directory: Path) -> None:
        repository(directory)
        guards = (Guard(name=".git"), Guard(name=".git/config"))
        whole = body(["/bin/true"], guards, {})
        told = unguarded(directory, 0, *guards, data=whole[:-cut])
        assert told == (lib.SN_STAGE_REQUEST, errno.EPROTO, "guard records")

    host(work)


def kept_aside(source: Path) -> Op:
    return Op(lib.SN_OP_BIND, f"{ASIDE}/0", SAFE | IDMAP, source=str(source))


def test_guards_of_the_plan_hold_in_every_box(tampers: bytes, host: Host) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        template = [kept_aside(made), program(tampers, directory)]
        box = [
            Op(lib.SN_OP_BIND, "/tmp/root", source=f"{ASIDE}/0"),
            Op(lib.SN_OP_GUARD, "/tmp/root/.git"),
            Op(lib.SN_OP_GUARD, "/tmp/root/.git/hooks", lib.SN_OP_RDONLY),
            Op(lib.SN_OP_GUARD, "/tmp/root/.bashrc", lib.SN_OP_RDONLY),
            Op(lib.SN_OP_GUARD, "/tmp/root/absent", lib.SN_OP_RDONLY),
        ]
        words = "rename .git x , create .git/hooks/x , unlink .bashrc , write .bashrc , create absent , write .git/config"
        with engine(plan(template, box)) as used:
            with running(used, sh(f"cd /tmp/root && exec /tampers {words}")) as ran:
                told = answers(ran)
                expect(told, errno.EBUSY, "rename .git", "unlink .bashrc")
                expect(told, errno.EROFS, "create .git/hooks/x", "write .bashrc")
                expect(told, 0, "create absent", "write .git/config")
        assert (made / ".bashrc").read_text() == "bashrc"

    host(work)


def test_a_guard_of_the_plan_does_not_follow_a_link(host: Host) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        (made / "link").symlink_to(".git")
        box = [Op(lib.SN_OP_BIND, "/tmp/root", source=f"{ASIDE}/0"), Op(lib.SN_OP_GUARD, "/tmp/root/link/hooks")]
        with engine(plan([kept_aside(made)], box)) as used:
            assert refused(used) == (lib.SN_STAGE_GUARD, errno.ELOOP, "/tmp/root/link/hooks")

    host(work)


@pytest.mark.needs("cc")
def test_guards_hold_on_a_kernel_without_mount_setattr(tampers: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a plain user: root could not map owners there."""

    def work(directory: Path) -> None:
        older = directory / "older"
        macros = ["-DNUMBER=442", f"-DERROR={errno.ENOSYS}", f'-DLAUNCHER="{launcher_path()}"']
        subprocess.run(["cc", "-O1", *macros, "-xc", "-", "-o", str(older)], input=source, check=True)
        monkeypatch.setenv("SANDBOX_NATIVE_LAUNCHER", str(older))
        made = repository(directory)
        (made / "a b\\c").write_text("x")
        (made / "link").symlink_to("other/file")
        words = "unlink link , write a\\ b\\\\c , write .git/config , create .git/hooks/x , rename .git x , "
        words += "read .env , write other/file"
        told = attack(tampers, directory, words, guards=[*GUARDS, Guard(name="a b\\c"), Guard(name="link")])
        expect(told, errno.EROFS, "write a b\\c", "write .git/config", "create .git/hooks/x")
        expect(told, errno.EBUSY, "rename .git", "unlink link")
        assert (told["read .env"], told["write other/file"]) == (errno.EACCES, 0)

    source = (Path(__file__).parent / "probes" / "without.c").read_bytes()
    as_host(True, work)


def test_a_box_that_cannot_be_made_says_why_every_time(host: Host) -> None:
    """Also where init has ended before it read the request that was on its way."""

    def work(directory: Path) -> None:
        box = [Op(lib.SN_OP_GUARD, "/usr/bin/env/x")]
        with engine(plan((), box)) as used:
            assert {refused(used) for _ in range(60)} == {(lib.SN_STAGE_GUARD, errno.ENOTDIR, "/usr/bin/env/x")}

    host(work)
