"""Protected and hidden paths as init guards them (csrc/launcher/guard.c): what a guest may try, and how each try ends."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from layers import KEEP, WORKSPACE, Guard, Host, engine, hosts, mounted, plan, running
from running import sh
from tampering import HIDE, HOLD, READ, attack, expect, repository

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


REPLACES = "rename .git x , mkdir .git , mkdir .git/hooks , create .git/hooks/pre-commit"


def test_without_guards_the_same_tries_succeed(tampers: bytes, host: Host) -> None:
    def work(directory: Path) -> None:
        repository(directory)
        told = attack(tampers, directory, REPLACES, guards=())
        assert told == dict.fromkeys(told, 0)

    host(work)


def test_another_repository_cannot_be_put_in_the_place_of_a_guarded_one(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        repository(directory)
        told = attack(tampers, directory, REPLACES, flags)
        assert told["rename .git"] == errno.EBUSY
        assert (told["mkdir .git"], told["mkdir .git/hooks"]) == (errno.EEXIST, errno.EEXIST)
        assert told["create .git/hooks/pre-commit"] == errno.EROFS

    host(work)


def test_what_is_read_only_cannot_be_written_in_any_way(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        words = (
            "write .git/config , append .bashrc , truncate .git/config , chmod .git/config , utime .bashrc , "
            "through .git/config , chmod .git/hooks , tmpfile .git/hooks .git/hooks/t , "
            "create .git/hooks/new , mkdir .git/hooks/d , unlink .git/hooks/sample , write .git/hooks/sample , "
            "rename .git/hooks/sample .git/hooks/x , symlink x .git/hooks/s , mknod .git/hooks/p , setxattr .git/config"
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
            "rename other/file .git/hooks/f , rename .git/hooks/sample other/s , tmpfile other .git/hooks/t"
        )
        told = attack(tampers, directory, words, flags)
        assert told.pop("tmpfile other") in (errno.EROFS, errno.EOPNOTSUPP), "an overlay has unnamed files since 6.3"
        assert set(told.values()) <= {errno.EXDEV, errno.EROFS}, told

    host(work)


def test_what_lies_beside_can_be_used_as_before(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        words = "create .git/lock , rename .git/lock .git/index , mkdir .git/objects , write other/file , rename other/file x"
        told = attack(tampers, directory, words, flags)
        assert told == dict.fromkeys(told, 0)
        assert (made / ".git" / "index").exists() == (not flags)

    host(work)


def test_hidden_paths_are_empty(tampers: bytes, host: Host, flags: int) -> None:
    def work(directory: Path) -> None:
        made = repository(directory)
        words = "read .env , write .env , truncate .env , list secret , read secret/key , create secret/x , link .env x"
        told = attack(tampers, directory, f"{words} , chmod secret", flags)
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
            "namespaces , umount .git/hooks , detach .git/hooks , detach .git , umount .env , detach secret , "
            "remount .git/hooks , move .git/hooks other , bind .git other , detach /workspace , "
            "write .git/config , create .git/hooks/x , rename .git x"
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


def test_the_whole_workspace_can_be_read_only(tampers: bytes, host: Host, flags: int) -> None:
    """And what lies in it can be hidden still."""

    def work(directory: Path) -> None:
        repository(directory)
        guards = [Guard(name=".", flags=READ), Guard(name=".git", flags=READ), Guard(name=".env", flags=HIDE)]
        told = attack(tampers, directory, "create x , write other/file , rename .git x , read .env , read .bashrc", flags, guards)
        expect(told, errno.EROFS, "create x", "write other/file")
        assert (told["rename .git"], told["read .env"], told["read .bashrc"]) == (errno.EROFS, errno.EACCES, 0)

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
