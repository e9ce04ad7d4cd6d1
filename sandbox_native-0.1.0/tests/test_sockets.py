"""Unix sockets of the host: who is behind one, and what a guest gets of them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from hosttrees import CONNECT, listening
from running import PYTHON, sh

from sandbox_native import Policy, PolicyError, Sandbox, Writes, sockets, survey
from sandbox_native.survey import Bound


def alive(path: Path) -> bool:
    fd = os.open(path.parent, os.O_RDONLY)
    try:
        return sockets.is_alive(fd, path.name)
    finally:
        os.close(fd)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET])
def test_somebody_is_behind_a_socket_until_it_is_closed(tmp_path: Path, kind: socket.SocketKind) -> None:
    path = tmp_path / ("s" * 200)  # longer than an address can be
    with listening(tmp_path / "s", kind):
        (tmp_path / "s").rename(path)
        assert alive(path)
    assert not alive(path)
    path.unlink()
    assert not alive(path)


def test_asking_is_not_noticed(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "s"))
        one.listen()
        assert alive(tmp_path / "s")
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.accept()


def test_what_a_policy_has_looked_for() -> None:
    for value, readable, writable in (("scan", True, True), ("hide", False, True), ("show", False, False)):
        policy = Policy.strict(host_sockets=value)  # type: ignore[arg-type]
        assert (sockets.looks(policy, writable=False), sockets.looks(policy, writable=True)) == (readable, writable)
        assert not sockets.looks(Policy.strict(host_sockets=value, writes=Writes.COMMIT), writable=True)  # type: ignore[arg-type]


# ---- in a box ----

pytestmark = [pytest.mark.kernel]


def asked(policy: Policy, *paths: str) -> set[str]:
    with Sandbox(policy) as sandbox:
        result = sandbox.run([PYTHON, "-c", CONNECT, *paths])
    assert result.ok, result.stderr
    return {line.split(" ", 1)[1] for line in result.text.splitlines()}


@pytest.mark.needs("userns", "overlay")
@pytest.mark.parametrize("value", ["scan", "hide"])
@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_no_socket_of_the_host_can_be_reached_in_a_readable_root(tmp_path: Path, value: str, kind: socket.SocketKind) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "deep").mkdir()
    with listening(tmp_path / "deep" / "s", kind):
        policy = Policy.strict(readable=[(tmp_path, "/mnt/r")], host_sockets=value)  # type: ignore[arg-type]
        assert asked(policy, "/mnt/r/deep/s") == {"Connection refused"}


@pytest.mark.needs("userns")
def test_the_callers_word_leaves_them_in_reach(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with listening(tmp_path / "s"):
        assert "CONNECTED" in asked(Policy.strict(readable=[(tmp_path, "/mnt/r")], host_sockets="show"), "/mnt/r/s")


@pytest.mark.needs("userns", "overlay")
def test_no_fifo_of_the_host_can_be_written_in_a_readable_root(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "fifo").chmod(0o666)
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    try:
        with Sandbox(Policy.light(readable=[(tmp_path, "/mnt/r")])) as sandbox:  # without Landlock, which refuses it too
            script = "import os; os.write(os.open('/mnt/r/fifo', os.O_WRONLY | os.O_NONBLOCK), b'guest')"
            assert b"No such device or address" in sandbox.run([PYTHON, "-c", script]).stderr
        assert os.read(reader, 9) == b""
    finally:
        os.close(reader)


@pytest.mark.needs("userns", "overlay")
def test_what_was_only_looked_at_is_not_held(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for value, held in (("scan", False), ("hide", True), ("show", None)):
        with Sandbox(Policy.strict(readable=[(tmp_path, "/mnt/r")], host_sockets=value)) as sandbox:  # type: ignore[arg-type]
            layer = next(one for one in sandbox.run(sh("true")).enforcement.layers if one.name == "host_sockets")
        assert layer.held is held
        assert ("when the Sandbox was made" in layer.detail) == (held is False)


@pytest.mark.needs("userns")
def test_a_root_that_is_written_directly_is_refused_with_a_socket_in_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    with listening(tmp_path / "deep" / "agent"), pytest.raises(PolicyError, match="deep/agent") as caught:
        Sandbox(Policy.strict(writable=[tmp_path]))
    assert caught.value.field == "Policy.writable[0]"
    assert "Writes.COMMIT" in caught.value.remedy
    assert 'host_sockets="show"' in caught.value.remedy


@pytest.mark.needs("userns", "idmap")
def test_a_socket_that_an_earlier_guest_left_is_no_obstacle(tmp_path: Path) -> None:
    with listening(tmp_path / "s"):
        pass
    with Sandbox(Policy.strict(writable=[tmp_path])) as sandbox:
        assert sandbox.run(sh("true")).ok


@pytest.mark.needs("userns", "idmap")
def test_what_is_too_large_to_be_searched_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        (tmp_path / f"{number}").mkdir()
    monkeypatch.setattr(sockets, "WRITABLE", Bound(names=10, seconds=10))
    with pytest.raises(PolicyError, match="more in it than can be searched"):
        Sandbox(Policy.strict(writable=[tmp_path]))
    Sandbox(Policy.strict(writable=[tmp_path], host_sockets="show")).close()


@pytest.mark.needs("userns", "overlay")
def test_a_readable_root_that_is_too_large_is_taken_for_one_that_has_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    for number in range(20):
        (tmp_path / f"{number}").mkdir()
    with listening(tmp_path / "19" / "s"):
        monkeypatch.setattr(sockets, "READABLE", Bound(names=10, seconds=10))
        assert asked(Policy.strict(readable=[(tmp_path, "/mnt/r")]), "/mnt/r/19/s") == {"Connection refused"}


@pytest.mark.needs("userns", "overlay")
@pytest.mark.parametrize("where", ["/tmp", "/workspace", "/home/guest"])
def test_the_guests_own_sockets_work_on_beside(tmp_path: Path, where: str) -> None:
    tmp_path.chmod(0o755)
    script = f"""
import socket
with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
    server.bind("{where}/s"); server.listen(); client.connect("{where}/s"); print("fine")
"""
    with listening(tmp_path / "s"), Sandbox(Policy.strict(readable=[(tmp_path, "/mnt/r")])) as sandbox:
        assert sandbox.run([PYTHON, "-c", script]).text == "fine\n"


def test_a_look_without_sockets_says_nothing(tmp_path: Path, needs: Callable[[str], None]) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        seen = survey.walk(fd, sockets.WRITABLE, deep=True)
        sockets.refuse_living(fd, seen, "workspace", str(tmp_path))
    finally:
        os.close(fd)
