"""Where each thing of a policy's is mounted: in the template or in every box, what lies around others first."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from mounted import Seen, mount_points, seen

from sandbox_native._native import lib
from sandbox_native.placing import ASIDE, Places
from sandbox_native.plan import Op
from sandbox_native.rules import Access
from sandbox_native.shown import Shown

EMPTY = [Op(lib.SN_OP_DIR, "/.empty/dir"), Op(lib.SN_OP_FILE, "/.empty/file")]
KEPT_APART = pytest.mark.parametrize("kept_apart", [False, True])


def bind(inside: str, access: Access = Access.READABLE, **more: Any) -> Shown:
    return Shown(kind="bind", inside=inside, source="/host" + inside, access=access, **more)


def writable(inside: str) -> Shown:
    return bind(inside, Access.WRITABLE, device=7, inode=len(inside))


def guard(inside: str, access: Access = Access.PROTECTED) -> Shown:
    return Shown(kind="guard", inside=inside, source="/host" + inside, access=access, device=7, inode=len(inside))


def mask(inside: str, directory: bool = True) -> Shown:
    return Shown(kind="mask", inside=inside, access=Access.HIDDEN, directory=directory)


def placed(shown: Iterable[Shown], kept_apart: bool = False, owner_map: bool = True) -> Places:
    places = Places(kept_apart=kept_apart, owner_map=owner_map)
    places.place_all(shown)
    return places


def look(places: Places, path: str) -> Seen:
    return seen([*EMPTY, *places.template], places.box, path)


NESTED = [bind("/w"), writable("/w/gen"), guard("/w/gen/lock"), writable("/w/gen/lock/out"), mask("/w/gen/secret")]


@KEPT_APART
@pytest.mark.parametrize("top", ["", "/tmp", "/workspace", "/home/guest", "/mnt"])
@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_nesting_to_any_depth_means_what_it_says(kept_apart: bool, top: str, order: tuple[int, ...]) -> None:
    shown = [_moved(one, top) for one in NESTED]
    places = placed([shown[at] for at in order] + shown[3:], kept_apart)
    for path, access, host in [
        ("/w/x", "ro", True),
        ("/w/gen/x", "rw", True),
        ("/w/gen/lock/x", "ro", True),
        ("/w/gen/lock/out/x", "rw", True),
        ("/w/gen/secret/x", "hidden", False),
    ]:
        found = look(places, top + path)
        assert (found.access, found.host) == (access, "/host" + path if host else ""), path


def _moved(one: Shown, top: str) -> Shown:
    return Shown(
        kind=one.kind,
        inside=top + one.inside,
        source=one.source,
        access=one.access,
        device=one.device,
        inode=one.inode,
    )


def test_what_is_mounted_is_what_was_looked_at() -> None:
    places = placed([writable("/w"), guard("/w/a"), bind("/r", device=1, inode=2)])
    assert {(op.target, op.device, op.inode) for op in places.template} == {("/w", 7, 2), ("/w/a", 7, 4), ("/r", 1, 2)}


def test_the_owner_map_reaches_everything_of_a_writable_root_and_no_readable_one() -> None:
    shown = [writable("/w"), guard("/w/a"), guard("/w/b", Access.WRITABLE), bind("/r")]
    for mapped in (True, False):
        flags = {op.target: bool(op.flags & lib.SN_OP_IDMAP) for op in placed(shown, owner_map=mapped).template}
        assert flags == {"/w": mapped, "/w/a": mapped, "/w/b": mapped, "/r": False}
    (aside,) = placed([writable("/w")], kept_apart=True).template
    assert aside.flags & lib.SN_OP_IDMAP
    assert aside.flags & lib.SN_OP_RDONLY


def test_an_ancestor_of_what_is_guarded_is_a_mount_and_stays_writable() -> None:
    for kept_apart in (False, True):
        places = placed([writable("/w"), guard("/w/.git", Access.WRITABLE), guard("/w/.git/hooks")], kept_apart)
        assert look(places, "/w/.git/config").access == "rw"
        assert look(places, "/w/.git/hooks/pre-commit").access == "ro"
        assert {"/w", "/w/.git", "/w/.git/hooks"} <= mount_points(places.template, places.box)


def test_what_is_kept_apart_is_made_in_every_box_and_numbered() -> None:
    places = placed(
        [writable("/a"), writable("/tmp/b"), bind("/c"), writable("/a/d"), bind("/e"), writable("/e/f")], kept_apart=True
    )
    changes = [(op.target, op.source, op.mode) for op in places.box if op.kind == lib.SN_OP_CHANGES]
    assert changes == [("/a", "/a", 1), ("/tmp/b", f"{ASIDE}/0", 2), ("/a/d", f"{ASIDE}/1", 3), ("/e/f", "/e/f", 4)]
    assert [op.target for op in places.template] == ["/a", "/c", "/e", f"{ASIDE}/0", f"{ASIDE}/1", "/e/f"]
    assert all(op.flags & lib.SN_OP_RDONLY for op in places.template)


def test_where_roots_were_kept_is_covered_at_the_end() -> None:
    for shown, kept_apart in ([bind("/tmp/a")], False), ([writable("/a"), bind("/a/b")], True):
        last = placed(shown, kept_apart).box[-1]
        assert (last.kind, last.target, last.source) == (lib.SN_OP_MASK, ASIDE, "/.empty/dir")
    assert placed([bind("/a")]).box == []
    assert [op.target for op in placed([writable("/a")], kept_apart=True).box] == ["/a"]


@KEPT_APART
def test_what_lies_beneath_something_hidden_is_shown_all_the_same(kept_apart: bool) -> None:
    shown = [writable("/w"), mask("/w/s"), bind("/w/s/a/pub"), bind("/w/s/f", directory=False), mask("/w/s/a/more")]
    places = placed([*shown, guard("/w/s/guarded")], kept_apart)
    assert look(places, "/w/s/a/pub/x") == Seen("ro", "/host/w/s/a/pub/x")
    assert look(places, "/w/s/f").host == "/host/w/s/f"
    for hidden in ("/w/s", "/w/s/a", "/w/s/a/more", "/w/s/guarded"):
        assert look(places, hidden).access == "hidden"
    kinds = {op.target: op.kind for op in places.template if op.target.startswith("/.empty/1")}
    assert kinds == {"/.empty/1": lib.SN_OP_DIR, "/.empty/1/a/pub": lib.SN_OP_DIR, "/.empty/1/f": lib.SN_OP_FILE}


def test_something_hidden_is_covered_by_its_own_kind() -> None:
    places = placed([bind("/r"), mask("/r/d"), mask("/r/f", directory=False)])
    assert {op.target: op.source for op in places.template if op.kind == lib.SN_OP_MASK} == {
        "/r/d": "/.empty/dir",
        "/r/f": "/.empty/file",
    }
    assert all(op.flags & lib.SN_OP_RDONLY for op in places.template)


def test_a_root_with_sockets_is_an_overlay_wherever_it_is_mounted() -> None:
    overlay = Shown(kind="overlay", inside="/run/a", source="/host/a", device=1, inode=2)
    (op,) = placed([overlay]).template
    assert (op.kind, op.source, op.device, op.inode) == (lib.SN_OP_OVERLAY, "/host/a", 1, 2)
    assert op.flags & lib.SN_OP_RDONLY
    beneath_tmp = placed([_moved(overlay, "/tmp")])
    assert beneath_tmp.template[0].kind == lib.SN_OP_OVERLAY
    assert look(beneath_tmp, "/tmp/run/a/x").host == "/host/a/x"


def test_a_root_can_be_shown_piece_by_piece() -> None:
    pieces = [
        Shown(kind="dir", inside="/h"),
        Shown(kind="dir", inside="/h/d"),
        Shown(kind="link", inside="/h/l", source="d/x"),
        bind("/h/d/x"),
    ]
    places = placed(pieces)
    assert [(op.kind, op.target, op.data) for op in places.template] == [
        (lib.SN_OP_DIR, "/h", b""),
        (lib.SN_OP_DIR, "/h/d", b""),
        (lib.SN_OP_SYMLINK, "/h/l", b"d/x"),
        (lib.SN_OP_BIND, "/h/d/x", b""),
    ]
    moved = placed([_moved(one, "/tmp") for one in pieces])
    assert [(op.kind, op.target) for op in moved.template] == [
        (lib.SN_OP_DIR, f"{ASIDE}/0"),
        (lib.SN_OP_DIR, f"{ASIDE}/0/d"),
        (lib.SN_OP_SYMLINK, f"{ASIDE}/0/l"),
        (lib.SN_OP_BIND, f"{ASIDE}/0/d/x"),
    ]
    assert [(op.kind, op.target) for op in moved.box] == [(lib.SN_OP_BIND, "/tmp/h"), (lib.SN_OP_MASK, ASIDE)]


def test_a_link_beneath_the_box_s_own_gets_a_directory_for_itself_and_its_neighbours() -> None:
    places = placed([Shown(kind="link", inside="/tmp/v/bin/python", source="/usr/bin/python3"), bind("/tmp/v/bin/lib")])
    assert look(places, "/tmp/v/bin/lib/x").host == "/host/tmp/v/bin/lib/x"
    assert [op.target for op in places.box] == ["/tmp/v/bin", ASIDE]


def test_nothing_is_ever_made_in_a_directory_of_the_host() -> None:
    places = placed([bind("/w"), Shown(kind="dir", inside="/w/new"), bind("/w/new/in")])
    made = [op.target for op in places.template if op.kind == lib.SN_OP_DIR]
    assert made and all(target.startswith(ASIDE) for target in made)
    assert Op(lib.SN_OP_BIND, "/w/new", source=f"{ASIDE}/0") in places.box
    assert look(places, "/w/new/in/x").access == "ro"
