"""How readable directories of the host are shown: bound, through overlays, piece by piece; and the whole host."""

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
from running import PYTHON, sh
from test_sockets import CONNECT, listening

from sandbox_native import Policy, PolicyError, ReadPolicy, Sandbox, hosttree, readable
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


# ---- the whole host ----

HOST = ReadPolicy.HOST


def test_the_whole_host_is_shown_but_for_the_boxs_own_and_secrets(hosted: Hosted, top: Path) -> None:
    def prepare() -> None:
        for name in (".ssh", ".gnupg", ".aws", ".config/gcloud", ".kube", ".docker"):
            (top / "home" / name).mkdir(parents=True)
            (top / "home" / name / "key").write_text("secret\n")
        for name in (".netrc", ".npmrc", ".pypirc"):
            (top / "home" / name).write_text("secret\n")
        (top / "home/.config/plain").write_text("plain\n")
        (top / "fine").write_text("fine\n")
        (top / "mine").mkdir()
        (top / "mine/key").write_text("secret\n")
        (top / "run").mkdir()
        mount("--bind", top, "/srv")
        for path in (top, *top.rglob("*")):
            os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work() -> None:
        os.environ["HOME"] = "/srv/home"
        with Sandbox(Policy.strict(read=HOST, hidden=["/srv/mine"])) as sandbox:

            def cat(words: str) -> str:
                return sandbox.run(sh(f"cd /srv; cat {words}")).text

            assert cat("fine home/.config/plain") == "fine\nplain\n"
            secrets = "home/.ssh/key home/.gnupg/key home/.aws/key home/.config/gcloud/key home/.kube/key home/.docker/key"
            assert cat(f"{secrets} home/.netrc home/.npmrc home/.pypirc mine/key") == ""
            assert cat("/etc/shadow /etc/gshadow /etc/shadow- /etc/gshadow-") == ""
            assert cat("/etc/passwd") == Path("/etc/passwd").read_text()
            assert sandbox.run(sh("ls -A /run /root 2>/dev/null")).text.split() == ["/run:"] or os.geteuid() != 0
            assert sandbox.run(sh("ls /proc | grep -c '^[0-9]'; ls /sys 2>/dev/null")).text.split()[0] in ("1", "2", "3", "4")
            assert sandbox.run(sh("echo x > /var/tmp/x && cat /tmp/x; echo x > ~/y && cat ~/y")).text == "x\nx\n"
            for path in ("/x", "/etc/x", "/srv/x", "/usr/x", "/var/x", "/home/x"):
                assert not sandbox.run(sh(f"echo > {path}")).ok, path

    hosted(prepare, work)


def test_a_secret_is_covered_wherever_a_mount_shows_it(hosted: Hosted, top: Path) -> None:
    def prepare() -> None:
        (top / "home/.ssh").mkdir(parents=True)
        (top / "home/.ssh/key").write_text("secret\n")
        (top / "home/plain").write_text("plain\n")
        mount("--bind", top / "home", "/srv")
        (top / "real").mkdir()
        (top / "real/key").write_text("secret\n")
        (top / "home/.aws").symlink_to("/media/real")
        mount("--bind", top, "/media")
        for path in (top, *top.rglob("*")):
            os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER, follow_symlinks=False)

    def work() -> None:
        os.environ["HOME"] = "/media/home"
        with Sandbox(Policy.strict(read=HOST)) as sandbox:
            found = sandbox.run(sh("cat /media/home/plain /srv/plain /media/home/.ssh/key /srv/.ssh/key /media/home/.aws/key"))
            assert found.text == "plain\nplain\n"
            assert sandbox.run(sh("cat /media/real/key")).text == ""

    hosted(prepare, work)


def test_sockets_of_the_whole_host_are_out_of_reach(hosted: Hosted, top: Path) -> None:
    stack = ExitStack()

    def prepare() -> None:
        mount("-t", "tmpfs", "-o", "mode=755", "none", "/srv")
        Path("/srv/deep").mkdir()
        stack.enter_context(listening(Path("/srv/deep/s")))
        stack.enter_context(listening(Path("/var/s")))

    def work() -> None:
        with Sandbox(Policy.strict(read=HOST)) as sandbox:
            result = sandbox.run([PYTHON, "-c", CONNECT, "/srv/deep/s", "/var/s"])
        assert result.text
        assert "CONNECTED" not in result.text

    try:
        hosted(prepare, work)
    finally:
        Path("/var/s").unlink(missing_ok=True)


def test_roots_lie_on_top_of_the_whole_host(hosted: Hosted, top: Path) -> None:
    def prepare() -> None:
        (top / "w").mkdir()
        (top / "r").mkdir()
        (top / "r/file").write_text("file\n")
        mount("--bind", top, "/srv")
        for path in (top, *top.rglob("*")):
            os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work() -> None:
        if os.geteuid() == 0:
            os.chown(top / "w", 0, 0)
        policy = Policy.strict(read=HOST, writable=[(top / "w", "/srv/w")], readable=[(top / "r", "/brought")])
        assert run(policy, "echo 1 > /srv/w/new; cat /srv/w/new /brought/file") == "1\nfile\n"
        assert (top / "w/new").read_text() == "1\n"

    hosted(prepare, work)


def test_what_the_caller_names_beneath_a_hidden_place_is_shown(hosted: Hosted, top: Path) -> None:
    def prepare() -> None:
        (top / "home/.docker/plugins").mkdir(parents=True)
        (top / "home/.docker/plugins/file").write_text("file\n")
        (top / "home/.docker/key").write_text("secret\n")
        mount("--bind", top, "/srv")
        for path in (top, *top.rglob("*")):
            os.chown(path, boxes.PLAIN_USER, boxes.PLAIN_USER)

    def work() -> None:
        os.environ["HOME"] = "/srv/home"
        policy = Policy.strict(read=HOST, readable=["/srv/home/.docker/plugins", ("/srv/home/.docker/plugins", "/root/plugins")])
        script = "cat /srv/home/.docker/plugins/file /root/plugins/file; cat /srv/home/.docker/key"
        assert run(policy, script) == "file\nfile\n"

    hosted(prepare, work)
