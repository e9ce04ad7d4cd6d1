"""The tree that `policy show` tells of: what a guest finds is what it says, place by place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from running import sh

from sandbox_native import Policy, ReadPolicy, Sandbox, Writes, hosttree
from sandbox_native.effective import Entry, entries, lookup

pytestmark = pytest.mark.needs("userns")

# For each path of the arguments: its type, whether its owner may write, and how many names are in it.
LOOK = """
for path; do
    kind=other; count=-
    [ -f "$path" ] && kind=file && count=$(head -c 1 "$path" 2>/dev/null | wc -c)
    [ -c "$path" ] && kind=device
    [ -d "$path" ] && kind=directory && count=$(ls -A "$path" 2>/dev/null | wc -l)
    [ -L "$path" ] && kind=link && count=$(readlink "$path")
    write=no; [ -w "$path" ] && write=yes
    echo "$path $kind $write $count"
done
"""


def tree_of(policy: Policy) -> dict[str, Entry]:
    found = entries(policy, hosttree.read_tree(policy), os.geteuid() == 0)
    return {one.path: one for one in found}


def seen(policy: Policy, paths: list[str], **more: Any) -> dict[str, list[str]]:
    with Sandbox(policy) as sandbox:
        result = sandbox.run([*sh(LOOK), "sh", *paths], **more)
    assert result.ok, (result.status, result.stderr)
    return {line.split(" ")[0]: line.split(" ")[1:] for line in result.text.splitlines()}


def agree(policy: Policy) -> dict[str, Entry]:
    """Every place is in the box as it is told."""
    tree = tree_of(policy)
    found = seen(policy, list(tree))
    assert list(found) == list(tree)
    for path, entry in tree.items():
        kind, write, count = found[path]
        assert kind != "other", path
        if entry.access == "link":
            assert (kind, count) == ("link", entry.text), path
        elif entry.access == "hidden":
            assert (write, count) in (("no", "0"), ("no", "-")), path
        else:
            assert write == ("yes" if entry.access == "rw" and not path.startswith("/proc") else write), path
            assert not (write == "yes" and entry.access in ("ro", "protected")), path
    return tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("data/sub", "work/gen", "work/.git/hooks"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("data/file", "data/sub/secret", "work/gen/lock", "work/.bashrc", "work/.git/config"):
        (tmp_path / name).write_text("x")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755)
    return tmp_path


@pytest.mark.kernel
@pytest.mark.parametrize("policy", [Policy.strict(), Policy.light()], ids=["strict", "light"])
def test_the_presets_are_as_told(policy: Policy) -> None:
    tree = agree(policy)
    assert {path: tree[path].access for path in ("/", "/usr", "/tmp", "/workspace", "/home/guest", "/dev/null")} == {
        "/": "ro",
        "/usr": "ro",
        "/tmp": "rw",
        "/workspace": "rw",
        "/home/guest": "rw",
        "/dev/null": "rw",
    }
    assert ("/etc/passwd" in tree) == (policy.preset == "strict")


@pytest.mark.kernel
def test_nothing_is_left_out() -> None:
    """What is at the top of a box, and in the directories made for it, is in the tree or is a working of the box itself."""
    tree = tree_of(Policy.strict())
    made = [path for path, one in tree.items() if not one.whole and one.access == "ro"]
    with Sandbox(Policy.strict()) as sandbox:
        result = sandbox.run(["/usr/bin/find", *made, "-maxdepth", "1", "-mindepth", "1", "-type", "d,f,l,c"])
    told = {os.path.normpath(line) for line in result.text.splitlines()}
    assert {path for path in told if path not in tree} <= {"/.empty", "/.roots"}


@pytest.mark.kernel
@pytest.mark.parametrize("writes", list(Writes))
def test_a_policy_s_own_paths_are_as_told(root: Path, writes: Writes) -> None:
    policy = Policy.strict(
        readable=[(str(root / "data"), "/data")],
        writable=[(str(root / "work"), "/work"), (str(root / "data"), "/tmp/in")],
        protected=["/work/gen"],
        hidden=["/data/sub/secret"],
        writes=writes,
    )
    tree = agree(policy)
    told = {path: one.access for path, one in tree.items() if path.startswith(("/data", "/work/", "/tmp/in"))}
    assert told["/data"] == "ro" and told["/data/sub/secret"] == "hidden"
    assert tree["/work"].access == tree["/tmp/in"].access == "rw"
    assert {path for path, access in told.items() if access == "protected"} == {
        *("/work/gen", "/work/.bashrc", "/work/.git/hooks", "/work/.git/config")
    }


def test_lookup_follows_the_tree_s_own_links() -> None:
    tree = tree_of(Policy.strict(symlinks=[("/opt2", "/usr"), ("/loop", "loop"), ("/up/down", "../opt2/share")]))

    def at(path: str) -> str | None:
        entry = lookup(tree, path)
        return None if entry is None else entry.path

    assert (at("/usr/bin/env"), at("/opt2/bin/env"), at("/up/down/x")) == ("/usr",) * 3
    assert (at("/workspace/new"), at("/tmp"), at("/proc/self/fd")) == ("/workspace", "/tmp", "/proc")
    assert (at("/etc/passwd"), at("/etc"), at("/")) == ("/etc/passwd", "/etc", "/")
    assert (at("/etc/shadow"), at("/srv"), at("/loop"), at("/.empty/dir")) == (None,) * 4


@pytest.mark.kernel
def test_a_whole_host_is_as_told() -> None:
    tree = agree(Policy.strict(read=ReadPolicy.HOST))
    assert (tree["/"].access, tree["/root"].access, tree["/etc/shadow"].access) == ("ro", "hidden", "hidden")
