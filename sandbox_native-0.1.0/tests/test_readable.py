"""How readable directories of the host are shown: bound, through overlays, piece by piece."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import boxes
import pytest
from boxes import Guests
from hosttrees import CONNECT, listening
from running import PYTHON, sh

from sandbox_native import Policy, PolicyError, Sandbox, hosttree, readable
from sandbox_native.hostmounts import Mount, Mounts
from sandbox_native.readable import Readable
from sandbox_native.roots import Found
from sandbox_native.shown import HostTree

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "overlay")]
Hosted = Callable[[Callable[[], None], Callable[[], None]], None]


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    with boxes.public(guest) as found:
        yield found


@pytest.fixture
def top() -> Iterator[Path]:
    """A directory that every user can come to."""
    path = Path(f"/tmp/readable-{os.getpid()}")
    path.mkdir()
    path.chmod(0o755)
    yield path
    subprocess.run(["rm", "-rf", str(path)], check=True)


@pytest.fixture(params=["root", "plain"])
def hosted(request: pytest.FixtureRequest, public: Guests, needs: Callable[[str], None]) -> Hosted:
    """`hosted(prepare, work)`: `prepare` as root with mounts of its own, then `work` as root or as somebody else."""
    needs("root")

    def run(prepare: Callable[[], None], work: Callable[[], None]) -> None:
        def host() -> None:
            boxes.own_mounts()
            prepare()
            os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
            if request.param == "plain":
                boxes.become_plain()
            work()

        boxes.in_a_host(host)

    return run


def seen(policy: Policy) -> HostTree:
    return hosttree.read_tree(policy)


def run(policy: Policy, script: str) -> str:
    with Sandbox(policy) as sandbox:
        result = sandbox.run(sh(script))
    return result.text


def kinds(tree: HostTree, beneath: str) -> dict[str, str]:
    return {one.inside: one.kind for one in tree.shown if one.inside.startswith(beneath)}


# ---- mounts beneath what is shown ----


def submounts(top: Path) -> None:
    """r: a file, a link, a fifo; r/a/mounted a tmpfs with r/a/mounted/again on it; r/sys and r/a/proc of the kernel's."""
    for name in ("r/a/mounted", "r/a/beside", "r/sys", "r/a/proc", "r/b"):
        (top / name).mkdir(parents=True)
    (top / "r/file").write_text("file\n")
    (top / "r/a/beside/file").write_text("beside\n")
    (top / "r/b/file").write_text("b\n")
    (top / "r/link").symlink_to("a/beside")
    os.mkfifo(top / "r/fifo")
    (top / "r/a/mounted/under").write_text("under\n")
    mount("-t", "tmpfs", "-o", "mode=755", "none", top / "r/a/mounted")
    (top / "r/a/mounted/file").write_text("mounted\n")
    (top / "r/a/mounted/again").mkdir()
    mount("-t", "tmpfs", "-o", "mode=755", "none", top / "r/a/mounted/again")
    (top / "r/a/mounted/again/file").write_text("again\n")
    (top / "r/sys/under").write_text("under\n")
    mount("-t", "sysfs", "none", top / "r/sys")
    mount("-t", "proc", "none", top / "r/a/proc")


CAT = "cd /mnt/r; cat file link/file b/file a/mounted/file a/mounted/again/file; ls sys a/proc; cat sys/under a/mounted/under"
ALL = "file\nbeside\nb\nmounted\nagain\n"


@pytest.mark.parametrize("sockets", ["scan", "hide", "show"])
def test_mounts_beneath_are_shown_and_the_kernels_are_not(hosted: Hosted, top: Path, sockets: Any) -> None:
    def work() -> None:
        policy = Policy.strict(readable=[(top / "r", "/mnt/r")], host_sockets=sockets)
        shown = run(policy, CAT).replace("a/proc:", "").replace("sys:", "").split()
        assert shown == ALL.split(), shown
        assert {str(top / "r/sys"), str(top / "r/a/proc")} <= set(seen(policy).left_out)

    hosted(lambda: submounts(top), work)


def test_no_socket_is_reached_whichever_mount_it_lies_on(hosted: Hosted, top: Path) -> None:
    names = ("s", "a/s", "a/beside/s", "a/mounted/s", "a/mounted/again/s", "b/s")
    stack = ExitStack()

    def prepare() -> None:
        submounts(top)
        for name in names:
            stack.enter_context(listening(top / "r" / name))

    def work() -> None:
        for sockets, answer in (("scan", "Connection refused"), ("show", "CONNECTED")):
            policy = Policy.strict(readable=[(top / "r", "/mnt/r")], host_sockets=sockets)  # type: ignore[arg-type]
            with Sandbox(policy) as sandbox:
                result = sandbox.run([PYTHON, "-c", CONNECT, *(f"/mnt/r/{name}" for name in names)])
            assert result.text.count(answer) == len(names) or sockets == "scan", result.text
            assert ("CONNECTED" in result.text) == (sockets == "show"), result.text
            assert run(policy, CAT).split()[:5] == ALL.split()

    hosted(prepare, work)


@pytest.mark.needs("root")
def test_a_plain_user_gets_a_directory_with_mounts_piece_by_piece(top: Path, public: Guests) -> None:
    def work() -> None:
        boxes.own_mounts()
        submounts(top)
        policy = Policy.strict(readable=[(top / "r", "/mnt/r")], host_sockets="hide")
        whole = kinds(seen(policy), "/mnt/r")
        assert (whole["/mnt/r"], whole["/mnt/r/a/mounted"], whole["/mnt/r/sys"]) == ("overlay", "overlay", "mask")
        boxes.become_plain()
        pieces = kinds(seen(policy), "/mnt/r")
        assert pieces == {
            "/mnt/r": "dir",
            "/mnt/r/a": "dir",
            "/mnt/r/a/beside": "overlay",
            "/mnt/r/a/mounted": "dir",
            "/mnt/r/a/mounted/again": "overlay",
            "/mnt/r/a/mounted/file": "bind",
            "/mnt/r/a/proc": "dir",
            "/mnt/r/b": "overlay",
            "/mnt/r/file": "bind",
            "/mnt/r/link": "link",
            "/mnt/r/sys": "dir",
        }

    boxes.in_a_host(work)


def test_pieces_lie_in_another_root_too(hosted: Hosted, top: Path) -> None:
    def prepare() -> None:
        submounts(top)
        (top / "x/sub").mkdir(parents=True)
        (top / "x/file").write_text("x\n")

    def work() -> None:
        policy = Policy.strict(readable=[(top / "x", "/mnt/x"), (top / "r", "/mnt/x/sub")], host_sockets="hide")
        script = f"cat /mnt/x/file; {CAT.replace('/mnt/r', '/mnt/x/sub')}"
        assert run(policy, script).replace("a/proc:", "").replace("sys:", "").split() == ["x", *ALL.split()]

    hosted(prepare, work)


@pytest.mark.needs("root")
def test_too_many_mounts_are_refused(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        boxes.own_mounts()
        submounts(top)
        boxes.become_plain()
        monkeypatch.setattr(readable, "_MOST", 5)
        with pytest.raises(PolicyError, match="more than 5 mounts") as caught:
            seen(Policy.strict(readable=[(top / "r", "/mnt/r")], host_sockets="hide"))
        assert caught.value.field == "Policy.readable[0]"

    boxes.in_a_host(work)


def test_a_root_without_sockets_is_bound(top: Path) -> None:
    (top / "r/a").mkdir(parents=True)
    (top / "f").touch()
    for sockets, kind in (("scan", "bind"), ("show", "bind"), ("hide", "overlay")):
        readable = [(top / "r", "/mnt/r"), (top / "f", "/mnt/f")]
        policy = Policy.strict(readable=readable, host_sockets=sockets)  # type: ignore[arg-type]
        assert kinds(seen(policy), "/mnt") == {"/mnt/r": kind, "/mnt/f": "bind"}


def test_where_no_socket_can_be_a_bind_does(top: Path) -> None:
    """Some of these file systems cannot be below an overlay either."""
    status = top.stat()
    for kind, shown in (("vfat", "bind"), ("squashfs", "bind"), ("sysfs", "bind"), ("ext4", "overlay")):
        mount = Mount(1, "7:0", "/", str(top), kind)
        found = Found(str(top), status.st_dev, status.st_ino, True, mount)
        one = Readable(mounts=Mounts.read(), locked=False)
        one.show(found, "/mnt/r", "Policy.readable[0]", overlay=True)
        assert [each.kind for each in one.shown] == [shown]


@pytest.mark.needs("root")
def test_opt_is_searched_for_sockets_too(public: Guests) -> None:
    def work() -> None:
        boxes.own_mounts()
        mount("-t", "tmpfs", "-o", "mode=755", "none", "/opt")
        Path("/opt/file").write_text("file\n")
        assert "/opt" not in kinds(seen(Policy.strict()), "/")
        with listening(Path("/opt/s")), Sandbox() as sandbox:
            result = sandbox.run([PYTHON, "-c", CONNECT + "print(open('/opt/file').read())", "/opt/s"])
        assert "CONNECTED" not in result.text
        assert result.text.endswith("file\n\n")

    boxes.in_a_host(work)


def test_what_the_caller_may_not_enter_is_no_obstacle(hosted: Hosted, top: Path) -> None:
    def prepare() -> None:
        (top / "r/shut").mkdir(parents=True)
        (top / "r/shut").chmod(0o700)
        (top / "r/listed").mkdir(mode=0o744)
        (top / "r/file").write_text("file\n")

    def work() -> None:
        assert run(Policy.strict(readable=[(top / "r", "/mnt/r")], host_sockets="hide"), "cat /mnt/r/file") == "file\n"
        shut = Policy.strict(readable=[(top / "r/shut", "/mnt/r")], host_sockets="hide")
        assert run(shut, "ls /mnt/r; echo there") == "there\n"

    hosted(prepare, work)
