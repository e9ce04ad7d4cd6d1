"""However much a guest made under denied names, and however deep: few descriptors, few denials, and errors of ours."""

from __future__ import annotations

import os
import resource
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hosttrees import make, opened, protection
from test_quarantine import settle

from sandbox_native import Policy, SetupError, claims
from sandbox_native import quarantine as quarantine_module
from sandbox_native.quarantine import quarantine
from sandbox_native.snapshots import State


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    return tmp_path / "w"


def test_a_deep_name_takes_few_descriptors(root: Path) -> None:
    names = ("/".join("a" * 60), "/".join("a" * 30) + "/b/c")
    before = replace(protection(root), names=frozenset(names))
    make(root, *names)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, limits[1]))
    try:
        assert set(settle(root, before)) == set(names)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("above", [False, True])
def test_a_directory_that_is_moved_away_meanwhile_ends_no_visit(root: Path, above: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deeper than the descriptors reach, by a box that is at work: the way up leads elsewhere then."""
    deep, middle = "/".join("a" * 30), "/".join("a" * 12)
    before = replace(protection(root), names=frozenset((f"{deep}/.bashrc", f"{middle}/b", "c")))
    make(root, f"{deep}/.bashrc", f"{middle}/b", "c")
    settled = quarantine_module._Visit._settle

    def moved(self: Any, fd: int, name: str, path: str) -> State | None:
        if name == ".bashrc":
            (root / "/".join("a" * 20)).rename(root / "moved")
            if above:
                (root / "/".join("a" * 5)).rename(root / "moved too")
        return settled(self, fd, name, path)

    monkeypatch.setattr(quarantine_module._Visit, "_settle", moved)
    found = settle(root, before)
    assert {f"{deep}/.bashrc", "c"} < found.keys()
    told = any("while it was looked at" in denial.reason for denial in found.values())
    assert told == (f"{middle}/b" not in found) and (above or not told)  # it may have been settled before


def test_names_of_ours_are_moved_together_and_told_in_few_denials(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = protection(root)
    for number in range(2000):
        os.symlink("x", root / f".sandbox-native-{number}")
    made = 0
    mkdir = os.mkdir

    def counted(*args: Any, **kwargs: Any) -> None:
        nonlocal made
        made += 1
        mkdir(*args, **kwargs)

    monkeypatch.setattr(os, "mkdir", counted)
    found = settle(root, before)
    assert sum(one.count for one in found.values()) == 2000 and len(found) < 30 and made < 5
    assert os.listdir(root) == []
    rest = found[".sandbox-native-…"]
    assert rest.count > 1900 and len(os.listdir(rest.arguments)) == 2000


def test_denials_are_bounded(root: Path) -> None:
    before = protection(root, deny_write=tuple(f"x{number}" for number in range(1000)))
    make(root, *(f"x{number}" for number in range(1000)))
    found = settle(root, before)
    assert len(found) == 257 and sum(one.count for one in found.values()) == 1000
    assert os.listdir(root) == []


def test_what_a_host_at_work_in_a_subdirectory_has_made_stays(root: Path) -> None:
    before = protection(root)
    make(root, "sub/", ".sandbox-native-x")
    with opened(root / "sub") as fd:
        claim = claims.claim(fd, ".sandbox-native-upper-")
        (root / claim.name).mkdir()
        assert set(settle(root, before)) == {".sandbox-native-x"}
        claim.remove()
    assert sorted(os.listdir(root)) == [claim.name, "sub"]


def test_where_not_all_could_be_looked_at_it_is_an_error(root: Path) -> None:
    before = protection(root)
    make(root, ".bashrc")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with opened(root) as fd:
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")), limits[1]))
        try:
            with pytest.raises(SetupError, match=f"quarantine failed on '{root}'.*recover"):
                quarantine(fd, before, Policy.strict())
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert set(settle(root, before)) == {".bashrc"}
