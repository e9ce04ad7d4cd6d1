"""A writable root's guards as things that a plan shows."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hosttrees import git, make, opened

from sandbox_native import Policy, PolicyError, Sandbox, Writes, guarding, survey
from sandbox_native.guarding import Guarded, by_host, denied_around, guarded, of_root
from sandbox_native.rules import Access
from sandbox_native.survey import Bound


def test_a_root_has_what_lies_in_it_and_in_no_other_root(tmp_path: Path) -> None:
    policy = Policy.strict(
        writable=[(tmp_path, "/w"), (tmp_path / "in", "/w/in")],
        readable=[(tmp_path / "ro", "/w/a/ro"), (tmp_path / "x", "/other")],
        protected=["/w/p", "/w/in/p"],
        hidden=["/w/h", "/w/in/h"],
    )
    covered = ["/w/c", "/w/in/c"]
    outer, inner = of_root("/w", "/host/w", policy, covered), of_root("/w/in", "/host/in", policy, covered)
    assert (outer.protected, set(outer.hidden), set(outer.roots)) == (("/w/p",), {"/w/c", "/w/h"}, {"/w/in", "/w/a/ro"})
    assert (inner.protected, set(inner.hidden), inner.roots) == (("/w/in/p",), {"/w/in/c", "/w/in/h"}, ())


def test_guards_are_shown_as_the_guest_sees_them(tmp_path: Path) -> None:
    make(tmp_path, ".git/hooks/", "deep/lock", "dark/")
    policy = Policy.strict(writable=[(tmp_path, "/w")], protected=["/w/deep/lock"], hidden=["/w/dark"])
    with opened(tmp_path) as fd:
        found = guarded(fd, of_root("/w", str(tmp_path), policy), policy, "Policy.writable[0]")
    assert {(one.kind, one.inside, one.access, one.directory) for one in found.shown("Policy.writable[0]")} == {
        ("guard", "/w/.git", Access.WRITABLE, True),
        ("guard", "/w/.git/hooks", Access.PROTECTED, True),
        ("guard", "/w/deep", Access.WRITABLE, True),
        ("guard", "/w/deep/lock", Access.PROTECTED, False),
        ("mask", "/w/dark", Access.HIDDEN, True),
    }
    names = (".git", ".git/hooks", "deep", "deep/lock", "dark")
    assert {one.source for one in found.shown("")} == {str(tmp_path / name) for name in names}


def test_what_is_denied_around_a_root_is_denied_in_it(tmp_path: Path) -> None:
    policy = Policy.strict(writable=[(tmp_path, "/w")], deny_write=["keys"])
    assert set(denied_around("/workspace/.git", policy, [])) == {
        f"/workspace/.git/{name}" for name in ("hooks", "config", "config.worktree", "commondir")
    }
    assert denied_around("/workspace/keys/deep", policy, []) == ["/workspace/keys"]
    assert denied_around("/elsewhere", policy, []) == []
    make(tmp_path, "repo/.git/HEAD")
    with opened(tmp_path) as fd:
        outer = guarded(fd, of_root("/w", str(tmp_path), policy), policy, "Policy.writable[0]")
    assert denied_around("/w/repo/keys", policy, [outer]) == ["/w/repo/keys"]


def look(root: Path, policy: Policy) -> Guarded:
    with opened(root) as fd:
        return guarded(fd, of_root("/workspace", str(root), policy), policy, "workspace")


def test_a_root_with_too_many_directories_is_refused_and_never_half_guarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survey, "GUARDS", Bound(names=20, seconds=30))
    make(tmp_path, "zproj/.git/config", *(f"many/{number}/" for number in range(30)))
    with pytest.raises(PolicyError, match="could be guarded") as caught:
        look(tmp_path, Policy.strict())
    assert (caught.value.field, caught.value.value) == ("workspace", repr(str(tmp_path)))
    assert "protected=" in caught.value.remedy
    assert look(tmp_path, Policy.strict(protected=["/workspace/many"])).searched
    assert not look(tmp_path, Policy.strict(writes=Writes.COMMIT)).searched


def test_a_great_many_files_hide_no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "GUARDS", Bound(names=20, seconds=30))
    make(tmp_path, "zproj/.git/config", *(f"f{number}" for number in range(500)))
    protection = look(tmp_path, Policy.strict()).protection
    assert protection is not None
    assert "zproj/.git/config" in {guard.name for guard in protection.guards if guard.read_only}


def test_a_pointer_that_cannot_be_read_refuses_the_run(tmp_path: Path) -> None:
    make(tmp_path, "store/x/y/z/")
    git("init", "-q", f"--separate-git-dir={tmp_path}/store/x/y/z/deep.git", tmp_path / "sep")
    held, before = os.open(tmp_path / "sep/.git", os.O_RDONLY), signal.signal(signal.SIGIO, signal.SIG_IGN)
    try:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        with pytest.raises(PolicyError, match=r"sep/\.git cannot be followed"):
            look(tmp_path, Policy.strict())
    finally:
        os.close(held)
        signal.signal(signal.SIGIO, before)
    protection = look(tmp_path, Policy.strict()).protection
    assert protection is not None
    assert "store/x/y/z/deep.git/config" in {guard.name for guard in protection.guards}


def test_what_a_policy_protects_is_protected_in_a_workspace_at_the_same_place(tmp_path: Path) -> None:
    policy = Policy.strict(writable=[(tmp_path, "/p")], protected=["/p/ws/lock"], hidden=["/p/ws/sub/key", "/p/other"])
    found = by_host(f"{tmp_path}/ws", policy)
    assert found.protected == ("/p/ws/lock", "/workspace/lock")
    assert found.hidden == ("/p/ws/sub/key", "/p/other", "/workspace/sub/key")
    assert by_host("/elsewhere", policy) is policy
    for inside in ("/p/ws", "/p"):
        with pytest.raises(PolicyError, match="protected lists"):
            by_host(f"{tmp_path}/ws", Policy.strict(writable=[(tmp_path, "/p")], protected=[inside]))


@pytest.mark.parametrize("kind", ["repositories", "git_directories"])
def test_more_repositories_than_can_be_guarded_are_refused_or_told(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A guest can make a great many, and each has names that are looked for before every run."""
    monkeypatch.setattr(guarding, "REPOSITORIES", 5)
    for number in range(6):
        make(tmp_path, *((f"{number}/.git/",) if kind == "repositories" else (f"{number}/objects/", f"{number}/refs/")))
    direct, commit = Policy.strict(), Policy.strict(writes=Writes.COMMIT)
    with opened(tmp_path) as fd:
        with pytest.raises(PolicyError, match="more than 5 git repositories.*Writes.COMMIT"):
            guarded(fd, of_root("/workspace", str(tmp_path), direct), direct, "workspace")
        found = guarded(fd, of_root("/workspace", str(tmp_path), commit), commit, "workspace")
        assert not found.searched and found.protection is not None
        shutil.rmtree(tmp_path / "5")
        assert guarded(fd, of_root("/workspace", str(tmp_path), direct), direct, "workspace").searched


PARTS = """
import os
for name in ("store.git", "main/.git/modules/lib"):
    for part in ("refs", "objects", "HEAD"):
        try: os.rename(f"{name}/{part}", f"{name}/x{part}")
        except OSError: pass
"""
HOOKS = """
import os
for name in ("store.git", "main/.git/modules/lib"):
    try: open(f"{name}/hooks/post-receive", "w").write("evil")
    except OSError: pass
    for part in ("refs", "objects", "HEAD"):
        if os.path.lexists(f"{name}/x{part}"): os.rename(f"{name}/x{part}", f"{name}/{part}")
"""


@pytest.mark.kernel
@pytest.mark.needs("userns", "workspace")
@pytest.mark.parametrize("writes", Writes)
def test_a_repository_is_known_in_the_next_run_whatever_the_guest_moves_away(
    tmp_path: Path, writes: Writes, needs: Callable[[str], None]
) -> None:
    if writes is Writes.COMMIT:
        needs("changes")
    w = tmp_path / "w"
    for name in ("store.git", "main/.git/modules/lib"):
        git("init", "-q", "--bare", w / name)
        (w / name / "hooks/sample").write_text("")
    git("init", "-q", w / "main")
    with Sandbox(Policy.strict(writes=writes)) as sandbox:
        for script in (PARTS, HOOKS):
            assert sandbox.run(["python3", "-c", script], workspace=w).ok
    for name in ("store.git", "main/.git/modules/lib"):
        assert os.listdir(w / name / "hooks").count("post-receive") == 0
        git("-C", w / name, "rev-parse", "--git-dir")
