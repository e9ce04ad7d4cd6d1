"""What was denied, in the Result of a real run (sandbox_native/denials.py, sandbox_native/backends/denials.py)."""

from __future__ import annotations

import errno
import os
import pickle
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from boxes import Guests, in_a_host
from running import sh

from sandbox_native import Deletion, Denial, Limits, Policy, ReadPolicy, Result, Sandbox, SetupError, Status
from sandbox_native.backends.denials import _merged

LIMITS = Limits(wall_seconds=20)
pytestmark = pytest.mark.kernel


def explained(script: str, *, workspace: Path | None = None, policy: Policy | None = None, **fields: Any) -> Result:
    with Sandbox(policy or Policy.strict(explain=True, **fields), LIMITS) as sandbox:
        return sandbox.run(sh(script), workspace=workspace)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """Open to the guest, who is another user."""
    tmp_path.chmod(0o755)
    return tmp_path


def reasons(result: Result) -> dict[str, tuple[str, str | None]]:
    return {one.name: (one.reason, one.allow) for one in result.denials}


def test_a_file_of_the_host_that_is_not_shown(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x")
    result = explained(f"cat {secret}; cat /etc/shadow; cat /etc/nothing")
    assert set(reasons(result)) == {str(secret), "/etc/shadow"}
    assert reasons(result)[str(secret)] == (
        f"{secret} exists on the host, not in the view (/tmp is the box's own)",
        f'readable=["{secret}"]',
    )


def test_what_the_field_says_permits_it(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("found\n")
    field, value = "readable", [str(secret)]
    assert reasons(explained(f"cat {secret}"))[str(secret)][1] == f'{field}=["{secret}"]'
    result = explained(f"cat {secret}", **{field: value})
    assert (result.text, result.denials) == ("found\n", ())


def test_what_the_guest_may_not_read(tmp_path: Path) -> None:
    (tmp_path / "closed").touch(mode=0)  # a plain user's guest is that user
    result = explained("cat /in/closed; cat /in/nothing", readable=[(tmp_path, "/in")])
    assert [(name, allow) for name, (_, allow) in reasons(result).items()] == [("/in/closed", None)]


def test_what_is_shown_read_only(tmp_path: Path) -> None:
    result = explained("echo x >/in/file; mkdir /in/d; rm /in/nothing; cat /in/nothing", readable=[(tmp_path, "/in")])
    allow = f'writable=[["{tmp_path}", "/in"]]'
    assert reasons(result) == {
        "/in/file": ("/in/file is shown read-only (Policy.readable[0])", allow),
        "/in/d": ("/in/d is shown read-only (Policy.readable[0])", allow),
    }


def test_what_is_protected_and_hidden_in_a_writable_root(tmp_path: Path) -> None:
    for name in (".git/hooks", "lock", "secret"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "secret/key").touch()
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o777)
    result = explained(
        "echo x >/out/.git/hooks/post-commit; echo x >/out/lock/a; cat /out/secret/key; ls /out/secret; echo x >/out/free",
        writable=[(tmp_path, "/out")],
        protected=["/out/lock"],
        hidden=["/out/secret"],
    )
    found = {name: reason for name, (reason, _) in reasons(result).items()}
    assert found["/out/.git/hooks/post-commit"].startswith("/out/.git/hooks/post-commit is protected")
    assert found["/out/lock/a"] == "/out/lock/a is protected (Policy.protected[0])"
    assert found["/out/secret/key"] == "/out/secret/key is hidden (Policy.hidden[0])"
    assert found["/out/secret"] == "/out/secret is hidden (Policy.hidden[0])"
    assert "/out/free" not in found and (tmp_path / "free").exists()


@pytest.mark.needs("git")
def test_what_is_protected_in_the_workspace(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    result = explained("echo x >.git/hooks/post-commit; echo x >free", workspace=tmp_path)
    assert reasons(result)["/workspace/.git/hooks/post-commit"][0].startswith("/workspace/.git/hooks/post-commit is protected")
    assert (tmp_path / "free").exists() and not (tmp_path / ".git/hooks/post-commit").exists()


@pytest.mark.needs("landlock")
def test_what_must_not_be_removed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
    result = explained("rm a; mv b c; rm -f nothing", workspace=tmp_path, deletion=Deletion.DENY)
    assert {path.name for path in tmp_path.iterdir()} == {"a", "b"}
    assert {name: allow for name, (_, allow) in reasons(result).items()} == dict.fromkeys(
        ("/workspace/a", "/workspace/b"), 'deletion="allow"'
    )


@pytest.mark.needs("overlay")
def test_the_whole_host_but_for_its_secrets() -> None:
    result = explained("cat /etc/hostname >/dev/null; cat /etc/shadow; echo x >/etc/x", read=ReadPolicy.HOST)
    found = reasons(result)
    assert "hidden" in found["/etc/shadow"][0] and "read-only" in found["/etc/x"][0] and "/etc/hostname" not in found


def test_a_trusted_job_is_told_of_paths_alone() -> None:
    policy = Policy.light(explain=True)
    result = explained("unshare -U true; cat /etc/shadow", policy=policy)
    assert {one.kind for one in result.denials} == {"path"}
    assert [layer.held for layer in result.enforcement.layers if layer.name in ("seccomp", "explain")] == [None, True]


def test_without_explain_nothing_is_told() -> None:
    with Sandbox(Policy.strict(), LIMITS) as sandbox:
        assert sandbox.run(sh("cat /etc/shadow; unshare -U true")).denials == ()


def test_a_denial_travels(guest: Guests) -> None:
    result = explained("cat /etc/shadow")
    (one,) = result.denials
    assert pickle.loads(pickle.dumps(one)) == one
    assert result.to_dict()["denials"] == [one.to_dict()] and one.to_dict()["count"] == 1


def denial(arguments: str, **fields: Any) -> Denial:
    return Denial(**{"kind": "path", "name": "/x", "arguments": arguments, "reason": "r", **fields})


def test_one_thing_that_was_tried_in_several_ways_is_one_denial() -> None:
    found = list(_merged([denial("statx"), denial("openat O_RDONLY", count=2), denial("statx"), denial("statx", name="/y")]))
    assert found == [denial("statx, openat O_RDONLY", count=4), denial("statx", name="/y")]


def test_calls_with_other_arguments_are_apart() -> None:
    calls = [denial("AF_NETLINK", kind="syscall", name="socket"), denial("AF_PACKET", kind="syscall", name="socket")]
    assert list(_merged(calls)) == calls


# ---- what it needs of the host ----


def starve(sandbox: Sandbox, left: int) -> Callable[[], None]:
    """Leaves this process so many descriptors."""
    held: list[int] = []
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    while True:
        try:
            held.append(os.dup(0))
        except OSError:
            break
    for _ in range(left):
        os.close(held.pop())

    def give_back() -> None:
        for fd in held:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return give_back


def test_want_of_descriptors_is_an_error_that_leaves_nothing() -> None:
    def host() -> None:
        with Sandbox(Policy.strict(explain=True), LIMITS) as sandbox:
            assert sandbox.run(["/bin/true"]).ok
            before = len(os.listdir("/proc/self/fd"))
            for left in range(12):
                give_back = starve(sandbox, left)
                try:
                    sandbox.run(["/bin/true"])
                except (SetupError, OSError) as error:
                    assert error.errno in (errno.EMFILE, errno.ENFILE), error
                finally:
                    give_back()
            assert sandbox.run(sh("cat /etc/shadow")).denials[0].name == "/etc/shadow"
            assert len(os.listdir("/proc/self/fd")) <= before

    in_a_host(host)


def test_a_forked_child_of_the_host_leaves_the_run_to_its_parent() -> None:
    with Sandbox(Policy.strict(explain=True), LIMITS) as sandbox:
        with sandbox.spawn(sh("read line; cat /etc/shadow")) as process:
            pid = os.fork()
            if pid == 0:
                os._exit(0 if sandbox.run(sh("cat /etc/shadow")).denials[0].name == "/etc/shadow" else 1)
            assert os.waitpid(pid, 0)[1] == 0
            assert process.stdin is not None
            process.stdin.write(b"\n")
            result = process.wait()
    assert (result.status, result.denials[0].name) == (Status.NONZERO_EXIT, "/etc/shadow")
