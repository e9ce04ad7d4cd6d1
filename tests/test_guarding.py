"""A writable root's guards as things that a plan shows."""

from __future__ import annotations

from pathlib import Path

from hosttrees import make, opened

from sandbox_native import Policy
from sandbox_native.guarding import denied_around, guarded, of_root
from sandbox_native.rules import Access


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
        found = guarded(fd, of_root("/w", str(tmp_path), policy), policy)
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
        outer = guarded(fd, of_root("/w", str(tmp_path), policy), policy)
    assert denied_around("/w/repo/keys", policy, [outer]) == ["/w/repo/keys"]
