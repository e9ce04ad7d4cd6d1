"""Protected and hidden paths as init guards them (csrc/launcher/guard.c): what a guest may try, and how each try ends."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from launched import Failed
from layers import ASIDE, READ_ONLY, SAFE, WORKSPACE, Guard, Host, Ran, body, engine, hosts, mounted, plan, running
from running import sh

from sandbox_native._native import lib
from sandbox_native.plan import Op

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns")]

host = hosts("workspace")
HOLD, READ, HIDE = 0, lib.SN_GUARD_RDONLY, lib.SN_GUARD_MASK


@pytest.fixture(scope="module")
def tampers(guest: Mapping[str, Path]) -> bytes:
    """The program of tests/probes/tampers.c: a plain user's host cannot read it where it is made."""
    return guest["tampers"].read_bytes()


@pytest.fixture(params=["direct", "overlay"])
def flags(request: pytest.FixtureRequest, needs: Callable[[str], None]) -> int:
    """Of a request: the workspace itself, or an overlay of it."""
    if request.param == "overlay":
        needs("changes")
    return lib.SN_REQUEST_CHANGES if request.param == "overlay" else 0


def repository(directory: Path) -> Path:
    made = directory / "work"
    (made / ".git" / "hooks").mkdir(parents=True)
    (made / ".git" / "hooks" / "sample").write_text("hook")
    (made / ".git" / "config").write_text("config")
    (made / ".bashrc").write_text("bashrc")
    (made / "other").mkdir()
    (made / "other" / "file").write_text("other")
    (made / "secret").mkdir()
    (made / "secret" / "key").write_text("key")
    (made / ".env").write_text("env")
    return made


GUARDS = (
    Guard(name=".git", flags=HOLD),
    Guard(name=".git/hooks", flags=READ),
    Guard(name=".git/config", flags=READ),
    Guard(name=".bashrc", flags=READ),
    Guard(name="secret", flags=HIDE),
    Guard(name=".env", flags=HIDE),
)


def program(content: bytes, directory: Path) -> Op:
    path = directory / "tampers"
    path.write_bytes(content)
    path.chmod(0o755)
    return Op(lib.SN_OP_BIND, "/tampers", READ_ONLY, source=str(path))


def attack(
    tampers: bytes, directory: Path, words: str, flags: int = 0, guards: Sequence[Guard] = GUARDS, template: Sequence[Op] = ()
) -> dict[str, int]:
    """What each try was answered: `verb path` -> errno. The guest stands in its workspace."""
    bind = program(tampers, directory)
    with ExitStack() as stack:
        used = stack.enter_context(engine(plan([bind, *template])))
        mount = stack.enter_context(mounted(used, directory / "work"))
        script = sh(f"cd {WORKSPACE} && exec /tampers {words}")
        ran = stack.enter_context(running(used, script, flags=flags, workspace=mount, guards=guards))
        assert (ran.exit_code, ran.stderr) == (0, "")
        assert bool(ran.held & lib.SN_HELD_GUARDS) == bool(guards)
        return answers(ran)


def answers(ran: Ran) -> dict[str, int]:
    pairs = (line.rsplit(" errno=", 1) for line in ran.lines)
    return {tried.strip(): int(error) for tried, error in pairs}


def expect(told: Mapping[str, int], error: int, *tried: str) -> None:
    assert {one: told[one] for one in tried} == dict.fromkeys(tried, error)


RENAMES = (
    "rename .git x , rename .git/hooks x , rename .git/hooks .git/x , exchange .git other , exchange other .git , "
    "replace other .git , rename .bashrc x , replace other/file .bashrc , unlink .bashrc , unlink .git/config , "
    "rmdir .git/hooks , rmdir .git , exchange other/file .bashrc , rename .env x , unlink .env , rename secret x , rmdir secret"
)


def test_guarded_paths_cannot_be_moved_away_or_removed(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        told = attack(tampers, directory, RENAMES, flags)
        assert told == dict.fromkeys(told, errno.EBUSY)
        assert (made / ".git" / "hooks" / "sample").read_text() == "hook"

    host(work)


def test_without_guards_the_same_tries_succeed(tampers: bytes, host: Host) -> None:
    def work(directory: Path) -> None:
        repository(directory)
        told = attack(tampers, directory, "rename .git x , mkdir .git , mkdir .git/hooks , create .git/hooks/pre-commit", guards=())
        assert told == dict.fromkeys(told, 0)

    host(work)


def test_another_repository_cannot_be_put_in_the_place_of_a_guarded_one(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        repository(directory)
        told = attack(tampers, directory, "rename .git x , mkdir .git , mkdir .git/hooks , create .git/hooks/pre-commit", flags)
        assert told["rename .git"] == errno.EBUSY
        assert (told["mkdir .git"], told["mkdir .git/hooks"]) == (errno.EEXIST, errno.EEXIST)
        assert told["create .git/hooks/pre-commit"] == errno.EROFS

    host(work)


def test_what_is_read_only_cannot_be_written_in_any_way(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        words = (
            "write .git/config , append .bashrc , truncate .git/config , chmod .git/config , utime .bashrc , through .git/config , "
            "create .git/hooks/new , mkdir .git/hooks/d , unlink .git/hooks/sample , write .git/hooks/sample , "
            "rename .git/hooks/sample .git/hooks/x , symlink x .git/hooks/s , mknod .git/hooks/p , setxattr .git/config , "
            "tmpfile .git/hooks .git/hooks/t , chmod .git/hooks"
        )
        told = attack(tampers, directory, words, flags)
        assert told == dict.fromkeys(told, errno.EROFS)
        told = attack(tampers, directory, "map .git/config , read .git/config , list .git/hooks", flags)
        assert told == {"map .git/config": errno.EACCES, "read .git/config": 0, "list .git/hooks": 0}
        assert (made / ".git" / "config").read_text() == "config"

    host(work)


def test_hard_links_lead_nowhere(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        repository(directory)
        words = (
            "link .git/config other/config , link .git/hooks/sample x , link .bashrc .git/y , link other/file .git/hooks/z , "
            "tmpfile other .git/hooks/t , rename other/file .git/hooks/f , rename .git/hooks/sample other/s"
        )
        told = attack(tampers, directory, words, flags)
        assert set(told.values()) <= {errno.EXDEV, errno.EROFS}, told

    host(work)


def test_what_lies_beside_can_be_used_as_before(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        words = "create .git/index.lock , rename .git/index.lock .git/index , mkdir .git/objects , write other/file , rename other/file x"
        told = attack(tampers, directory, words, flags)
        assert told == dict.fromkeys(told, 0)
        assert (made / ".git" / "index").exists() == (not flags)

    host(work)


def test_hidden_paths_are_empty(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        words = "read .env , write .env , truncate .env , list secret , read secret/key , create secret/x , link .env x , chmod secret"
        told = attack(tampers, directory, words, flags)
        expect(told, errno.EACCES, "read .env", "write .env", "list secret", "read secret/key", "create secret/x")
        assert told["truncate .env"] in (errno.EACCES, errno.EROFS)
        assert told["link .env"] in (errno.EPERM, errno.EXDEV)
        assert told["chmod secret"] in (errno.EPERM, errno.EROFS)
        assert (made / "secret" / "key").read_text() == "key"

    host(work)


def test_a_guest_with_capabilities_in_a_namespace_of_its_own_cannot_undo_them(tampers: bytes, host: Host, flags: int) -> None:
    """As if there were no filter: the mounts are locked there, together and with their flags."""

    def work(directory: Path) -> None:
        repository(directory)
        words = (
            "namespaces , umount .git/hooks , detach .git/hooks , detach .git , umount .env , detach secret , remount .git/hooks , "
            "move .git/hooks other , bind .git other , detach /workspace , write .git/config , create .git/hooks/x , rename .git x"
        )
        told = attack(tampers, directory, words, flags)
        assert told["namespaces"] == 0
        expect(told, errno.EINVAL, "umount .git/hooks", "detach .git/hooks", "detach .git", "umount .env", "detach secret")
        expect(told, errno.EINVAL, "move .git/hooks", "bind .git", "detach /workspace")
        assert told["remount .git/hooks"] == errno.EPERM
        expect(told, errno.EROFS, "write .git/config", "create .git/hooks/x")
        assert told["rename .git"] == errno.EBUSY

    host(work)


def test_links_can_be_guarded_themselves(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        (made / ".zshrc").symlink_to("other/file")
        guards = [Guard(name=".zshrc", flags=READ)]
        words = "unlink .zshrc , rename .zshrc x , replace .bashrc .zshrc , read .zshrc , write other/file"
        told = attack(tampers, directory, words, flags, guards)
        expect(told, errno.EBUSY, "unlink .zshrc", "rename .zshrc", "replace .bashrc")
        expect(told, 0, "read .zshrc", "write other/file")

    host(work)


def test_names_with_odd_characters_are_guarded(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        names = ["a b\\c", "a\nb", "é:,", "\udcff"]
        for name in names:
            (made / name).write_text("x")
        with engine(plan()) as used, mounted(used, made) as mount:
            argv = ["/bin/rm", "-f", *(f"{WORKSPACE}/{name}" for name in names)]
            guards = [Guard(name=name) for name in names]
            with running(used, argv, flags=flags, workspace=mount, guards=guards) as ran:
                assert ran.stderr.count("Device or resource busy") == len(names), ran.stderr

    host(work)


def test_a_private_workspace_is_guarded_after_its_files_are_placed(host: Host) -> None:
    def work(directory: Path) -> None:
        with engine(plan()) as used:
            script = sh("cd /workspace; cat given/file; echo x > given/file; mv given x; echo more > beside")
            guards = [Guard(name="given", flags=HOLD), Guard(name="given/file", flags=READ)]
            with running(used, script, files={"given/file": b"content\n"}, guards=guards) as ran:
                assert ran.lines == ["content"]
                assert "Read-only file system" in ran.stderr and "Device or resource busy" in ran.stderr

    host(work)


class TestRefused:
    @staticmethod
    def failure(directory: Path, flags: int, *guards: Guard, data: bytes | None = None) -> tuple[int, int, str]:
        with engine(plan()) as used, mounted(used, directory / "work") as mount:
            with pytest.raises(Failed) as caught:
                with running(used, ["/bin/true"], flags=flags, workspace=mount, guards=guards, data=data):
                    pass
        return caught.value.stage, caught.value.errno, caught.value.item

    def test_another_file_than_the_one_that_was_looked_at(self, host: Host, flags: int) -> None:
        def work(directory: Path) -> None:
            made = repository(directory)
            status = (made / ".git" / "config").stat()
            right = Guard(name=".git/config", device=status.st_dev, inode=status.st_ino)
            wrong = Guard(name=".git/config", device=status.st_dev, inode=status.st_ino + 1)
            with engine(plan()) as used, mounted(used, made) as mount:
                guards = [Guard(name=".git", flags=HOLD), right]
                with running(used, ["/bin/true"], flags=flags, workspace=mount, guards=guards) as ran:
                    assert ran.exit_code == 0
            assert self.failure(directory, flags, wrong) == (lib.SN_STAGE_GUARD, errno.ESTALE, ".git/config")
            hidden = Guard(name=".git/config", flags=HIDE, device=1, inode=1)
            assert self.failure(directory, flags, hidden) == (lib.SN_STAGE_GUARD, errno.ESTALE, ".git/config")

        host(work)

    @pytest.mark.parametrize(
        ("name", "error"),
        [("absent", errno.ENOENT), ("../work", errno.EXDEV), ("/etc", errno.EXDEV), ("link/hooks", errno.ELOOP), (".bashrc/x", errno.ENOTDIR)],
    )
    def test_a_name_that_leads_elsewhere(self, host: Host, flags: int, name: str, error: int) -> None:
        def work(directory: Path) -> None:
            (repository(directory) / "link").symlink_to(".git")
            for kind in (HOLD, READ, HIDE):
                assert self.failure(directory, flags, Guard(name=name, flags=kind)) == (lib.SN_STAGE_GUARD, error, name)

        host(work)

    @pytest.mark.parametrize("cut", [1, 9, 20, 40])
    def test_records_that_are_cut_short(self, host: Host, cut: int) -> None:
        def work(directory: Path) -> None:
            repository(directory)
            guards = (Guard(name=".git"), Guard(name=".git/config"))
            whole = body(["/bin/true"], guards, {})
            told = self.failure(directory, 0, *guards, data=whole[:-cut])
            assert told == (lib.SN_STAGE_REQUEST, errno.EPROTO, "guard records")

        host(work)


def kept_aside(source: Path) -> Op:
    flags = SAFE | lib.SN_OP_IDMAP
    return Op(lib.SN_OP_BIND, f"{ASIDE}/0", flags, source=str(source))


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
        with engine(plan([kept_aside(made)], box)) as used, pytest.raises(Failed) as caught:
            with running(used, ["/bin/true"]):
                pass
        assert (caught.value.stage, caught.value.errno) == (lib.SN_STAGE_GUARD, errno.ELOOP)
        assert caught.value.item == "/tmp/root/link/hooks"

    host(work)
