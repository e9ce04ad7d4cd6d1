"""Everything that a policy shows, guards and covers, in the order of mounting; and that the kernel holds it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hosttrees import git, make
from running import sh

from sandbox_native import Policy, PolicyError, Sandbox, Writes, hosttree
from sandbox_native.rules import Access
from sandbox_native.shown import HostTree

pytestmark = pytest.mark.kernel
needs_box = pytest.mark.needs("userns", "idmap")


def seen(**fields: Any) -> HostTree:
    return hosttree.read_tree(Policy.strict(**fields))


def lines(tree: HostTree) -> list[tuple[str, str, str]]:
    return [(one.kind, one.inside, one.access.name) for one in tree.shown if one.inside.startswith("/w")]


def run(script: str, **fields: Any) -> str:
    with Sandbox(Policy.strict(**fields)) as sandbox:
        result = sandbox.run(sh(f"cd /w; {script}"))
    return result.text + result.stderr.decode()


# ---- the order, and what is in it ----


def test_what_lies_around_others_comes_first(w: Path) -> None:
    make(w, "gen/lock", "secret/open/x", ".git/hooks/")
    tree = seen(
        readable=[(w, "/w"), (w / "secret/open", "/w/secret/open")],
        writable=[(w / "gen", "/w/gen")],
        protected=["/w/gen/lock"],
        hidden=["/w/secret"],
    )
    assert lines(tree) == [
        ("bind", "/w", "READABLE"),
        ("bind", "/w/gen", "WRITABLE"),
        ("bind", "/w/secret/open", "READABLE"),
        ("mask", "/w/secret", "HIDDEN"),
        ("guard", "/w/gen/lock", "PROTECTED"),
    ]
    for one in tree.shown:
        if one.inside.startswith("/w") and one.kind != "mask":
            status = Path(one.source).stat()
            assert (one.device, one.inode) == (status.st_dev, status.st_ino)


def test_of_equal_paths_the_stronger_access_counts(w: Path) -> None:
    make(w, "a/", "b/", "c/")
    pairs = [(w / name, f"/w/{name}") for name in "abc"]
    tree = seen(readable=pairs, writable=pairs, protected=["/w/b"], hidden=["/w/c"])
    assert lines(tree) == [("bind", "/w/a", "WRITABLE"), ("bind", "/w/b", "READABLE")]


def test_a_hidden_root_in_another_is_covered(w: Path) -> None:
    make(w, "a/")
    tree = seen(readable=[(w, "/w"), (w / "a", "/w/a")], hidden=["/w/a"])
    assert lines(tree) == [("bind", "/w", "READABLE"), ("mask", "/w/a", "HIDDEN")]


def test_what_leads_to_a_root_in_a_writable_one_is_kept(w: Path) -> None:
    make(w, "a/b/ro/")
    tree = seen(writable=[(w, "/w")], readable=[(w / "a/b/ro", "/w/a/b/ro")])
    assert [line for line in lines(tree) if line[0] == "guard"] == [
        ("guard", "/w/a", "WRITABLE"),
        ("guard", "/w/a/b", "WRITABLE"),
    ]


def test_a_hidden_path_that_is_not_there_is_told(w: Path) -> None:
    make(w, "there")
    tree = seen(readable=[(w, "/w")], hidden=["/w/there", "/w/nothing", "/usr/no-such-thing"])
    assert tree.absent == ("/w/nothing", "/usr/no-such-thing")


def test_links_that_nothing_can_be_mounted_on_are_told(w: Path) -> None:
    (w / ".vscode").symlink_to("code")
    make(w, "code/x")
    tree = seen(writable=[(w, "/w")])
    assert tree.changeable == ("/w/.vscode",)
    assert ("guard", "/w/code", "PROTECTED") in lines(tree)


def test_a_hidden_link_has_what_it_leads_to_covered(w: Path, tmp_path: Path) -> None:
    make(tmp_path, "other/key")
    make(w, "real/key")
    (w / "link").symlink_to("real")
    (w / "out").symlink_to("../other/key")
    (w / "dangling").symlink_to("nowhere")
    hidden = ["/w/link", "/w/out", "/w/dangling"]
    tree = seen(readable=[(w, "/w"), (tmp_path / "other", "/wo")], hidden=hidden)
    assert [inside for kind, inside, _ in lines(tree) if kind == "mask"] == ["/w/real", "/wo/key"]
    assert tree.absent == ("/w/dangling",)


def test_hard_links_are_told_or_refused(w: Path, tmp_path: Path) -> None:
    make(w, "file")
    os.link(w / "file", tmp_path / "elsewhere")
    assert seen(writable=[(w, "/w")]).denials == ()
    (found,) = seen(writable=[(w, "/w")], on_hard_links="report").denials
    assert (found.kind, found.name) == ("hard_link", "/w/file")
    with pytest.raises(PolicyError, match="file") as caught:
        seen(writable=[(w, "/w")], on_hard_links="refuse")
    assert caught.value.field == "Policy.writable[0]"


# ---- the mandatory denies beat all ----


def test_a_writable_root_where_nobody_may_write_is_refused(w: Path, tmp_path: Path) -> None:
    make(w, ".vscode/", "repo/.git/hooks/", "repo/.vscode/", "keys/deep/")
    make(tmp_path, "other/")
    for inside in ("/w/.vscode", "/w/.vscode/deep", "/w/repo/.git/hooks", "/w/keys/deep"):
        (w / inside[3:]).mkdir(parents=True, exist_ok=True)
        with pytest.raises(PolicyError, match="may be written by no guest") as caught:
            seen(writable=[(w, "/w"), (tmp_path / "other", inside)], deny_write=["keys"])
        assert caught.value.field == "Policy.writable[1]"
    assert seen(writable=[(w, "/w")], readable=[(tmp_path / "other", "/w/.vscode")])


def test_beneath_another_root_the_names_are_those_of_that_root(w: Path, tmp_path: Path) -> None:
    make(w, ".git/config")
    make(tmp_path, "git/hooks/", "git/config")
    tree = seen(writable=[(w, "/w"), (tmp_path / "git", "/w/.git")])
    guards = {one.inside: one.source for one in tree.shown if one.kind == "guard" and one.access is Access.PROTECTED}
    assert guards.keys() >= {"/w/.git/config", "/w/.git/hooks"}
    assert guards["/w/.git/config"] == str(tmp_path / "git/config")


def test_a_root_in_the_workspace_does_not_lift_what_is_denied_there(tmp_path: Path) -> None:
    make(tmp_path, "git/hooks/", "git/config", "code/")
    tree = seen(writable=[(tmp_path / "git", "/workspace/.git")])
    guards = {one.inside for one in tree.shown if one.kind == "guard" and one.access is Access.PROTECTED}
    assert guards == {"/workspace/.git/hooks", "/workspace/.git/config"}
    with pytest.raises(PolicyError, match="/workspace/.vscode may be written by no guest"):
        seen(writable=[(tmp_path / "code", "/workspace/.vscode")])


# ---- as the guest finds it ----


@needs_box
def test_nesting_means_what_it_says(w: Path) -> None:
    make(w, "gen/lock", "gen/free", "secret/key", "secret/open/x", "file")
    told = run(
        "for f in file gen/lock gen/free secret/key secret/open/x; do cat $f; echo new > $f; done",
        readable=[(w, "/w"), (w / "secret/open", "/w/secret/open")],
        writable=[(w / "gen", "/w/gen")],
        protected=["/w/gen/lock"],
        hidden=["/w/secret"],
    )
    assert told.count("was here") == 4
    assert "cannot create file: Read-only" in told
    assert "cannot create gen/lock: Read-only" in told
    assert (w / "gen/free").read_text() == "new\n"
    assert (w / "gen/lock").read_text() == (w / "secret/open/x").read_text() == (w / "secret/key").read_text() == "was here"


@needs_box
@pytest.mark.parametrize("writes", [Writes.DIRECT, Writes.COMMIT])
def test_no_trick_reaches_a_protected_name(w: Path, writes: Writes, needs: Any) -> None:
    if writes is Writes.COMMIT:
        needs("overlay")
    git("init", "-q", w)
    make(w, ".bashrc", ".config/fish/config.fish", "deep/lock/file", "sub/repo/.git/hooks/")
    tricks = (
        "mv .git x; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit",
        "mv .git/hooks .git/x; mkdir .git/hooks; echo evil > .git/hooks/pre-commit",
        "rm -rf .git/hooks; ln -s /tmp .git/hooks; echo evil > .git/hooks/pre-commit",
        "echo evil >> .git/config; git config core.hooksPath /w/evil; sed -i s/core/evil/ .git/config",
        "echo evil > c; mv c .git/config; cp c .git/config; ln -f c .git/config",
        "mv .config y; mkdir -p .config/fish; echo evil > .config/fish/config.fish",
        "mv .config/fish .config/y; mkdir .config/fish; echo evil > .config/fish/config.fish",
        "echo evil > .bashrc; rm -f .bashrc; ln -sf evil .bashrc; mv .bashrc z; truncate -s 0 .bashrc; chmod 777 .bashrc",
        "ln .bashrc alias && echo evil > alias",
        "mv deep d2; mkdir -p deep/lock; echo evil > deep/lock/file; mv deep/lock deep/l2; echo evil > deep/lock/file",
        "mv sub s2; mv sub/repo sub/r2; mkdir -p sub/repo/.git/hooks; echo evil > sub/repo/.git/hooks/x",
        "umount .git/hooks; umount -l .git; mount -o remount,rw .git/hooks; unshare -rm umount .git/hooks",
        "setfattr -n user.x -v 1 .bashrc; touch -d 2000-01-01 .bashrc; chown 1000 .git/config; : > .bashrc",
    )
    before = listing(w)
    run("\n".join(tricks), writable=[(w, "/w")], protected=["/w/deep/lock"], writes=writes)
    after = listing(w)
    assert {name: after.get(name) for name in before} == before
    assert not [name for name, (_, text, _) in after.items() if "evil" in text]


def listing(top: Path) -> dict[str, tuple[int, str, int]]:
    """Mode, content and time of everything that is protected."""
    names = (".bashrc", ".config/fish/config.fish", ".git/config", ".git/hooks", "deep/lock", "sub/repo/.git/hooks")
    found = {}
    for name in names:
        for path in ((top / name), *(top / name).rglob("*")):
            status = path.lstat()
            text = path.read_text() if path.is_file() else ""
            found[str(path.relative_to(top))] = (status.st_mode, text, status.st_mtime_ns)
    return found


@needs_box
def test_git_works_in_a_guarded_repository(w: Path) -> None:
    git("init", "-q", w)
    make(w, "a")
    told = run(
        "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; "
        "git add a && git commit -qm 1 && git checkout -qb other && echo 2 > a && git commit -qam 2 && git checkout -q - && "
        "git merge -q other && git tag t && git stash list && git gc -q && git log --oneline | wc -l",
        writable=[(w, "/w")],
    )
    assert told.strip() == "2", told
    assert (w / "a").read_text() == "2\n"


@needs_box
def test_what_is_hidden_is_neither_read_nor_made(w: Path) -> None:
    make(w, "a/secret/key", "a/file", "key")
    script = "cat a/secret/key key; ls a/secret; echo x > a/secret/new; mv a b; mkdir -p a/secret; rm -rf a/secret key"
    told = run(f"{script}; cat a/file", writable=[(w, "/w")], hidden=["/w/a/secret", "/w/key"])
    assert told.count("was here") == 1
    assert sorted(os.listdir(w)) == ["a", "key"]
    assert os.listdir(w / "a/secret") == ["key"]


@needs_box
def test_hidden_places_of_the_system_are_empty() -> None:
    hidden = ["/usr/include", "/etc/hosts", "/etc/alternatives"]
    with Sandbox(Policy.strict(hidden=hidden)) as sandbox:
        result = sandbox.run(sh("ls -A /usr/include /etc/alternatives; cat /etc/hosts; echo end"))
    assert result.text.replace("/usr/include:", "").replace("/etc/alternatives:", "").split() == ["end"]


@needs_box
def test_a_file_can_be_a_root(w: Path) -> None:
    make(w, "file", "other")
    script = "cat one; echo new > one; cat two; echo new > two"
    told = run(script, writable=[(w / "file", "/w/one")], readable=[(w / "other", "/w/two")])
    assert told.count("was here") == 2
    assert (w / "file").read_text() == "new\n"
    assert (w / "other").read_text() == "was here"
