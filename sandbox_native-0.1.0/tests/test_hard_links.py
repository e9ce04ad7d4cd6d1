"""Files of a writable root that have names elsewhere too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox_native import Denial, Policy, PolicyError, hard_links
from sandbox_native.survey import Bound


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """`in` is looked at; `in/d/shared` is `out/other` as well, `in/a` and `in/d/b` are one file."""
    (tmp_path / "in" / "d").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "plain").touch()
    (tmp_path / "in" / "a").touch()
    os.link(tmp_path / "in" / "a", tmp_path / "in" / "d" / "b")
    (tmp_path / "out" / "other").touch()
    os.link(tmp_path / "out" / "other", tmp_path / "in" / "d" / "shared")
    (tmp_path / "in" / "link").symlink_to("../out")
    fd = os.open(tmp_path / "in", os.O_RDONLY)
    yield tmp_path / "in", fd
    os.close(fd)


def check(fd: int, policy: Policy) -> tuple[Denial, ...]:
    return hard_links.check(fd, policy, "workspace", "/host/in", "/workspace")


def test_only_a_file_with_a_name_elsewhere_is_found(tree: tuple[Path, int]) -> None:
    assert hard_links.find(tree[1]) == hard_links.Links(("d/shared",), True)


def test_by_default_nobody_looks(tree: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hard_links, "find", lambda root: pytest.fail("it was searched"))
    assert check(tree[1], Policy.strict()) == ()


def test_they_are_reported_by_their_names_in_the_box(tree: tuple[Path, int]) -> None:
    (found,) = check(tree[1], Policy.strict(on_hard_links="report"))
    assert (found.kind, found.name, found.count) == ("hard_link", "/workspace/d/shared", 1)


def test_they_are_refused_by_name(tree: tuple[Path, int]) -> None:
    with pytest.raises(PolicyError, match="d/shared") as caught:
        check(tree[1], Policy.strict(on_hard_links="refuse"))
    assert (caught.value.field, bool(caught.value.remedy)) == ("workspace", True)
    (tree[0] / "d" / "shared").unlink()
    assert check(tree[1], Policy.strict(on_hard_links="refuse")) == ()


def test_a_tree_that_is_too_large_is_refused_and_reported(tree: tuple[Path, int], monkeypatch: pytest.MonkeyPatch) -> None:
    (tree[0] / "d" / "shared").unlink()
    real = hard_links.find
    monkeypatch.setattr(hard_links, "find", lambda root: real(root, Bound(names=2, seconds=10)))
    with pytest.raises(PolicyError, match="more in it than can be searched"):
        check(tree[1], Policy.strict(on_hard_links="refuse"))
    found = check(tree[1], Policy.strict(on_hard_links="report"))
    assert "not all of it" in found[-1].reason


def test_the_report_has_a_bound(tree: tuple[Path, int]) -> None:
    for number in range(300):
        (tree[0] / f"f{number}").touch()
        os.link(tree[0] / f"f{number}", tree[0].parent / "out" / f"f{number}")
    found = check(tree[1], Policy.strict(on_hard_links="report"))
    assert len(found) == 101
    assert found[-1].count == 201
