"""ReadPolicy.HOST: the whole host is shown, but for the box's own places, secrets, and whoever listens at sockets."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import boxes
import pytest
from hosttrees import CONNECT, listening
from running import PYTHON, sh
from test_readable import Hosted, hosted, mount, public, run, top

from sandbox_native import Policy, ReadPolicy, Sandbox, hosttree

__all__ = ["hosted", "public", "top"]  # fixtures

pytestmark = [pytest.mark.kernel, pytest.mark.needs("userns", "overlay")]
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


def test_a_hidden_directory_at_the_top_is_an_empty_one_of_the_boxs_own() -> None:
    tree = hosttree.read_tree(Policy.strict(read=HOST))
    assert next(one.kind for one in tree.shown if one.inside == "/root") == "dir"


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
