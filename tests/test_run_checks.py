"""What is looked at before every run that may write to directories of the host, and what it costs."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boxes
import pytest
from boxes import Guests
from hosttrees import git, listening, make
from running import sh

from sandbox_native import Policy, PolicyError, Sandbox, Writes, hosttree, roots, run_checks, sockets
from sandbox_native.run_checks import Before, RunChecks
from sandbox_native.survey import Bound
from sandbox_native.workspace import Workspace, open_workspace

pytestmark = pytest.mark.kernel
needs_box = pytest.mark.needs("userns", "workspace")


@pytest.fixture
def workspace(w: Path) -> Iterator[Workspace]:
    opened = open_workspace(str(w))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def public(guest: Guests) -> Iterator[Guests]:
    with boxes.public(guest) as found:
        yield found


def checks(**fields: Any) -> RunChecks:
    policy = Policy.strict(**fields)
    return RunChecks(policy, hosttree.read_tree(policy).shown)


def begin(workspace: Workspace | None, **fields: Any) -> Before:
    before = checks(**fields).begin(workspace)
    before.close()
    return before


# ---- a workspace ----


def test_a_workspace_is_guarded_like_a_root(w: Path, workspace: Workspace) -> None:
    make(w, ".git/hooks/", "deep/lock", "dark/key", "keys/", "repo/.git/config")
    before = begin(workspace, deny_write=["keys"], protected=["/workspace/deep/lock"], hidden=["/workspace/dark"])
    names = {guard.name: "mask" if guard.mask else "read-only" if guard.read_only else "kept" for guard in before.guards}
    assert names == {
        ".git": "kept",
        ".git/hooks": "read-only",
        "dark": "mask",
        "deep": "kept",
        "deep/lock": "read-only",
        "keys": "read-only",
        "repo": "kept",
        "repo/.git": "kept",
        "repo/.git/config": "read-only",
    }
    assert not before.stale


def test_a_workspace_with_a_living_socket_is_refused(w: Path, workspace: Workspace) -> None:
    make(w, "a/b/")
    with listening(w / "a/b/agent"):
        with pytest.raises(PolicyError, match="a/b/agent") as caught:
            begin(workspace)
        assert caught.value.field == "workspace"
        begin(workspace, host_sockets="show")
        begin(workspace, writes=Writes.COMMIT)
    begin(workspace)


def test_a_workspace_that_is_too_large_is_refused(w: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    make(w, *(f"{number}/" for number in range(20)))
    monkeypatch.setattr(sockets, "WRITABLE", Bound(names=10, seconds=10))
    with pytest.raises(PolicyError, match="more in it than can be searched"):
        begin(workspace)
    begin(workspace, host_sockets="show")
    begin(workspace, writes=Writes.COMMIT)


def test_hard_links_are_looked_for_on_demand(w: Path, workspace: Workspace, tmp_path: Path) -> None:
    make(w, "file")
    os.link(w / "file", tmp_path / "elsewhere")
    assert begin(workspace).denials == ()
    assert [one.name for one in begin(workspace, on_hard_links="report").denials] == ["/workspace/file"]
    with pytest.raises(PolicyError, match="file"):
        begin(workspace, on_hard_links="refuse")


@pytest.mark.parametrize("path", [os.path.dirname(roots.__file__), os.path.dirname(os.path.dirname(roots.__file__))])
def test_this_package_is_no_workspace(path: str) -> None:
    opened = open_workspace(path)
    try:
        with pytest.raises(PolicyError, match="which the host runs") as caught:
            begin(opened)
    finally:
        opened.close()
    assert caught.value.field == "workspace"


def test_a_directory_around_the_package_is_one_where_that_is_protected(w: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(w, "venv/bin/launcher")
    monkeypatch.setattr(roots, "launcher_path", lambda: str(w / "venv/bin/launcher"))
    opened = open_workspace(str(w))
    try:
        with pytest.raises(PolicyError, match="which the host runs"):
            begin(opened)
        begin(opened, protected=["/workspace/venv"])
        begin(opened, hidden=["/workspace/venv"])
    finally:
        opened.close()


def test_what_was_allowed_once_is_not_asked_again(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    one = checks()
    one.begin(workspace).close()
    monkeypatch.setattr(run_checks, "refuse_writable", lambda *_: pytest.fail("it was asked again"))
    one.begin(workspace).close()


def test_a_workspace_that_cannot_be_entered_is_refused() -> None:
    def work() -> None:
        boxes.become_plain()
        top = Path(f"/tmp/run-checks-{os.getpid()}")
        make(top, ".git/hooks/")
        opened = open_workspace(str(top))
        top.chmod(0o444)
        try:
            with pytest.raises(PolicyError, match="may not look into it"):
                begin(opened)
        finally:
            opened.close()
            top.chmod(0o755)
            subprocess.run(["rm", "-r", str(top)], check=True)

    boxes.in_a_host(work)


# ---- in a box ----

TRICKS = """
mv .git x; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo evil >> .git/config; rm -rf .git/hooks
mv repo r2; echo evil >> repo/.git/config; echo evil > deep/lock; mv deep d2; mkdir -p deep; echo evil > deep/lock
cat dark/key; mv dark lit; cat lit/key; chmod 777 .bashrc; echo evil > .bashrc; echo fine > file
"""


@pytest.mark.parametrize("user", ["root", "plain"])
@needs_box
def test_no_trick_reaches_a_guarded_name(w: Path, user: str, public: Guests, needs: Callable[[str], None]) -> None:
    if user == "root":
        needs("root")
    git("init", "-q", w)
    git("init", "-q", w / "repo")
    make(w, "deep/lock", "dark/key", ".bashrc")
    for path in (w.parent.parent.parent, w.parent.parent, w.parent):
        path.chmod(0o755)

    def work() -> None:
        os.environ["SANDBOX_NATIVE_LAUNCHER"] = str(public["launcher"])
        if user == "plain" and os.geteuid() == 0:
            subprocess.run(["chown", "-R", f"{boxes.PLAIN_USER}:{boxes.PLAIN_USER}", str(w)], check=True)
            boxes.become_plain()
        before = {path: path.stat() for path in (w / ".git/config", w / ".git/hooks", w / "repo/.git/config", w / "deep/lock")}
        policy = Policy.strict(protected=["/workspace/deep/lock"], hidden=["/workspace/dark"])
        with Sandbox(policy) as sandbox:
            result = sandbox.run(sh(TRICKS), workspace=w)
        assert result.text == ""
        for path, status in before.items():
            after = path.stat()
            assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (status.st_ino, status.st_mtime_ns, status.st_mode), path
        assert (w / ".bashrc").read_text() == (w / "deep/lock").read_text() == (w / "dark/key").read_text() == "was here"
        assert (w / "file").read_text() == "fine\n"
        assert result.denials == ()

    boxes.in_a_host(work)


@needs_box
def test_absent_protected_names_read_as_absent_and_leave_no_trace(tmp_path: Path, w: Path) -> None:
    """R45: no placeholder appears in the project, and git is not confused by one."""
    with Sandbox() as sandbox:
        result = sandbox.run(sh("cat .git/config.worktree; git status; ls -a"), workspace=w)
    assert "No such file" in result.stderr.decode()
    assert result.text == ".\n..\n"
    assert os.listdir(w) == []
    assert os.listdir(tmp_path) == ["w"]


@pytest.mark.needs("userns", "idmap")
def test_a_name_that_the_host_makes_later_is_guarded_in_the_next_run(w: Path) -> None:
    with Sandbox(Policy.strict(writable=[(w, "/mnt/w")])) as sandbox:
        assert sandbox.run(sh("true")).ok
        make(w, ".bashrc")
        result = sandbox.run(sh("echo evil > /mnt/w/.bashrc"))
        assert b"Read-only" in result.stderr
        assert result.denials == ()
        (w / "new").write_text("saved anew")
        (w / "new").rename(w / ".bashrc")
        assert b"Read-only" in sandbox.run(sh("echo evil > /mnt/w/.bashrc")).stderr
        assert (w / ".bashrc").read_text() == "saved anew"


@pytest.mark.needs("userns", "idmap")
def test_a_root_that_was_replaced_is_shown_anew_or_refused(w: Path) -> None:
    make(w, "old")
    with Sandbox(Policy.strict(writable=[(w, "/mnt/w")])) as sandbox:
        assert sandbox.run(sh("ls /mnt/w")).text == "old\n"
        w.rename(w.parent / "gone")
        make(w, "new")
        assert sandbox.run(sh("ls /mnt/w")).text == "new\n"
        w.rename(w.parent / "gone too")
        with pytest.raises(PolicyError, match="No such file"):
            sandbox.run(sh("ls /mnt/w"))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"deny_write": ["keys", "deep/er"]},
        {"protected": ["/w/deep", "/w/absent"], "hidden": ["/w/dark", "/w/keys/none"]},
        {"hidden": ["/w/link"]},
        {"readable": [("in/ro", "/w/in/ro")]},
        {"writable": [("in", "/w/in")], "protected": ["/w/in/ro"], "hidden": ["/w/in/dark"]},
        {"writable": [("git", "/w/.git")]},
    ],
)
def test_a_plan_is_not_stale_while_nothing_changes(w: Path, tmp_path: Path, fields: dict[str, Any]) -> None:
    make(w, ".git/hooks/", ".bashrc", "deep/er/x", "dark/key", "keys/", "in/ro/", "in/dark/", "repo/.git/config", "real/x")
    make(tmp_path, "in/ro/x", "in/dark/x", "git/hooks/", "git/config")
    (w / "link").symlink_to("real")
    (w / ".vscode").symlink_to("real")
    given = dict(fields)
    for name in ("readable", "writable"):
        given[name] = [(tmp_path / host, inside) for host, inside in fields.get(name, ())]
    given["writable"] = [(w, "/w"), *given["writable"]]
    one = checks(**given)
    for _ in range(2):
        before = one.begin(None)
        assert not before.stale
        before.close()
    make(w, ".npmrc")
    before = one.begin(None)
    assert before.stale
    before.close()


# ---- what it costs ----


def test_the_checks_of_a_known_workspace_are_cheap(w: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a tree is read again. Measured, of 5,000 files in 411 directories: 1 to 2 ms for each run but the first."""
    for number in range(30):
        directory = w / f"a{number % 10}" / f"b{number // 10 % 10}" / f"c{number // 100}"
        directory.mkdir(parents=True)
        (directory / "file.py").touch()
    one = checks()
    time.sleep(0.1)  # a time stamp of this very moment is not trusted yet
    read = 0

    def scandir(where: Any) -> Any:
        nonlocal read
        read += 1
        return scan(where)

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", scandir)
    one.begin(workspace).close()
    first, read = read, 0
    one.begin(workspace).close()
    assert first > 50 and read == 0
