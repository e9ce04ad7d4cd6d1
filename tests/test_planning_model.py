"""Random policies on a real tree: an error of ours, or a plan whose mounts agree with the rules of precedence as they are written
down here once more, in another way than rules.py has them. test_planning_kernel.py does the same in boxes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from mounted import Seen, mount_points, seen
from planned import facts, features

from sandbox_native import Deletion, Limits, Policy, PolicyError, UnsupportedError, Writes, hosttree
from sandbox_native.planning import plan

SUBS = ("", "/a", "/a/b", "/a/b/c", "/f", "/a/f", "/.git", "/.git/hooks", "/a/.git", "/a/.git/hooks", "/a/b/.bashrc")
PLACES = ("/in", "/tmp/in", "/workspace/in", "/mnt/x/in")
STRONGEST = ("hidden", "protected", "writable", "readable")


def make_tree(top: Path) -> Path:
    for name in ("w/a/b/c", "w/.git/hooks", "w/a/.git/hooks", "x/a/b"):
        (top / name).mkdir(parents=True)
    for name in ("w/f", "w/a/f", "x/f", "w/a/b/.bashrc", "w/.git/HEAD", "w/a/.git/HEAD", "w/.git/config"):
        (top / name).write_text("ref: refs/heads/main\n" if name.endswith("HEAD") else "")
    return top


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("model"))


# ---- the rules, once more ----


class Model:
    """What a path is, from the policy's fields and the host's tree alone."""

    def __init__(self, policy: Policy) -> None:
        self.roots = [(inside.split("/"), host, "writable") for host, inside in policy.writable]
        self.roots += [(inside.split("/"), host, "readable") for host, inside in policy.readable]
        self.rules = [(parts, kind) for parts, _, kind in self.roots]
        self.rules += [(inside.split("/"), "protected") for inside in policy.protected]
        self.rules += [(inside.split("/"), "hidden") for inside in policy.hidden]
        self.denied: list[list[str]] = []
        written = [root for root in self.roots if self.access("/".join(root[0])) == "writable"]
        self.denied = [parts for root in written for parts in self._denied(*root[:2])]

    def _denied(self, inside: list[str], host: str) -> Iterator[list[str]]:
        """Names that nobody may write: at the root's top and in its repositories, whichever root is seen there."""
        tops = ["", *(str(path.parent.relative_to(host)) for path in Path(host).rglob(".git"))] if Path(host).is_dir() else []
        for top in tops:
            # A root that is itself the beginning of such a name denies the rest of it.
            rest = ("hooks", "config") if Path(host).name == ".git" and not top else ()
            for name in (".git/hooks", ".git/config", ".bashrc", *rest):
                parts = inside + [part for part in f"{top}/{name}".split("/") if part not in ("", ".")]
                if Path(self.file("/".join(parts))).exists():
                    yield parts

    def _root(self, parts: list[str]) -> tuple[list[str], str]:
        covering = [root for root in self.roots if parts[: len(root[0])] == root[0]]
        covering.sort(key=lambda root: (len(root[0]), root[2] == "writable"))
        return covering[-1][:2] if covering else ([], "")

    def access(self, path: str) -> str:
        """One of STRONGEST, or "" where nothing is shown."""
        parts = path.split("/")
        best = ""
        for depth in range(len(parts) + 1):
            here = [kind for rule, kind in self.rules if len(rule) == depth and parts[:depth] == rule]
            best = min(here, key=STRONGEST.index, default=best)
        forbidden = any(parts[: len(denied)] == denied for denied in self.denied)
        return "protected" if best == "writable" and forbidden else best

    def file(self, path: str) -> str:
        root, host = self._root(path.split("/"))
        return "/".join([host, *path.split("/")[len(root) :]])

    def fixed(self) -> Iterator[str]:
        """Directories that somebody could rename to get at what is read-only or hidden beneath them."""
        ends = [rule for rule, kind in self.rules if kind != "writable"] + self.denied
        for end in ends:
            if not Path(self.file("/".join(end))).exists():
                continue
            root, _ = self._root(end[:-1])
            for depth in range(len(root) + 1, len(end)):
                if root and self.access("/".join(end[:depth])) == "writable":
                    yield "/".join(end[:depth])


# ---- random policies ----


@st.composite
def policies(draw: st.DrawFn, host: Path) -> dict[str, Any]:
    """One root at least, and others at places beneath it that mostly are there."""
    place = draw(st.sampled_from(PLACES))
    subs = st.sampled_from(SUBS)
    same = subs.map(lambda sub: (f"{host}/w{sub}", place + sub))
    moved = st.tuples(st.sampled_from(("w", "x")), subs, subs).map(lambda one: (f"{host}/{one[0]}{one[1]}", place + one[2]))
    pairs = st.lists(st.one_of(same, same, same, moved), max_size=2, unique_by=lambda pair: pair[1])
    outer = (f"{host}/w", place)
    given: dict[str, Any] = {"readable": draw(pairs), "writable": draw(pairs)}
    wanted = given["writable" if draw(st.booleans()) else "readable"]
    if all(inside != place for pairs in (given["readable"], given["writable"]) for _, inside in pairs):
        wanted.append(outer)
    names = st.lists(subs.map(lambda sub: place + sub), max_size=2, unique=True)
    given["hidden"] = draw(names)
    given["protected"] = draw(names) if given["writable"] else []
    return given | draw(
        st.fixed_dictionaries(
            {
                "writes": st.sampled_from(Writes),
                "deletion": st.sampled_from(Deletion),
                "host_sockets": st.sampled_from(["scan", "hide", "show"]),
                "system": st.booleans(),
            }
        )
    )


def expected(model: Model, path: str) -> tuple[set[str], str]:
    access = model.access(path)
    if access in ("writable", "readable", "protected"):
        return {"rw" if access == "writable" else "ro"}, model.file(path)
    return {"hidden", "own", "made"} if access else {"own", "made"}, ""


@given(data=st.data())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mounts_agree_with_the_rules_of_precedence(data: st.DataObject, host: Path) -> None:
    fields = data.draw(policies(host))
    try:
        policy = Policy.strict(**fields)
        found = plan(policy, Limits(), features(), facts_of(policy)).plan
    except (PolicyError, UnsupportedError) as error:
        event(type(error).__name__)
        assert str(error)
        return
    event(f"planned, {policy.writes.value}")
    model = Model(policy)
    for sub in SUBS:
        for place in PLACES:
            path = place + sub
            if not Path(model.file(path)).exists():
                continue
            access, file = expected(model, path)
            shown = seen(found.template, found.box, path)
            assert shown.access in access, f"{path}: {shown}, expected {access}"
            assert shown.host == file or shown.access == "hidden", f"{path}: {shown}, expected {file}"
    points = mount_points(found.template, found.box)
    assert set(model.fixed()) <= points


def facts_of(policy: Policy) -> Any:
    from dataclasses import replace

    return replace(facts(), tree=hosttree.read_tree(policy))


@pytest.mark.parametrize("writes", Writes)
def test_deep_nesting_is_no_error(host: Path, writes: Writes) -> None:
    policy = Policy.strict(
        readable=[(host / "w", "/in"), (host / "x", "/in/a/b")],
        writable=[(host / "w/a", "/in/a")],
        protected=["/in/a/f"],
        hidden=["/in/a/.git"],
        writes=writes,
    )
    found = plan(policy, Limits(), features(), facts_of(policy)).plan
    looked = {path: seen(found.template, found.box, path).access for path in ("/in/f", "/in/a/x", "/in/a/b/f", "/in/a/f")}
    assert looked == {"/in/f": "ro", "/in/a/x": "rw", "/in/a/b/f": "ro", "/in/a/f": "ro"}
    assert seen(found.template, found.box, "/in/a/.git/config") == Seen("hidden")
